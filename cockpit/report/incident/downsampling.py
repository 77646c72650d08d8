"""Reduces the course of the whole cluster to a few points, however long it was watched."""

from __future__ import annotations

from functools import reduce

from cockpit.model import Snapshot
from cockpit.report.incident.account import Point
from cockpit.usage import Fleet

MAX_POINTS = 480
"""Most points that a chart can show."""
Weighed = tuple[Point, int]
"""A point, and the number of moments that it is the mean of."""


class Course:
    """Points in their order; if there are too many, each two become one."""

    def __init__(self) -> None:
        self._points: list[Weighed] = []
        self._width = 1

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, the oldest first."""
        return tuple(point for point, _ in self._points)

    def add(self, point: Point) -> None:
        """Add the next point."""
        if self._points and self._points[-1][1] < self._width:
            self._points[-1] = _merge(self._points[-1], (point, 1))
        else:
            self._points.append((point, 1))
        if len(self._points) > MAX_POINTS:
            self._width *= 2
            self._points = [reduce(_merge, self._points[at : at + 2]) for at in range(0, len(self._points), 2)]


def _merge(earlier: Weighed, later: Weighed) -> Weighed:
    """The weighted mean of both; of memory the larger value, so that no peak is lost."""
    (one, weight), (other, more) = earlier, later

    def mean(before: float | None, after: float | None) -> float | None:
        return after if before is None else before if after is None else (weight * before + more * after) / (weight + more)

    memory = [each for each in (one.memory, other.memory) if each is not None]
    point = Point(
        at=other.at,
        gpus=mean(one.gpus, other.gpus),
        reserved=mean(one.reserved, other.reserved),
        busy=mean(one.busy, other.busy),
        unknown=mean(one.unknown, other.unknown) or 0.0,
        memory=max(memory, default=None),
    )
    return point, weight + more


def point_of(snapshot: Snapshot, fleet: Fleet) -> Point:
    """The whole cluster at one moment."""
    shares: list[float] = []
    for node in snapshot.nodes or ():
        memory = snapshot.index.machine(node).memory
        most = memory.kill_at or memory.total
        if node.state != "DEAD" and memory.used is not None and most:
            shares.append(memory.used / most)
    return Point(snapshot.taken, fleet.gpus, fleet.reserved, fleet.busy, fleet.unknown, max(shares, default=None))
