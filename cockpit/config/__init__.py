"""Reads the user's settings: thresholds of findings, hosts and how they are reached, notifications."""
