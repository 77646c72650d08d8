"""Knows what many errors of Ray, training frameworks, CUDA and the operating system mean, and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

import msgspec

from cockpit.failures.commands import fill_remedy
from cockpit.failures.known.error import KnownError

MAX_TEXT_LINES: Final = 11
"""The line with the marker, and the lines after it that a pattern may read."""
MAX_TEXT_CHARS: Final = 6000
MAX_TRIES: Final = 50
"""Lines with one marker that are tried."""
MIN_WIDTH: Final = 40
MAX_WIDTH: Final = 400
"""A text that was wrapped has no longer line."""
MAX_PREFIX: Final = 24
"""A line may be shorter by so many characters, because a mark before it, such as `[rank0]: `, has been removed."""


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


def find_known_wrapped(text: str) -> Match | None:
    """The row that matches this text if its lines, which a terminal or an editor has wrapped, are joined again; between words or within one."""
    joined = (_join_wrapped(text, joint) for joint in (" ", ""))
    found = [match for each in joined if each != text and (match := find_known(each)) is not None and not match.error.explains_only_kind]
    return min(found, key=lambda match: match.error.is_general, default=None)


def _join_wrapped(text: str, joint: str) -> str:
    """Join each line with the next one if that one's first word had no place at its end."""
    lines = text.split("\n")
    width = max(map(len, lines))
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        return text
    joined = lines[0]
    for before, line in pairwise(lines):
        rest = line.lstrip()
        if rest and len(before) + 1 + len(rest.partition(" ")[0]) > width - MAX_PREFIX:
            joined += (" " if rest != line else joint) + rest
        else:
            joined += f"\n{line}"
    return joined


def find_all_known(text: str) -> Iterator[Match]:
    """Every row that matches anywhere in this text, with its first place; in the order of the table."""
    for error, markers in _errors_and_markers():
        found = [match for marker in markers if marker in text and (match := _find_at(marker, error, text)) is not None]
        if found:
            yield min(found, key=lambda match: match.begin)


@cache
def _errors_and_markers() -> tuple[tuple[KnownError, tuple[str, ...]], ...]:
    """The table with the markers of each row, which are asked for at every error."""
    return tuple((error, error.markers) for error in known_errors())


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
