"""Submits a preset's job, or a job that has ended, exactly once."""
