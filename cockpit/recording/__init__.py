"""Writes snapshots and events to disk, and reads the state at any recorded moment."""
