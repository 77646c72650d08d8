"""What was seen, kept on disk: written as it happens, read at any moment of it."""
