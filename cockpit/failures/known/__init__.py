"""Knows what many errors of Ray, training frameworks, CUDA and the operating system mean, and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from cockpit.failures.commands import fill_remedy
from cockpit.failures.known.error import KnownError

MAX_TEXT_LINES: Final = 11
"""The line with the marker, and the lines after it that a pattern may read."""
MAX_TEXT_CHARS: Final = 6000
MAX_TRIES: Final = 50
"""Lines with one marker that are tried."""


def known_errors() -> tuple[KnownError, ...]:
    """The table."""
    # Only a failure needs these rows, and the start of the screen must not wait for them.
    from cockpit.failures.known.table import KNOWN_ERRORS

    return KNOWN_ERRORS


class Match(msgspec.Struct, frozen=True):
    """A known error in a text."""

    error: KnownError
    text: str
    """The lines in which it was found."""
    begin: int
    """The place of these lines in the whole text."""
    parts: dict[str, str]

    @property
    def cause(self) -> str:
        """What went wrong, with the parts of this text."""
        # A backtick would begin or end what looks like a command of cockpit's.
        return self.error.cause.format_map({name: part.replace("`", "'") for name, part in self.parts.items()})

    @property
    def remedy(self) -> str:
        """What helps, with the parts of this text."""
        return fill_remedy(self.error.remedy, self.parts)


def find_known(text: str) -> Match | None:
    """The first row that matches this text of one error; one that can be the cause by itself comes before the others."""
    first: Match | None = None
    for match in find_all_known(text):
        if match.error.is_certain:
            return match
        first = first or match
    return first


def find_all_known(text: str) -> Iterator[Match]:
    """Every row that matches anywhere in this text, with its first place; in the order of the table."""
    for error in known_errors():
        found = [match for marker in error.markers if marker in text and (match := _find_at(marker, error, text)) is not None]
        if found:
            yield min(found, key=lambda match: match.begin)


def _find_at(marker: str, error: KnownError, text: str) -> Match | None:
    """The first match of this row that begins in a line with this marker."""
    at = text.find(marker)
    for _ in range(MAX_TRIES):
        if at < 0:
            return None
        begin = text.rfind("\n", 0, at) + 1
        lines = "\n".join(text[begin : begin + MAX_TEXT_CHARS].split("\n")[:MAX_TEXT_LINES])
        if (found := _compile(error.pattern).search(lines)) is not None:
            parts = {name: " ".join(part.split()) for name, part in found.groupdict(default="").items()}
            first, last = lines.rfind("\n", 0, found.start()) + 1, lines.find("\n", found.end())
            return Match(error, lines[first:] if last < 0 else lines[first:last], begin + first, parts)
        at = text.find(marker, max(at + 1, text.find("\n", at)))
    return None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """The table has more patterns than the cache of `re` holds."""
    return re.compile(pattern, re.MULTILINE)
