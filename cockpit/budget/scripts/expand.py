"""Expands the words of a shell script: variables with their defaults and changes, sums, and word splitting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from cockpit.budget.scripts.scope import MAX_TEXT_CHARS, Scope, Value
from cockpit.budget.scripts.sums import UNKNOWN, evaluate_sum
from cockpit.budget.scripts.syntax import read_word, unquoted_text
from cockpit.budget.scripts.tree import Word, WordPart
from cockpit.budget.scripts.words import ShellError

_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_CHANGES_SOMETHING = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")


def fields(word: Word, scope: Scope) -> list[str]:
    """Expand a word to none, one or many words. The words of `{a,b}` are unknown."""
    if _BRACES.search("".join(part.text if part.kind == "text" and not part.quoted else "x" for part in word)):
        return [UNKNOWN]
    pieces = groupby(_pieces(word, scope), lambda piece: piece is None)
    return ["".join(piece for piece in group if piece is not None) for is_end, group in pieces if not is_end]


def text(word: Word, scope: Scope) -> str:
    """Expand a word that is not split, as in an assignment or a condition."""
    return "".join(part.text if part.kind == "text" else _join(part, _values(part, scope), scope) for part in word)[:MAX_TEXT_CHARS]


def _join(part: WordPart, values: tuple[str, ...], scope: Scope) -> str:
    starred = len(values) > 1 and re.match(r"(?:\w+\[\*\]|\*)", part.text)
    return UNKNOWN if starred and "IFS" in scope.variables else " ".join(values)


def _pieces(word: Word, scope: Scope) -> Iterator[str | None]:
    """The expanded parts of a word. `None` separates two words; the texts between are one word."""
    for part in word:
        values = (part.text,) if part.kind == "text" else _values(part, scope)
        if part.kind != "text" and not part.quoted:
            yield from _split(values, scope)
        elif _is_many(part):
            yield from (each for number, value in enumerate(values) for each in ((None, value) if number else (value,)))
        else:
            yield _join(part, values, scope)


def _split(values: tuple[str, ...], scope: Scope) -> Iterator[str | None]:
    """Split values into words at blanks. If the script sets IFS, the words are unknown."""
    if "IFS" in scope.variables and any(values):
        yield UNKNOWN
        return
    for number, value in enumerate(values):
        if number:
            yield None
        pieces = re.split(r"[ \t\n]+", value)
        for place, piece in enumerate(pieces):
            yield from (None,) if place else ()
            yield from (piece,) if piece else ()


def _is_many(part: WordPart) -> bool:
    return part.kind == "variable" and (re.fullmatch(r"(?:!?\w+\[@\]|@).*", part.text, re.DOTALL) is not None)


def _values(part: WordPart, scope: Scope) -> tuple[str, ...]:
    if part.kind in {"command", "process"}:
        said = scope.output(part.text, scope)
        return (said if part.kind == "command" else UNKNOWN,)
    if part.kind == "sum":
        return (count(part.text, scope),)
    found = parameter(part.text, scope)
    return found if isinstance(found, tuple) else (found,) if isinstance(found, str) else (UNKNOWN,)


def count(sum_text: str, scope: Scope) -> str:
    """The result of a sum; `UNKNOWN` if its text can't be read. A variable that the sum changes is unknown after it."""
    try:
        expression = text(unquoted_text(sum_text), scope)
    except ShellError:
        return UNKNOWN
    if not _CHANGES_SOMETHING.search(expression):
        return evaluate_sum(expression, scope.one_value)
    changed = re.findall(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)", expression)
    scope.variables |= dict.fromkeys((one or other for one, other in changed), UNKNOWN)
    return UNKNOWN


def parameter(inside: str, scope: Scope) -> Value:
    """The value of `${…}`."""
    found = _PARAMETER.fullmatch(inside)
    if not found:
        return UNKNOWN
    sign, name, index, rest = found.groups()
    value = _index(scope.value(name), name, index, scope)
    if sign == "!":
        return UNKNOWN
    if sign == "#":
        return UNKNOWN if value is None or UNKNOWN in value or rest else str(len(value))
    if not rest:
        return value if value is not None else "" if scope.conditions and scope.is_unset(name) else UNKNOWN
    return _change(name if index is None else f"{name}[{index}]", value, rest, scope)


def _index(value: Value | None, name: str, index: str | None, scope: Scope) -> Value | None:
    if value is None or value == UNKNOWN or (index is None and name in "@*"):
        return value
    items = value if isinstance(value, tuple) else (value,)
    if index in {"@", "*"}:
        return items
    if index is None:
        return items[0] if items else ""
    number = count(index, scope)
    if UNKNOWN in items or not re.fullmatch(r"\d{1,6}", number):
        return UNKNOWN
    return items[int(number)] if int(number) < len(items) else ""


def _change(name: str, value: Value | None, rest: str, scope: Scope) -> Value:
    sign = re.match(r":?[-=+?]", rest)
    if sign:
        return _default(name, value, sign[0], rest[sign.end() :], scope)
    return _sublist(value, rest, first=int(name in "@*")) if isinstance(value, tuple) else UNKNOWN


def _sublist(items: tuple[str, ...], rest: str, first: int) -> Value:
    """The items of `${@:2}` and `${A[@]:1:3}`. Arguments are counted from 1."""
    found = re.fullmatch(r": *(\d{1,6})(?::(\d{1,6}))?", rest)
    if not found or UNKNOWN in items or int(found[1]) < first:
        return UNKNOWN
    start = int(found[1]) - first
    return items[start : start + int(found[2])] if found[2] else items[start:]


def _default(name: str, value: Value | None, sign: str, rest: str, scope: Scope) -> Value:
    if value is None and "?" not in sign and "+" not in sign and name.isidentifier():
        scope.assumed[name] = None  # the default counts, although a scheduler or an unread file may set it
        unset: bool | None = True
    else:
        unset = _is_unset(name, value, scope) if value is None or value == UNKNOWN or ":" not in sign else not value
    if unset is None or (isinstance(value, str) and value != UNKNOWN and UNKNOWN in value and not value.strip(UNKNOWN)):
        return UNKNOWN
    if "+" in sign:
        return "" if unset else UNKNOWN if isinstance(value, tuple) else text(read_word(rest), scope)
    if not unset:
        return UNKNOWN if value is None else value
    if "?" in sign:
        return UNKNOWN
    given = text(read_word(rest), scope)
    if "=" in sign:
        scope.assign(name, given)
    return given


def _is_unset(name: str, value: Value | None, scope: Scope) -> bool | None:
    own = re.match(r"\w*", name)
    if value is None or value == UNKNOWN or own is None or own[0] == name:
        return scope.is_unset(own[0] if own and own[0] else name)
    return not value
