"""Provides the clock, reads and writes times as people do, and caches answers for a while."""
