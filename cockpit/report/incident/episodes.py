"""Follows findings and faults through a recording, each from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from cockpit.model import LEVELS, Finding
from cockpit.recording.events import Event
from cockpit.text.grouping import group_by

Thing = TypeVar("Thing")
AGAIN_WITHIN_S = 60.0
"""Seconds within which a thing that comes back continues its episode."""


class Span(msgspec.Struct, Generic[Thing]):
    """One thing and the time for which it was there."""

    key: str
    thing: Thing
    begin: float
    last: float
    """When it was last seen."""
    end: float | None = None
    times: int = 1
    told_at: float | None = None
    """The moment of `thing`; `None`: the beginning."""


class Spans(Generic[Thing]):
    """Collects spans from the things that are there at one moment after the other."""

    def __init__(self, choose: Callable[[Thing, Thing], Thing] = lambda _, now: now) -> None:
        """`choose`: picks the value to keep of a thing, from the kept one and the present one."""
        self._choose = choose
        self.all: list[Span[Thing]] = []
        self._latest: dict[str, Span[Thing]] = {}
        self._open: dict[str, Span[Thing]] = {}

    def see(self, now: float, things: Mapping[str, tuple[Thing, float]]) -> None:
        """Take all things that are there now, by key, each with the moment since which it is there."""
        for key in [key for key in self._open if key not in things]:
            self._open.pop(key).end = now
        for key, (thing, began) in things.items():
            span = self._open.get(key)
            if span is None:
                since, before = min(began, now), self._latest.get(key)
                if before is not None and before.end is not None and since - before.end <= AGAIN_WITHIN_S:
                    span = before
                    span.end, span.times = None, span.times + 1
                else:
                    span = Span(key, thing, since, since)
                    self.all.append(span)
                self._open[key] = self._latest[key] = span
            span.thing, span.last = self._choose(span.thing, thing), now
            span.told_at = now if span.thing is thing else span.told_at


def worse_finding(before: Finding, now: Finding) -> Finding:
    """Keeps the most severe finding; of two with the same level, the later one."""
    return before if LEVELS.index(before.level) < LEVELS.index(now.level) else now


def event_spans(events: Iterable[Event], end: float) -> list[Span[Finding]]:
    """Spans of findings from the events of their beginnings and ends; `end`: of the recording."""
    found: list[Span[Finding]] = []
    opened: dict[str, Span[Finding]] = {}
    for event in sorted(events, key=lambda event: event.at):
        key = event.key or ""
        if event.kind == "finding" and event.phase == "begin":
            opened[key] = Span(key, _finding_of(key, event), event.at, end)
            found.append(opened[key])
        elif event.phase == "worse" and key in opened:
            opened[key].thing, opened[key].told_at = _finding_of(key, event), event.at
        elif event.kind == "finding" and event.phase == "end" and (span := opened.pop(key, None)) is not None:
            span.end = span.last = event.at
    return found


def _finding_of(key: str, event: Event) -> Finding:
    code, _, subject = key.removeprefix("finding:").partition(":")
    return Finding(code, event.level or "info", event.subject or subject, event.text, since=event.at, about=event.about)


def complete_spans(seen: Sequence[Span[Finding]], from_events: Iterable[Span[Finding]]) -> list[Span[Finding]]:
    """The spans seen in snapshots, and those known only from events, because they began and ended between two snapshots."""
    known = group_by(seen, lambda span: span.key)
    missed: list[Span[Finding]] = []
    for span in from_events:
        alike = known.get(span.key, ())
        if not any(span.begin - AGAIN_WITHIN_S <= one.last and one.begin - AGAIN_WITHIN_S <= span.last for one in alike):
            missed.append(span)
    return sorted([*seen, *missed], key=lambda span: span.begin)
