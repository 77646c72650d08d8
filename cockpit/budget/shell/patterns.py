"""What `${name#…}` and its like do to a value: cuts, replacements, slices and letters; and how words are parted."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

from cockpit.budget.shell.sums import SOMEWHERE, UNKNOWN

_OTHER = re.compile(r"\[\[:|[@?*+!]\(")
"""Classes of signs, and patterns of patterns: they aren't followed."""


def quoted(text: str) -> str:
    """Text as a pattern that matches nothing else."""
    return re.sub(r"([*?[/])", r"[\1]", text)


def _unquoted(pattern: str) -> str:
    return re.sub(r"\[([*?[/])\]", r"\1", pattern)


def matches(value: str, pattern: str) -> bool | None:
    """Whether a pattern matches all of a value; `None`: it isn't followed."""
    if {UNKNOWN, SOMEWHERE} & {*value, *pattern} or _OTHER.search(pattern):
        return None
    return fnmatch.fnmatchcase(value, pattern.replace("[^", "[!"))


def parted(value: str, signs: str) -> list[str]:
    """A value's words; an empty one at either end says that the value begins or ends with what parts words."""
    if not signs or not value:
        return [value]
    blank = "".join(re.escape(sign) for sign in signs if sign in " \t\n")
    other = "".join(re.escape(sign) for sign in signs if sign not in " \t\n")
    blanks = f"[{blank}]" if blank else "(?!)"
    return re.split(rf"{blanks}*[{other}]{blanks}*|{blanks}+" if other else f"{blanks}+", value)


def changed(sign: str, value: str, argument: str) -> str:
    """A value after `#`, `%`, `/`, `^^` or `:` and what stands behind it."""
    return UNKNOWN if _OTHER.search(argument) else _CHANGES[sign](value, argument)


def _shortest(value: str, pattern: str, ends: range, *, front: bool) -> str:
    for end in ends:
        head, tail = value[:end], value[end:]
        if matches(head if front else tail, pattern):
            return tail if front else head
    return value


def _replaced(value: str, argument: str, count: int) -> str:
    found = re.fullmatch(r"((?:\[.\]|[^/])*)(?:/(.*))?", argument, re.DOTALL)
    old, new = (found[1], _unquoted(found[2] or "")) if found else ("", "")
    if not old or old[0] in "#%" or "\\" in argument or "&" in new:
        return UNKNOWN
    if re.search(r"[*?[]", re.sub(r"\[[*?[/]\]", "", old)):
        return _by_sign(value, old, new, count)
    return value.replace(_unquoted(old), new, count)


def _by_sign(value: str, pattern: str, new: str, count: int) -> str:
    """Where the pattern stands for one sign."""
    if not re.fullmatch(r"\?|\[[!^]?[\w ,.:;-]+\]", pattern):
        return UNKNOWN
    signs = [new if matches(sign, pattern) else sign for sign in value]
    return "".join(signs) if count < 0 else UNKNOWN


def _slice(value: str, argument: str) -> str:
    found = re.fullmatch(r" *(\d{1,6}|(?<= )-\d{1,6})(?::(\d{1,6}))?", argument)
    if not found:
        return UNKNOWN
    start = int(found[1])
    if start < -len(value):
        return ""
    return value[start:][: int(found[2])] if found[2] else value[start:]


_CHANGES: dict[str, Callable[[str, str], str]] = {
    "#": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=True),
    "##": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=True),
    "%": lambda value, pattern: _shortest(value, pattern, range(len(value), -1, -1), front=False),
    "%%": lambda value, pattern: _shortest(value, pattern, range(len(value) + 1), front=False),
    "/": lambda value, argument: _replaced(value, argument, 1),
    "//": lambda value, argument: _replaced(value, argument, -1),
    "^^": lambda value, argument: UNKNOWN if argument else value.upper(),
    "^": lambda value, argument: UNKNOWN if argument else value[:1].upper() + value[1:],
    ",,": lambda value, argument: UNKNOWN if argument else value.lower(),
    ",": lambda value, argument: UNKNOWN if argument else value[:1].lower() + value[1:],
    ":": _slice,
}
