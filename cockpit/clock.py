"""What time it is for cockpit: the date at which it was started, carried on by a clock that nobody sets.

A wall clock that is set would make everything look an hour old, or nothing grow old for an hour. What others date by a wall clock of theirs
is told by this one with `shift`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MIN_STEP_S = 1.0
"""Seconds by which a wall clock must differ to have been set; less is only its drift, and would make every date a new one."""


def since_boot() -> float:
    """Seconds; those in which a laptop slept count, as they do for what it looks at."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """Seconds since 1970, as this host's wall clock had them when this was made."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot) -> None:
        self._wall, self._steady = wall, steady
        self._begun = wall() - steady()
        self._shift = 0.0

    def __call__(self) -> float:
        """Now."""
        return self._begun + self._steady()

    def shift(self) -> float:
        """Seconds to add to a date of the wall clock, so that it is one of this clock; 0 while nobody has set that."""
        ahead = self() - self._wall()
        if abs(ahead - self._shift) > MIN_STEP_S:
            self._shift = ahead if abs(ahead) > MIN_STEP_S else 0.0
        return self._shift


CLOCK = Clock()
"""The one that all of a program's facts are dated by."""


def shift_of(clock: Callable[[], float]) -> Callable[[], float]:
    """How dates of the wall clock become dates of `clock`; one that is not ours is taken for the wall clock."""
    return clock.shift if isinstance(clock, Clock) else lambda: 0.0


def redate(moment: float | None, by: float) -> float | None:
    """An unknown date stays unknown."""
    return None if moment is None else moment + by
