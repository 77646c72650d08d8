"""Writes files atomically, and reads the file with the last status line."""
