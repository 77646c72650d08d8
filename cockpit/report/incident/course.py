"""The course of the whole cluster: few points, however long it was watched."""

from __future__ import annotations

from cockpit.model import HostMemory, Snapshot
from cockpit.report.incident.account import Point
from cockpit.usage import Fleet

MAX_POINTS = 480
"""As many as a chart can show."""


class Course:
    """Points in their order; where there are too many, each two become one."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._merged: list[int] = []
        self._width = 1

    @property
    def points(self) -> tuple[Point, ...]:
        """All, the oldest first."""
        return tuple(self._points)

    def add(self, point: Point) -> None:
        """The next one."""
        if self._points and self._merged[-1] < self._width:
            self._points[-1] = _merge(self._points[-1], point, self._merged[-1])
            self._merged[-1] += 1
        else:
            self._points.append(point)
            self._merged.append(1)
        if len(self._points) > MAX_POINTS:
            self._halve()

    def _halve(self) -> None:
        points, merged, self._width = self._points, self._merged, 2 * self._width
        self._points, self._merged = [], []
        for at in range(0, len(points), 2):
            pair = points[at : at + 2]
            self._points.append(pair[0] if len(pair) == 1 else _merge(pair[0], pair[1], merged[at], merged[at + 1]))
            self._merged.append(sum(merged[at : at + 2]))


def _merge(one: Point, other: Point, weight: int, more: int = 1) -> Point:
    """The mean of both, and the greater of their memory: a peak must not vanish."""

    def mean(before: float | None, after: float | None) -> float | None:
        return after if before is None else before if after is None else (weight * before + more * after) / (weight + more)

    memory = [each for each in (one.memory, other.memory) if each is not None]
    return Point(
        at=other.at,
        gpus=mean(one.gpus, other.gpus),
        reserved=mean(one.reserved, other.reserved),
        busy=mean(one.busy, other.busy),
        unknown=mean(one.unknown, other.unknown) or 0.0,
        memory=max(memory, default=None),
    )


def point_of(snapshot: Snapshot, fleet: Fleet) -> Point:
    """The whole cluster at one moment."""
    fills = [share for node in snapshot.nodes or () if node.state != "DEAD" and (share := _fill(node.memory)) is not None]
    return Point(snapshot.taken, fleet.gpus, fleet.reserved, fleet.busy, fleet.unknown, max(fills, default=None))


def _fill(memory: HostMemory) -> float | None:
    most = memory.kill_at or memory.total
    return memory.used / most if memory.used is not None and most else None
