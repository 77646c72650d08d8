"""Joins the steps that the log of a job prints with the steps that the titles of its workers show (pure)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from cockpit.model import LogSteps, Step

PACE_STEPS: Final = 5
"""Over this many printed steps, log and titles must count the same number of steps."""
PACE_TOLERANCE: Final = 1
"""Steps by which the two counts may differ: the log prints its line a moment before or after the title changes, and is read later."""
MAX_POINTS, MAX_LOGGED = 60, 50
OFFSET_POINTS: Final = 5
"""The most frequent difference in so many reads counts: a single read may fall between the line and the change of the title."""
SURE_POINTS: Final = 3
"""After so many reads a step keeps its number."""


class LogPace:
    """Compares the steps in the log of one job with those in its titles, and gives steps the numbers of the log."""

    def __init__(self) -> None:
        self.log: LogSteps | None = None
        self._points: deque[tuple[int, int]] = deque(maxlen=MAX_POINTS)
        """For each read: the number of the last ended step in the log, and the number of steps that the titles had shown."""
        self._first = 0
        """The number of the last ended step at the first read."""
        self._logged: dict[int, Step] = {}
        self._numbers: dict[int, int] = {}
        """By the count of steps in the titles: the number of that step in the log."""

    def take(self, log: LogSteps | None, seen: int) -> None:
        """Take over what the log says now. `seen`: the number of steps that the titles have shown."""
        before, self.log = self.log, log
        if log is None or (before is not None and before.read == log.read):
            return
        printed = log.running - 1
        if self._points and printed < self._points[-1][0]:
            self._points.clear()  # the log counts from the start again
            self._logged.clear()
            self._numbers.clear()
        if not self._points:
            self._first = printed
        self._points.append((printed, seen))
        self._logged.update((step.number, step) for step in log.ended if step.number is not None)
        for number in sorted(self._logged)[:-MAX_LOGGED]:
            del self._logged[number]
        if (offset := self.offset) is not None and len(self._points) >= SURE_POINTS:
            self._numbers = {count: self._numbers.get(count, count + offset) for count in range(max(1, seen - MAX_LOGGED), seen + 1)}

    @property
    def disagrees(self) -> bool:
        """Whether the titles show another number of steps than the log prints."""
        if not self._points or self._points[-1][1] == 0:
            return False
        printed, seen = self._points[-1]
        before = next((point for point in reversed(self._points) if printed - point[0] >= PACE_STEPS), None)
        return before is not None and abs((printed - before[0]) - (seen - before[1])) > PACE_TOLERANCE

    @property
    def offset(self) -> int | None:
        """The number of a step in the log minus its count in the titles; `None`: it is unknown, or the two disagree."""
        if not self._points or self.disagrees:
            return None
        return Counter(printed - seen for printed, seen in list(self._points)[: -OFFSET_POINTS - 1 : -1]).most_common(1)[0][0]

    @property
    def printed_since(self) -> int:
        """The number of steps that the log has printed since the first read."""
        return self._points[-1][0] - self._first if self._points else 0

    def running(self, seen: int) -> int | None:
        """The number of the running step; `None`: the log names none. Titles show its begin earlier than the log, if both agree."""
        offset = self.offset
        by_titles = seen + 1 + offset if offset is not None else None
        if self.log is None:
            return by_titles
        is_sure = by_titles is not None and seen > 0 and len(self._points) >= SURE_POINTS
        return by_titles if is_sure and by_titles in (self.log.running, self.log.running + 1) else self.log.running

    def join(self, steps: Iterable[Step], seen: int) -> tuple[Step, ...]:
        """The steps of the titles with the numbers of the log, after the earlier steps that only the log has.

        If the titles show no steps, or disagree with the log, the steps are those of the log. `seen`: the last count of the titles.
        """
        shown, logged = list(steps), [self._logged[number] for number in sorted(self._logged)]
        if not self._points:
            return tuple(shown)
        if not shown or self.disagrees:
            return tuple(logged)
        offset = self.offset
        if offset is not None:
            counted = enumerate(shown, seen - len(shown) + 1)
            shown = [replace(step, number=self._numbers.get(count, count + offset)) for count, step in counted]
        begin = shown[0].began
        return (*(step for step in logged if step.ended <= begin + step.seconds / 2), *shown)
