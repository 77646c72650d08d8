"""Training frameworks: what a command of each asks Ray for."""
