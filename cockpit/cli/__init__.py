"""Turns flags into a config, and a config into the screen or one command."""
