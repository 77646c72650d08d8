"""Expands the words of a shell script: quotes, variables with their defaults, sums, and word splitting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import escape
from itertools import groupby
from typing import Literal, NamedTuple

from cockpit.budget.scripts.evaluate import evaluate_sum
from cockpit.budget.scripts.scope import MAX_TEXT_CHARS, UNKNOWN, Scope, Value
from cockpit.budget.scripts.syntax import ShellError, end_of_sum, skip

_NAME = re.compile(r"\$([@*#?$!\-0-9]|[A-Za-z_]\w*)", re.ASCII)
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_CHANGED = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_ALL_ITEMS = re.compile(r"(?:!?\w+\[@\]|@).*", re.DOTALL)
_JOINED_ITEMS = re.compile(r"(?:\w+\[\*\]|\*)")


class Part(NamedTuple):
    """A part of a word. `text` of an expansion is what stands within `$…`."""

    kind: Literal["text", "variable", "command", "process", "sum"]
    text: str
    quoted: bool


def parts(word: str, *, quoted: bool = False) -> Iterator[Part]:
    """Split a word as it is written; `quoted`: it stands between double quotes."""
    at = 0
    while at < len(word):
        start, name = at, _NAME.match(word, at)
        at = name.end() if name else skip(word, at, quoted=quoted)
        piece, sign = word[start:at], word[start]
        if name:
            yield Part("variable", name[1], quoted)
        elif piece.startswith(("$'", "<(", ">(")) and not quoted:
            yield Part("process", "" if sign == "$" else piece[2:-1], True)
        elif sign == "`":
            yield Part("command", piece[1:-1].replace("\\`", "`"), quoted)
        elif piece.startswith("$((") and end_of_sum(word, start + 1) == at:
            yield Part("sum", piece[3:-2], quoted)
        elif piece.startswith(("$(", "${")):
            yield Part("command" if piece[1] == "(" else "variable", piece[2:-1], quoted)
        elif sign == "\\" and not (quoted and piece[1:] not in set('$`"\\\n')):
            yield Part("text", piece[1:].replace("\n", ""), True)
        elif sign == "'" and not quoted:
            yield Part("text", piece[1:-1], True)
        elif sign == '"' and not quoted:
            yield from parts(piece[1:-1], quoted=True) if len(piece) > 2 else [Part("text", "", True)]
        elif not (piece == "$" and word.startswith('"', at)):
            yield Part("text", piece, quoted)


def fields(word: str, scope: Scope, *, lists_files: bool = False) -> list[str]:
    """Expand a word to none, one or many words. Those of `{a,b}` are unknown; with `lists_files`, so are those of `*`."""
    found = list(parts(word))
    plain = "".join(part.text if part.kind == "text" and not part.quoted else "x" for part in found)
    if _BRACES.search(plain) or (lists_files and set(plain) & {"*", "?"}):
        return [UNKNOWN]
    pieces = groupby(_pieces(found, scope), lambda piece: piece is None)
    return ["".join(piece for piece in group if piece is not None) for is_end, group in pieces if not is_end]


def text(word: str, scope: Scope, *, quoted: bool = False) -> str:
    """Expand a word that is not split, as in an assignment or a condition."""
    return "".join(_join(part, _values(part, scope), scope) for part in parts(word, quoted=quoted))[:MAX_TEXT_CHARS]


def pattern(word: str, scope: Scope) -> str:
    """Expand a word to a pattern. Signs in quotes have no special meaning."""
    return "".join(escape(value) if part.quoted else value for part in parts(word) for value in [_join(part, _values(part, scope), scope)])


def _join(part: Part, values: tuple[str, ...], scope: Scope) -> str:
    is_joined = len(values) > 1 and part.kind == "variable" and _JOINED_ITEMS.match(part.text)
    return UNKNOWN if is_joined and "IFS" in scope.variables else " ".join(values)


def _pieces(found: list[Part], scope: Scope) -> Iterator[str | None]:
    """The expanded parts of a word. `None` separates two words; the texts between are one word."""
    for part in found:
        values = _values(part, scope)
        if part.kind == "text" or (part.quoted and not (part.kind == "variable" and _ALL_ITEMS.fullmatch(part.text))):
            yield _join(part, values, scope)
            continue
        for number, value in enumerate(values):
            yield from (None,) if number else ()
            if part.quoted:
                yield value
            elif "IFS" in scope.variables and value:
                yield UNKNOWN  # the script may separate words in its own way
            else:
                yield from (piece if piece.strip(" \t\n") else None for piece in re.split(r"([ \t\n]+)", value) if piece)


def _values(part: Part, scope: Scope) -> tuple[str, ...]:
    if part.kind == "text":
        return (part.text,)
    if part.kind == "sum":
        return (count(part.text, scope),)
    if part.kind == "variable":
        found = parameter(part.text, scope)
        return found if isinstance(found, tuple) else (found,)
    said = scope.output(part.text, scope)
    return (said if part.kind == "command" else UNKNOWN,)


def count(expression: str, scope: Scope) -> str:
    """The result of a sum. If the sum changes a variable, the result and the variable are unknown."""
    try:
        expression = text(expression, scope, quoted=True)
    except ShellError:
        return UNKNOWN
    changed = {name for found in _CHANGED.finditer(expression) for name in found.groups() if name}
    scope.variables |= dict.fromkeys(changed, UNKNOWN)
    return UNKNOWN if changed else evaluate_sum(expression, lambda name: _first(scope.value(name)))


def _first(value: Value | None) -> str:
    return UNKNOWN if value is None else value if isinstance(value, str) else value[0] if value else ""


def parameter(inside: str, scope: Scope) -> Value:
    """The value of `${…}`."""
    found = _PARAMETER.fullmatch(inside)
    if not found or found[1] == "!":
        return UNKNOWN
    sign, name, index, rest = found.groups()
    value = scope.value(name)
    if value is not None and value != UNKNOWN and (index is not None or name not in "@*"):
        value = _index(value, index, scope)
    if sign == "#":
        return UNKNOWN if value is None or UNKNOWN in value or rest else str(len(value))
    if not rest:
        return value if value is not None else "" if scope.in_condition and scope.is_unset(name) else UNKNOWN
    if operator := re.match(r":?[-=+?]", rest):
        return _default(name, index, value, operator[0], rest[operator.end() :], scope)
    return _sublist(value, rest, int(name in "@*")) if isinstance(value, tuple) else UNKNOWN


def _index(value: Value, index: str | None, scope: Scope) -> Value:
    items = value if isinstance(value, tuple) else (value,)
    number = "0" if index is None else index if index in {"@", "*"} else count(index, scope)
    if number in {"@", "*"}:
        return items
    if (UNKNOWN in items and index is not None) or not re.fullmatch(r"\d{1,6}", number):
        return UNKNOWN
    return items[int(number)] if int(number) < len(items) else ""


def _sublist(items: tuple[str, ...], rest: str, first: int) -> Value:
    """The items of `${@:2}` and `${A[@]:1:3}`. Arguments are counted from 1."""
    found = re.fullmatch(r": *(\d{1,6})(?::(\d{1,6}))?", rest)
    if not found or UNKNOWN in items or int(found[1]) < first:
        return UNKNOWN
    start = int(found[1]) - first
    return items[start : start + int(found[2])] if found[2] else items[start:]


def _default(name: str, index: str | None, value: Value | None, sign: str, rest: str, scope: Scope) -> Value:
    """The value of `${name:-rest}` and its like."""
    unset: bool | None
    if value is None and index is None and sign[-1] in "-=" and name.isidentifier():
        scope.assumed[name] = None  # the default counts, although a scheduler or an unread file may set it
        unset = True
    elif value is None or value == UNKNOWN or (":" not in sign and index is None):
        unset = scope.is_unset(name)
    else:
        unset = not value
    if unset is None or (isinstance(value, str) and value and not value.strip(UNKNOWN)):
        return UNKNOWN
    if sign[-1] == "+":
        return "" if unset else UNKNOWN if isinstance(value, tuple) else text(rest, scope)
    if not unset:
        return UNKNOWN if value is None else value
    if sign[-1] == "?":
        return UNKNOWN
    given = text(rest, scope)
    if sign[-1] == "=":
        scope.assign(name, given)
    return given
