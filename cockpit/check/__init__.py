"""Checks whether a preset's job fits now, later or never."""
