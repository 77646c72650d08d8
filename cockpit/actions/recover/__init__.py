"""Recovers a cluster: the steps from a stuck cluster to a running job, and the progress of each."""
