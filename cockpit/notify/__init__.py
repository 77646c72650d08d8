"""Sends notifications: each message is the difference between the current findings and those that were already sent."""

import sys

# httpx brings a command line of its own, and with it rich and pygments: 40 ms, for nothing.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
