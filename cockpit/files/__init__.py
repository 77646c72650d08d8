"""Files that are replaced at once, and the file with the last status line."""
