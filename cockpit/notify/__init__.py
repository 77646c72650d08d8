"""Tells whoever isn't looking: what is told is the difference between the findings that hold and those that were told before."""
