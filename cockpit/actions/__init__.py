"""What an operator can do to a cluster: plans, what they cost, how they are said, and the log of what was done. Pure but for the log."""
