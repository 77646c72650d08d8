"""A number over time, a few bytes a step: its past, how fast it grows, and when it will reach a line at that."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, nan

import msgspec

MIN_KNOWN_STEPS = 6
"""Steps that must be known before a growth is told."""
TREND_POINTS = 9
"""As many of them, about, are compared, each with each: enough for a median."""
MAX_CONTRADICTING_SHARE = 0.28
"""What came in one go makes four of ten comparisons zero, and two jumps in the window a quarter: what grows in all but this share of
them grows steadily enough to be told ahead."""


class Trend(msgspec.Struct, frozen=True):
    """How something has grown, by so much a second; `steady` when hardly a part of the time contradicts, the last of it least."""

    slope: float
    steady: bool


class Series:
    """The last values of a number; a step in which nothing was heard is a gap."""

    __slots__ = ("last", "most", "values")

    def __init__(self, step: int, most: int) -> None:
        """`most`: steps that are kept."""
        self.last, self.most = step - 1, most
        self.values = array("f")

    def put(self, step: int, value: float) -> None:
        """The value of a step, in place of what was its value."""
        if step <= self.last and self.values:
            self.values.pop()
        elif step > self.last + 1:
            self.values.extend([nan] * min(self.most, step - self.last - 1))
        self.values.append(value)
        self.last = step
        if len(self.values) > self.most:
            del self.values[: -self.most]

    def tail(self, now: int, width: int) -> list[float | None]:
        """Its values in the last `width` steps, newest last; `None` where nothing was heard."""
        old = min(max(0, now - self.last), width)
        known = [value if isfinite(value) else None for value in self.values[-(width - old) :]] if old < width else []
        return [*[None] * (width - old - len(known)), *known, *[None] * old]


def find_trend(values: Sequence[float | None], step_s: float) -> Trend | None:
    """The median of all pairs (Theil and Sen): a spike, or a value that came late, moves it little. `None`: too little is known."""
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
    """Seconds until the line is reached at that growth; `None` when it never is."""
    if used >= line:
        return 0.0
    return (line - used) / slope if slope > 0 else None
