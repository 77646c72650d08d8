"""Evaluates the conditions `[ … ]` and `[[ … ]]` if their words are known. Patterns and tests of files are not evaluated."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt, "-ge": operator.ge,
}  # fmt: skip


def holds(words: list[str]) -> bool | None:
    """Whether a condition holds; `None`: unknown."""
    if len(words) > 4:
        for sign in ("||", "&&"):
            if sign in words[1:-1]:
                return _evaluate_joined(words, words.index(sign, 1), sign)
    if "(" in words:
        return None
    return _evaluate_unary(*words) if len(words) == 2 else _evaluate_binary(*words) if len(words) == 3 else None


def _evaluate_joined(words: list[str], place: int, sign: str) -> bool | None:
    sides = (holds(words[:place]), holds(words[place + 1 :]))
    strong = sign == "||"
    if strong in sides:
        return strong
    return None if None in sides else not strong


def _evaluate_unary(sign: str, value: str) -> bool | None:
    if sign not in {"-z", "-n"} or (UNKNOWN in value and not value.strip(UNKNOWN)):
        return None
    return (sign == "-n") == bool(value)


def _evaluate_binary(one: str, sign: str, other: str) -> bool | None:
    if {UNKNOWN, SOMEWHERE} & {*one, *other}:
        return None
    if sign in _NUMBERS:
        both = re.fullmatch(r"(-?\d{1,18})", one.strip() or "0"), re.fullmatch(r"(-?\d{1,18})", other.strip() or "0")
        return _NUMBERS[sign](int(both[0][0]), int(both[1][0])) if both[0] and both[1] else None
    if sign not in {"=", "==", "!="}:
        return None
    is_pattern = bool(set(other) & set("*?[("))  # in `[[ … ]]` it is a pattern; in `[ … ]` its value depends on files
    return None if is_pattern else (one == other) == (sign != "!=")
