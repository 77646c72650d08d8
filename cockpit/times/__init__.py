"""The clock, times as people write them, and answers that are kept for a while."""
