"""Hosts that only a living Ray reaches: what runs in the cluster's own Python and carries our requests."""
