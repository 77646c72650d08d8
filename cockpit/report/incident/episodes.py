"""What came and went while somebody looked: findings and faults, each from its first sight to its last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from cockpit.alike import group_by
from cockpit.model import LEVELS, Finding
from cockpit.recording.events import Event

Thing = TypeVar("Thing")
AGAIN_WITHIN_S = 60.0
"""Seconds within which what comes again is the same episode."""


class Span(msgspec.Struct, Generic[Thing]):
    """One thing, for as long as it was there."""

    key: str
    thing: Thing
    begin: float
    last: float
    """When it was seen last."""
    end: float | None = None
    times: int = 1
    told_at: float | None = None
    """Of which moment `thing` is; `None`: of the beginning."""


class Spans(Generic[Thing]):
    """Fed with what is there at one moment after the other."""

    def __init__(self, choose: Callable[[Thing, Thing], Thing] = lambda _, now: now) -> None:
        """`choose`: which tells more of a thing, what was told before or what is told now."""
        self._choose = choose
        self.all: list[Span[Thing]] = []
        self._latest: dict[str, Span[Thing]] = {}
        self._open: dict[str, Span[Thing]] = {}

    def see(self, now: float, things: Mapping[str, tuple[Thing, float]]) -> None:
        """All that is there, by key, with since when."""
        for key in [key for key in self._open if key not in things]:
            self._open.pop(key).end = now
        for key, (thing, since) in things.items():
            span = self._open.get(key) or self._begin(key, thing, min(since, now))
            span.thing, span.last = self._choose(span.thing, thing), now
            span.told_at = now if span.thing is thing else span.told_at

    def _begin(self, key: str, thing: Thing, since: float) -> Span[Thing]:
        before = self._latest.get(key)
        if before is not None and before.end is not None and since - before.end <= AGAIN_WITHIN_S:
            before.end, before.times = None, before.times + 1
            span = before
        else:
            span = Span(key, thing, since, since)
            self.all.append(span)
        self._open[key] = self._latest[key] = span
        return span


def worse_finding(before: Finding, now: Finding) -> Finding:
    """What is told of a finding is what it said when it was worst; the later of two as bad."""
    return before if LEVELS.index(before.level) < LEVELS.index(now.level) else now


def told_spans(events: Iterable[Event], end: float) -> list[Span[Finding]]:
    """Findings by what events tell of them, which is when they came and went; `end`: of the recording."""
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


def complete_spans(seen: Sequence[Span[Finding]], told: Iterable[Span[Finding]]) -> list[Span[Finding]]:
    """Those that were seen, and those that came and went between two looks, of which events alone tell."""
    known = group_by(seen, lambda span: span.key)
    missed = [span for span in told if not any(_meet(span, one) for one in known.get(span.key, ()))]
    return sorted([*seen, *missed], key=lambda span: span.begin)


def _meet(one: Span[Finding], other: Span[Finding]) -> bool:
    return one.begin - AGAIN_WITHIN_S <= other.last and other.begin - AGAIN_WITHIN_S <= one.last
