"""A preset's job, or one that has ended, is submitted once."""
