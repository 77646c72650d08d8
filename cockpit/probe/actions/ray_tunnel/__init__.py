"""Reaches hosts through a live Ray if nothing else reaches them: a program in the cluster's own Python carries our requests."""
