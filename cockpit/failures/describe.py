"""Turns a root error into a failure: its texts cleaned, cut, and without secrets."""

from __future__ import annotations

from typing import Final

from cockpit.failures.root_error import RootError
from cockpit.model import Failure
from cockpit.secrets import redact
from cockpit.text import clean

MAX_LINES: Final = 5
MAX_CHARS: Final = 300
"""Of a line, and of each sentence."""


def describe(error: RootError) -> Failure:
    """The failure of a root error. The caller adds whose it is, and when it was."""
    known = error.known
    return Failure(
        about="",
        text="\n".join(filter(None, map(_safe, error.text.split("\n")[:MAX_LINES]))),
        known=known.error.name if known else None,
        cause=_safe(known.cause) if known else None,
        remedy=_safe(known.remedy, 2 * MAX_CHARS) if known else None,
        action=known.error.action if known else None,
        look_up=known.error.look_up if known else None,
        is_consequence=error.is_consequence,
        raised_at=_safe(error.raised_at) if error.raised_at else None,
        ip=error.line.ip,
        pid=error.line.pid,
        rank=error.line.rank,
        parts=tuple((name, _safe(part)) for name, part in known.parts.items()) if known else (),
        also=error.also,
        others=_safe(error.others) if error.others else None,
        others_count=error.others_count,
        earlier_s=error.earlier_s,
    )


def _safe(text: str, most: int = MAX_CHARS) -> str:
    """The text as one line."""
    line = redact(clean(" ".join(text[: 4 * most].split())))
    return line if len(line) <= most else f"{line[: most - 1]}…"
