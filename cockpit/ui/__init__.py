"""Draws the screen; the only package that knows Textual."""
