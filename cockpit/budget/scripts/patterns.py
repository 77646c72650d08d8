"""Which values a pattern matches, and what `${name#…}`, `${name%…}` and `${name/…}` make of a value."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN

_OTHER = re.compile(r"\[\[:|[@?*+!]\(")
"""Classes of signs, and patterns of patterns: they aren't followed."""


def quote(text: str) -> str:
    """Text as a pattern that matches nothing else."""
    return re.sub(r"([*?[/])", r"[\1]", text)


def _unquote(pattern: str) -> str:
    return re.sub(r"\[([*?[/])\]", r"\1", pattern)


def matches(value: str, pattern: str) -> bool | None:
    """Whether a pattern matches all of a value; `None`: it isn't followed."""
    if {UNKNOWN, SOMEWHERE} & {*value, *pattern} or _OTHER.search(pattern):
        return None
    return fnmatch.fnmatchcase(value, pattern.replace("[^", "[!"))


def change_value(sign: str, value: str, argument: str) -> str:
    """A value after `#`, `%` or `/` and what stands behind it."""
    return UNKNOWN if _OTHER.search(argument) else _CHANGES[sign](value, argument)


def _shortest(value: str, pattern: str, ends: range, *, front: bool) -> str:
    for end in ends:
        head, tail = value[:end], value[end:]
        if matches(head if front else tail, pattern):
            return tail if front else head
    return value


def _replace(value: str, argument: str, count: int) -> str:
    """`${name/old/new}` of plain texts."""
    found = re.fullmatch(r"((?:\[.\]|[^/])*)(?:/(.*))?", argument, re.DOTALL)
    old, new = (found[1], _unquote(found[2] or "")) if found else ("", "")
    patterned = re.search(r"[*?[]", re.sub(r"\[[*?[/]\]", "", old))
    if not old or old[0] in "#%" or "\\" in argument or "&" in new or patterned:
        return UNKNOWN
    return value.replace(_unquote(old), new, count)


_CHANGES: dict[str, Callable[[str, str], str]] = {
    "#": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=True),
    "##": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=True),
    "%": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=False),
    "%%": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=False),
    "/": lambda value, argument: _replace(value, argument, 1),
    "//": lambda value, argument: _replace(value, argument, -1),
}
