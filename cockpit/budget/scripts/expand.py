"""Expands the words of a shell script: quotes, variables with their defaults, sums, and word splitting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import escape
from itertools import groupby
from typing import NamedTuple

from cockpit.budget.scripts.evaluate import evaluate_sum
from cockpit.budget.scripts.scope import MAX_TEXT_CHARS, UNKNOWN, UNKNOWN_VALUE, Scope, Value
from cockpit.budget.scripts.syntax import ShellError, end_of_sum, skip

_NAME = re.compile(r"\$([@*#?$!\-0-9]|[A-Za-z_]\w*)", re.ASCII)
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_CHANGED = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_ALL_ITEMS = re.compile(r"(?:!?\w+\[@\]|@)")
_JOINED_ITEMS = re.compile(r"(?:\w+\[\*\]|\*)")


class Part(NamedTuple):
    """A part of a word with its expanded text, or its texts if it is a list."""

    texts: tuple[str, ...]
    quoted: bool
    is_written: bool = False
    """It is no expansion."""
    is_list: bool = False
    """Its texts are separate words, also within quotes."""


def parts(word: str, scope: Scope, *, quoted: bool = False) -> Iterator[Part]:
    """Expand a word part by part; `quoted`: it stands between double quotes."""
    at = 0
    while at < len(word):
        start, name = at, _NAME.match(word, at)
        at = name.end() if name else skip(word, at, quoted=quoted)
        piece, sign = word[start:at], word[start]
        if name or piece.startswith("${"):
            inside = name[1] if name else piece[2:-1]
            values = parameter(inside, scope)
            if len(values) > 1 and "IFS" in scope.variables and _JOINED_ITEMS.match(inside):
                values = UNKNOWN_VALUE
            yield Part(values, quoted, is_list=_ALL_ITEMS.match(inside) is not None)
        elif piece.startswith(("$'", "<(", ">(")) and not quoted:
            scope.output(piece[2:-1] if sign != "$" else "", scope)
            yield Part(UNKNOWN_VALUE, True)
        elif piece.startswith("$((") and end_of_sum(word, start + 1) == at:
            yield Part((count(piece[3:-2], scope),), quoted)
        elif sign == "`" or piece.startswith("$("):
            yield Part((scope.output(piece[2:-1] if sign == "$" else piece[1:-1].replace("\\`", "`"), scope),), quoted)
        elif sign == '"' and not quoted and len(piece) > 2:
            yield from parts(piece[1:-1], scope, quoted=True)
        elif sign in "'\"" and not quoted:
            yield Part((piece[1:-1],), True, is_written=True)
        elif sign == "\\" and not (quoted and piece[1:] not in set('$`"\\\n')):
            yield Part((piece[1:].replace("\n", ""),), True, is_written=True)
        elif not (piece == "$" and word.startswith('"', at)):
            yield Part((piece,), quoted, is_written=True)


def fields(word: str, scope: Scope, *, lists_files: bool = False) -> list[str]:
    """Expand a word to none, one or many words. Those of `{a,b}` are unknown; with `lists_files`, so are those of `*`."""
    found = list(parts(word, scope))
    plain = "".join(part.texts[0] if part.is_written and not part.quoted else "x" for part in found)
    if _BRACES.search(plain) or (lists_files and set(plain) & {"*", "?"}):
        return [UNKNOWN]
    pieces: list[str | None] = []
    """`None` separates two words; the texts between are one word."""
    for part in found:
        for number, value in enumerate(part.texts if part.is_list or not part.quoted else [" ".join(part.texts)]):
            if number:
                pieces.append(None)
            if part.quoted or part.is_written:
                pieces.append(value)
            elif "IFS" in scope.variables and value:
                pieces.append(UNKNOWN)  # the script may separate words in its own way
            else:
                pieces += [piece if piece.strip(" \t\n") else None for piece in re.split(r"([ \t\n]+)", value) if piece]
    groups = groupby(pieces, lambda piece: piece is None)
    return ["".join(piece for piece in group if piece is not None) for is_end, group in groups if not is_end]


def text(word: str, scope: Scope, *, quoted: bool = False) -> str:
    """Expand a word that is not split, as in an assignment or a condition."""
    return "".join(" ".join(part.texts) for part in parts(word, scope, quoted=quoted))[:MAX_TEXT_CHARS]


def pattern(word: str, scope: Scope) -> str:
    """Expand a word to a pattern. Signs in quotes have no special meaning."""
    return "".join(escape(" ".join(part.texts)) if part.quoted else " ".join(part.texts) for part in parts(word, scope))


def count(expression: str, scope: Scope) -> str:
    """The result of a sum. If the sum changes a variable, the result and the variable are unknown."""
    try:
        expression = text(expression, scope, quoted=True)
    except ShellError:
        return UNKNOWN
    changed = {name for found in _CHANGED.finditer(expression) for name in found.groups() if name}
    scope.variables |= dict.fromkeys(changed, UNKNOWN_VALUE)
    return UNKNOWN if changed else evaluate_sum(expression, lambda name: "".join((scope.value(name) or UNKNOWN_VALUE)[:1]))


def parameter(inside: str, scope: Scope) -> Value:
    """The value of `${…}`."""
    found = _PARAMETER.fullmatch(inside)
    if not found or found[1] == "!":
        return UNKNOWN_VALUE
    sign, name, index, rest = found.groups()
    value, is_list = scope.value(name), name in "@*" or index in {"@", "*"}
    if value is not None and value != UNKNOWN_VALUE and not is_list:
        number = "0" if index is None else count(index, scope)
        is_known = re.fullmatch(r"\d{1,6}", number) and (index is None or UNKNOWN not in value)
        value = (value[int(number)] if int(number) < len(value) else "",) if is_known else UNKNOWN_VALUE
    if sign == "#":
        is_known = value is not None and not rest and UNKNOWN not in (value if is_list else value[0])
        return (str(len(value if is_list else value[0])),) if is_known and value is not None else UNKNOWN_VALUE
    if not rest:
        return value if value is not None else ("",) if scope.in_condition and scope.is_unset(name) else UNKNOWN_VALUE
    if operator := re.match(r":?[-=+?]", rest):
        return _default(name, value, operator[0], rest[operator.end() :], scope, index=index, is_list=is_list)
    # `${@:2}` and `${A[@]:1:3}`. Arguments are counted from 1.
    sliced, first = re.fullmatch(r": *(\d{1,6})(?::(\d{1,6}))?", rest), int(name in "@*")
    if not is_list or not sliced or value is None or UNKNOWN in value or int(sliced[1]) < first:
        return UNKNOWN_VALUE
    start = int(sliced[1]) - first
    return value[start : start + int(sliced[2])] if sliced[2] else value[start:]


def _default(name: str, value: Value | None, sign: str, rest: str, scope: Scope, *, index: str | None, is_list: bool) -> Value:
    """The value of `${name:-rest}` and its like."""
    unset: bool | None
    if value is None and index is None and sign[-1] in "-=" and name.isidentifier():
        scope.assumed[name] = None  # the default counts, although a scheduler or an unread file may set it
        unset = True
    elif value is None or value == UNKNOWN_VALUE or (":" not in sign and index is None):
        unset = scope.is_unset(name)
    else:
        unset = not any(value)
    if unset is None or set("".join(value or ())) == {UNKNOWN}:
        return UNKNOWN_VALUE
    if sign[-1] == "+":
        return ("",) if unset else UNKNOWN_VALUE if is_list else (text(rest, scope),)
    if not unset or sign[-1] == "?":
        return UNKNOWN_VALUE if unset or value is None else value
    given = (text(rest, scope),)
    if sign[-1] == "=":
        scope.variables[name] = given
    return given
