"""Joins the steps that a job's log prints with those that the titles of its workers show (pure)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from cockpit.model import LogSteps, Step

PACE_STEPS: Final = 5
"""Printed steps over which both must count the same."""
PACE_TOLERANCE: Final = 1
"""A line comes a moment before or after the end that the titles show, and is read later."""
MAX_POINTS, MAX_LOGGED = 60, 50
OFFSET_POINTS: Final = 5
"""Reads from which the difference of both counts is taken, the most frequent one: a single read may come between line and title."""
SURE_POINTS: Final = 3
"""Reads after which a step keeps its number."""


class LogPace:
    """What the log of one job says about its steps, beside what the titles say."""

    def __init__(self) -> None:
        self.log: LogSteps | None = None
        self._points: deque[tuple[int, int]] = deque(maxlen=MAX_POINTS)
        """At each read: the number of the last step that had ended by the log, and how many steps the titles had shown."""
        self._first = 0
        """The first of their numbers."""
        self._logged: dict[int, Step] = {}
        self._numbers: dict[int, int] = {}
        """By the count of the titles: the number of the log."""

    def take(self, log: LogSteps | None, seen: int) -> None:
        """Take over what the log says now. `seen`: steps that the titles have shown."""
        before, self.log = self.log, log
        if log is None or (before is not None and before.read == log.read):
            return
        printed = log.running - 1
        if self._points and printed < self._points[-1][0]:
            self._points.clear()  # it counts anew
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
        """Whether the titles end steps in another pace than the log prints."""
        if not self._points or self._points[-1][1] == 0:
            return False
        printed, seen = self._points[-1]
        before = next((point for point in reversed(self._points) if printed - point[0] >= PACE_STEPS), None)
        return before is not None and abs((printed - before[0]) - (seen - before[1])) > PACE_TOLERANCE

    @property
    def offset(self) -> int | None:
        """What must be added to the count of the titles for the number of the log; `None`: unknown, or their pace differs."""
        if not self._points or self.disagrees:
            return None
        return Counter(printed - seen for printed, seen in list(self._points)[: -OFFSET_POINTS - 1 : -1]).most_common(1)[0][0]

    @property
    def printed_since(self) -> int:
        """How many steps the log has printed since cockpit reads it."""
        return self._points[-1][0] - self._first if self._points else 0

    def running(self, seen: int) -> int | None:
        """The number of the running step: the titles show its begin earlier than the log, if both agree. `None`: the log names none."""
        offset = self.offset
        by_titles = seen + 1 + offset if offset is not None else None
        if self.log is None:
            return by_titles
        is_sure = by_titles is not None and seen > 0 and len(self._points) >= SURE_POINTS
        return by_titles if is_sure and by_titles in (self.log.running, self.log.running + 1) else self.log.running

    def join(self, steps: Iterable[Step], seen: int) -> tuple[Step, ...]:
        """The steps of the titles with the numbers of the log, and before them those that only the log knows.

        If the titles show no steps, or end them in another pace, the steps are those of the log. `seen`: the count of the last one.
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
