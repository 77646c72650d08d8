"""Reads the facts of one Ray cluster from its dashboard over HTTP. Ray 2.9 to 2.60."""
