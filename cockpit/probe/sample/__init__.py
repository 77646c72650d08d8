"""Reads the state of a host: GPUs, memory, processes and Ray's sessions. It changes nothing."""
