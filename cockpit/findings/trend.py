"""Keeps the past of a number in a few bytes a step, measures its growth, and predicts when it reaches a line."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, nan

import msgspec

MIN_KNOWN_STEPS = 6
"""Known steps that a trend needs."""
TREND_POINTS = 9
"""About this many steps are compared, each with each: enough for a median."""
MAX_CONTRADICTING_SHARE = 0.28
"""Share of comparisons without growth up to which growth counts as steady. A single jump makes four of ten comparisons zero, two jumps
in the window a quarter of them."""


class Trend(msgspec.Struct, frozen=True):
    """The growth of a number per second; `steady`: it grew nearly all the time, and most recently too."""

    slope: float
    steady: bool


class Series:
    """The last values of a number; a step without a sample is a gap."""

    __slots__ = ("last", "most", "values")

    def __init__(self, step: int, most: int) -> None:
        """`most`: the number of steps to keep."""
        self.last, self.most = step - 1, most
        self.values = array("f")

    def put(self, step: int, value: float) -> None:
        """Set the value of a step; a second value replaces the first."""
        if step <= self.last and self.values:
            self.values.pop()
        elif step > self.last + 1:
            self.values.extend([nan] * min(self.most, step - self.last - 1))
        self.values.append(value)
        self.last = step
        if len(self.values) > self.most:
            del self.values[: -self.most]

    def tail(self, now: int, width: int) -> list[float | None]:
        """The values of the last `width` steps, newest last; `None` for gaps."""
        old = min(max(0, now - self.last), width)
        known = [value if isfinite(value) else None for value in self.values[-(width - old) :]] if old < width else []
        return [*[None] * (width - old - len(known)), *known, *[None] * old]


def find_trend(values: Sequence[float | None], step_s: float) -> Trend | None:
    """The median slope of all pairs (Theil and Sen): a spike or a late value changes it little. `None`: too little is known."""
    points = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(points) < MIN_KNOWN_STEPS:
        return None
    points = points[:: -1 * -(-len(points) // TREND_POINTS)][::-1]
    slopes = sorted(
        (later - earlier) / ((after - before) * step_s) for at, (after, later) in enumerate(points) for before, earlier in points[:at]
    )
    middle = sorted(value for _, value in points)[len(points) // 2]
    return Trend(slopes[len(slopes) // 2], slopes[int(MAX_CONTRADICTING_SHARE * len(slopes))] > 0 and points[-1][1] >= middle)


def seconds_until(used: float, line: float, slope: float) -> float | None:
    """Seconds until the line is reached at this growth; `None`: never."""
    if used >= line:
        return 0.0
    return (line - used) / slope if slope > 0 else None
