"""Moments as people type them: `03:10`, `-20m`, `2026-11-23T03:10`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

EXPECTED = "a time such as 03:10, 2026-11-23T03:10 or -20m"
UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_moment(text: str, now: float) -> float:
    """A time of day is the last one before `now`, in this host's time zone; `-20m` is so long before it. Raises `ValueError`."""
    text = text.strip()
    if ago := re.fullmatch(r"-(\d{1,6}(?:\.\d{1,3})?)([smhd])", text, re.ASCII):
        return now - float(ago[1]) * UNIT_S[ago[2]]
    try:
        if clock := re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d))?", text, re.ASCII):
            return _last_time(int(clock[1]), int(clock[2]), int(clock[3] or 0), now)
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"expected {EXPECTED}, got {text}") from None


def _last_time(hour: int, minute: int, second: int, now: float) -> float:
    today = datetime.fromtimestamp(now)
    at = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return (at if at <= today else at - timedelta(days=1)).timestamp()


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
