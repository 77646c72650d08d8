"""Runs probes on this host, over ssh or through Ray, and reads their output line by line."""
