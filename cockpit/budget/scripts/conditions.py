"""Conditions: `[ … ]` and `[[ … ]]`, and which values a pattern matches, as far as both are known."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable

from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN

Operand = tuple[str, str]
"""A word, and the pattern that it is behind `==`."""
Fact = Callable[[str, str], "bool | None"]
"""What `-f file` and its like ask, with the sign and the word."""

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt, "-ge": operator.ge,
}  # fmt: skip
_NOT_FOLLOWED = re.compile(r"\[\[:|[@?*+!]\(")
"""Classes of characters, and patterns within patterns."""


def quote(text: str) -> str:
    """Text as a pattern that matches nothing else."""
    return re.sub(r"([*?[/])", r"[\1]", text)


def matches(value: str, pattern: str) -> bool | None:
    """Whether a pattern matches all of a value; `None`: it isn't followed."""
    if {UNKNOWN, SOMEWHERE} & {*value, *pattern} or _NOT_FOLLOWED.search(pattern):
        return None
    return fnmatch.fnmatchcase(value, pattern.replace("[^", "[!"))


def holds(words: list[Operand], fact: Fact) -> bool | None:
    """Whether a condition holds; `None`: that can't be known."""
    said = [word for word, _ in words]
    if len(words) > 4:
        for sign in ("||", "&&"):
            if sign in said[1:-1]:
                return _both(words, said.index(sign, 1), sign, fact)
    if "(" in said:
        return None
    if said[:1] == ["!"] and len(said) > 1:
        inner = holds(words[1:], fact)
        return None if inner is None else not inner
    rule = _HOLDS.get(len(words))
    return rule(words, fact) if rule else None


def _both(words: list[Operand], place: int, sign: str, fact: Fact) -> bool | None:
    sides = (holds(words[:place], fact), holds(words[place + 1 :], fact))
    strong = sign == "||"
    if strong in sides:
        return strong
    return None if None in sides else not strong


def _one(words: list[Operand], _: Fact) -> bool | None:
    return None if words[0][0] == UNKNOWN else bool(words[0][0])


def _two(words: list[Operand], fact: Fact) -> bool | None:
    (sign, _), (value, _) = words
    if UNKNOWN in value and not value.strip(UNKNOWN):
        return None
    return (sign == "-n") == bool(value) if sign in {"-z", "-n"} else fact(sign, value)


def _three(words: list[Operand], _: Fact) -> bool | None:
    (one, _own), (sign, _sign), (other, pattern) = words
    if {UNKNOWN, SOMEWHERE} & {*one, *other}:
        return None
    if sign in _NUMBERS:
        both = re.fullmatch(r"(-?\d{1,18})", one.strip() or "0"), re.fullmatch(r"(-?\d{1,18})", other.strip() or "0")
        return _NUMBERS[sign](int(both[0][0]), int(both[1][0])) if both[0] and both[1] else None
    if sign not in {"=", "==", "!="}:
        return None
    same = matches(one, pattern)
    return None if same is None else same == (sign != "!=")


_HOLDS: dict[int, Callable[[list[Operand], Fact], bool | None]] = {0: lambda *_: False, 1: _one, 2: _two, 3: _three}
