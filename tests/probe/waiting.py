"""Waits in a test for a fact."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(fact: Callable[[], Any], what: str = "", within: float = 60.0) -> None:
    """Returns when `fact` is true; the test fails with `what` if that takes too long."""
    limit = time.monotonic() + within
    while not fact():
        assert time.monotonic() < limit, what
        time.sleep(0.005)
