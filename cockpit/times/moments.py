"""Reads and writes a time as people do: `03:10`, `-20m`, `11-22 03:10`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from cockpit.text import UNKNOWN
from cockpit.times.clock import CLOCK

EXAMPLES: Final = "03:10, 03:10:20, -20m, -1h30m, 11-22 03:10, 2026-11-22 03:10"
ALMOST_A_SECOND: Final = 0.999
_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_BEFORE: Final = r"(?a)-\s*((?:\d{1,6}(?:\.\d{1,3})?\s*[dhms]\s*)+)"
_AT: Final = r"(?a)(?:(?:(\d{4})-)?(\d{1,2})-(\d{1,2})[ T]+)?(\d{1,2}):(\d{2})(?::(\d{2}))?"
_ONE_DAY: Final = timedelta(days=1)


def parse_moment(text: str, now: float, *, at_its_end: bool = False) -> float:
    """Return the time in seconds since 1970. A time without a date is the last one before `now`. Raises `ValueError` with a sentence.

    `at_its_end` returns the end of the named second, so that everything in that second has happened.
    """
    typed = text.strip()
    if before := re.fullmatch(_BEFORE, typed):
        return now - sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)\s*([dhms])", before[1]))
    if at := re.fullmatch(_AT, typed):
        with suppress(ValueError, OverflowError, OSError):
            found = _last_such([None if part is None else int(part) for part in at.groups()], now)
            return found + ALMOST_A_SECOND if at_its_end else found
    with suppress(ValueError, OverflowError, OSError):
        if (dated := datetime.fromisoformat(typed.replace("Z", "+00:00"))).tzinfo is not None:
            return dated.timestamp() + CLOCK.shift()
    raise ValueError(f"expected a time such as {EXAMPLES}, got {typed!r}")


def parse_span(text: str, now: float) -> tuple[float, float]:
    """Return begin and end of a span such as `02:10..02:40`. Raises `ValueError`."""
    first, mark, last = text.partition("..")
    if not mark:
        raise ValueError(f"expected two times such as 02:10..02:40, got {text}")
    end = parse_moment(last, now) if last.strip() else now
    begin = parse_moment(first, now if first.strip().startswith("-") else end)
    if begin >= end:
        raise ValueError(f"expected an earlier and a later time, got {text}")
    return begin, end


def _last_such(parts: Sequence[int | None], now: float) -> float:
    """Complete year, month, day, hour, minute and second, so that the result is the last such time before `now`; a given year is kept."""
    today = _local(now)
    year, month, day = (named if given is None else given for given, named in zip(parts, today.timetuple()[:3], strict=False))
    hour, minute, second = (part or 0 for part in parts[3:])
    found = datetime(year, month, day, hour, minute, second)
    if parts[0] is None and found > today:
        found = found - _ONE_DAY if parts[1] is None else found.replace(year=found.year - 1)
    return found.timestamp() + CLOCK.shift()


def _local(moment: float) -> datetime:
    return datetime.fromtimestamp(moment - CLOCK.shift())


def format_time(moment: float, now: float, *, seconds: bool = True) -> str:
    """Return `03:10:20`, with the date if it is another day than `now`."""
    try:
        there, here = _local(moment), _local(now)
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        return UNKNOWN
    date = "" if there.date() == here.date() else f"{there:%m-%d} " if there.year == here.year else f"{there:%Y-%m-%d} "
    return date + (f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}")
