"""How the time of something grows with its size, in time of our own thread: what else the machine does is not ours."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TIMES = 8


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether eight times the size takes less than three times eight times as long: what grows with its square takes 64 times."""
    gc.collect()
    return _fastest(work, size * TIMES) < 3 * TIMES * max(_fastest(work, size), 50e-6)


def _fastest(work: Callable[[int], object], size: int) -> float:
    return min(_timed(work, size) for _ in range(3))


def _timed(work: Callable[[int], object], size: int) -> float:
    began = time.thread_time()
    work(size)
    return time.thread_time() - began
