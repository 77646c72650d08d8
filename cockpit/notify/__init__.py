"""Tells whoever isn't looking: what is told is the difference between the findings that hold and those that were told before."""

import sys

# httpx brings a command line of its own, and with it rich and pygments: 40 ms, for nothing.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
