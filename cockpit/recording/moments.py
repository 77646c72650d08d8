"""Spans of time as people type them: `02:10..02:40`."""

from __future__ import annotations

from cockpit.moment import parse_moment


def parse_span(text: str, now: float) -> tuple[float, float]:
    """`02:10..02:40`. Raises `ValueError`."""
    first, mark, last = text.partition("..")
    if not mark:
        raise ValueError(f"expected two times such as 02:10..02:40, got {text}")
    end = parse_moment(last, now) if last.strip() else now
    begin = parse_moment(first, now if first.strip().startswith("-") else end)
    if begin >= end:
        raise ValueError(f"expected an earlier and a later time, got {text}")
    return begin, end
