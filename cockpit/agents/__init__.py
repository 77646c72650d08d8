"""Serves a coding agent (Model Context Protocol): tools that show what the commands show, and plans that a person must agree to."""
