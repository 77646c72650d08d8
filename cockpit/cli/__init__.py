"""The command line: flags become a config, a config becomes the screen or one command."""
