"""Turns a root error into a failure: its texts cleaned, cut, and without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from cockpit.failures.known import Match
from cockpit.failures.log_lines import MAX_LINE_CHARS
from cockpit.failures.root_error import RootError
from cockpit.model import Failure
from cockpit.secrets import HIDDEN, LineRedactor, redact
from cockpit.text import clean

MAX_LINES: Final = 5
MAX_CHARS: Final = 300
"""Characters of a line that are kept. A remedy may have twice as many."""


def describe(error: RootError) -> Failure:
    """Turn a root error into a failure. The caller adds the job or actor, and the time."""
    known = error.known
    parts = _safe_parts(known) if known else {}
    if known is not None:
        known = replace(known, parts=parts)
    has_other_process = bool(parts.get("node_ip"))
    pid, rank = parts.get("pid", ""), parts.get("rank", "")
    return Failure(
        about="",
        text="\n".join(filter(None, _safe_lines(error.text.split("\n")[:MAX_LINES]))),
        known=known.error.name if known else None,
        cause=_sentence(known.cause, known.error.cause) if known else None,
        remedy=_sentence(known.remedy, known.error.remedy, 2 * MAX_CHARS) if known else None,
        action=known.error.action if known else None,
        look_up=known.error.look_up if known else None,
        is_consequence=error.is_consequence,
        raised_at=safe_line(error.raised_at) if error.raised_at else None,
        ip=parts.get("node_ip") or error.line.ip,
        # Another process reports an error such as "the actor died".
        pid=int(pid) if has_other_process and pid.isdecimal() else error.line.pid,
        rank=int(rank) if error.line.rank is None and rank.isdecimal() else error.line.rank,
        is_notice=known is not None and known.error.is_warning,
        parts=tuple(parts.items()),
        also=error.also,
        others=safe_line(error.others) if error.others else None,
        others_count=error.others_count,
        earlier_s=error.earlier_s,
    )


def _safe_parts(known: Match) -> dict[str, str]:
    """The parts without secrets. Whether a part is a secret may only show in its line, such as after `password=`."""
    line = redact(_clean_line(known.text))
    safe = {name: redact(_clean_line(part)) for name, part in known.parts.items()}
    return {name: _cut(part) if part in line or HIDDEN in part else HIDDEN for name, part in safe.items()}


def _sentence(filled: str, words: str, most: int = MAX_CHARS) -> str:
    """Fill safe parts into a sentence of the table. Its own words stay, although after `export HF_TOKEN=` they look like a secret."""
    looks_secret = redact(words) != words
    return _cut(_clean_line(filled), most) if looks_secret else safe_line(filled, most)


def _safe_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines without secrets, also those that only the line before shows, such as a private key."""
    hide = LineRedactor()
    return (_cut(hide(_clean_line(line))) for line in lines)


def safe_line(text: str, most: int = MAX_CHARS) -> str:
    """Clean a text, remove secrets, and cut it. It is cut last, because the beginning of a secret may not look like one."""
    return _cut(redact(_clean_line(text)), most)


def _clean_line(text: str) -> str:
    return clean(" ".join(text[:MAX_LINE_CHARS].split()))


def _cut(line: str, most: int = MAX_CHARS) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"
