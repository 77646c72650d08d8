"""Polls Ray and the hosts, and joins their answers into snapshots with reasons and findings."""
