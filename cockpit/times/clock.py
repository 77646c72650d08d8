"""Provides the time: the wall clock's date at the start, continued by a clock that nobody can set.

If somebody sets the wall clock, all facts would look an hour old, or none would grow old for an hour. Dates from other wall clocks are
converted with `shift`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MIN_STEP_S = 1.0
"""A difference from which the wall clock counts as set. A smaller one is drift; following it would change every date all the time."""


def since_boot() -> float:
    """Return seconds, including those in which the host was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """Returns seconds since 1970, by the wall clock at its creation."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot) -> None:
        self._wall, self._steady = wall, steady
        self._begun = wall() - steady()
        self._shift = 0.0

    def __call__(self) -> float:
        """Return the current time."""
        return self._begun + self._steady()

    def shift(self) -> float:
        """Return the seconds to add to a date of the wall clock; 0 while nobody has set it."""
        ahead = self() - self._wall()
        if abs(ahead - self._shift) > MIN_STEP_S:
            self._shift = ahead if abs(ahead) > MIN_STEP_S else 0.0
        return self._shift


CLOCK = Clock()
"""The clock for the dates of all facts."""


def shift_of(clock: Callable[[], float]) -> Callable[[], float]:
    """Return the function with the seconds to add to dates of the wall clock, so that they are dates of `clock`."""
    return clock.shift if isinstance(clock, Clock) else lambda: 0.0


def redate(moment: float | None, by: float) -> float | None:
    """Return the date plus `by` seconds; an unknown date stays unknown."""
    return None if moment is None else moment + by
