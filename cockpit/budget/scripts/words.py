"""Words of a shell: where they end, and which parts of them are text, variables, commands or sums."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

BLANK = " \t"
ENDS = frozenset(" \t\n;&|<>()")
"""What ends a word that isn't quoted."""
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
"""`$'…'`, whose escapes aren't followed."""


class ShellError(Exception):
    """Text that is no shell; its words say where."""


class WordPart(msgspec.Struct, frozen=True):
    """A piece of a word. What is within `$…` is read when it is expanded."""

    kind: Literal["text", "variable", "command", "process", "sum"]
    text: str
    quoted: bool


Word = tuple[WordPart, ...]


def read_keyword(word: Word) -> str | None:
    """A word without quotes and expansions, as which alone `if` and its like are keywords."""
    return word[0].text if len(word) == 1 and word[0].kind == "text" and not word[0].quoted else None


def read_word(text: str, at: int, ends: frozenset[str] = ENDS) -> tuple[Word, int]:
    """The word that begins here, and where it ends."""
    parts: list[WordPart] = []
    while at < len(text) and text[at] not in ends:
        if text.startswith("\\\n", at):
            at += 2
            continue
        part, at = _part(text, at, ends)
        parts.extend(part)
    return _join(parts), at


def unquoted_text(text: str) -> Word:
    """A text as it is read in a sum: like between double quotes, which mean nothing there."""
    return _join(_double(text, escaped="$`\\\n"))


def _join(parts: list[WordPart]) -> Word:
    joined: list[WordPart] = []
    for part in parts:
        if joined and part.kind == "text" == joined[-1].kind and part.quoted == joined[-1].quoted:
            joined[-1] = WordPart("text", joined[-1].text + part.text, part.quoted)
        else:
            joined.append(part)
    return tuple(joined)


def _part(text: str, at: int, ends: frozenset[str]) -> tuple[list[WordPart], int]:
    sign = text[at]
    if sign == "\\":
        return [WordPart("text", text[at + 1 : at + 2], True)], at + 2
    if sign == "'":
        end = _find(text, "'", at + 1)
        return [WordPart("text", text[at + 1 : end], True)], end + 1
    if sign == '"':
        end = _end_of_double(text, at + 1)
        return _double(text[at + 1 : end]) or [WordPart("text", "", True)], end + 1
    if sign == "`":
        part, at = _ticks(text, at, quoted=False)
        return [part], at
    if ansi := _ANSI.match(text, at):
        return [WordPart("process", "", True)], ansi.end()
    if text.startswith('$"', at):
        return [], at + 1
    if sign == "$":
        part, at = _dollar(text, at, quoted=False)
        return [part], at
    end = at + 1
    while end < len(text) and text[end] not in ends and text[end] not in "\\'\"`$":
        end += 1
    return [WordPart("text", text[at:end], False)], end


def _double(text: str, escaped: str = '$`"\\\n') -> list[WordPart]:
    parts: list[WordPart] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\" and at + 1 < len(text) and text[at + 1] in escaped:
            parts.append(WordPart("text", text[at + 1].replace("\n", ""), True))
            at += 2
        elif sign in "$`":
            part, at = (_dollar if sign == "$" else _ticks)(text, at, quoted=True)
            parts.append(part)
        else:
            end = min((found for found in (text.find(each, at + 1) for each in "\\$`") if found >= 0), default=len(text))
            parts.append(WordPart("text", text[at:end], True))
            at = end
    return parts


def _dollar(text: str, at: int, *, quoted: bool) -> tuple[WordPart, int]:
    if text.startswith("$((", at):
        end = find_end(text, at + 1, "(", ")")
        if find_end(text, at + 2, "(", ")") == end - 1:
            return WordPart("sum", text[at + 3 : end - 2], quoted), end
    if text.startswith("$(", at):
        end = find_end(text, at + 1, "(", ")")
        return WordPart("command", text[at + 2 : end - 1], quoted), end
    if text.startswith("${", at):
        end = find_end(text, at + 1, "{", "}")
        return WordPart("variable", text[at + 2 : end - 1], quoted), end
    end = at + 1
    if text[end : end + 1] and text[end] in "@*#?$!-0123456789":
        return WordPart("variable", text[end], quoted), end + 1
    while end < len(text) and text[end].isascii() and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return (WordPart("variable", text[at + 1 : end], quoted), end) if end > at + 1 else (WordPart("text", "$", quoted), end)


def find_end(text: str, at: int, opening: str, closing: str) -> int:
    """Where what opens here has closed, quotes and what opens within it left out."""
    depth = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == "'" and opening == "(":
            at = _find(text, "'", at + 1)
        elif sign == '"':
            at = _end_of_double(text, at + 1)
        elif sign == opening:
            depth += 1
        elif sign == closing:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    raise ShellError(f"a {opening} has no {closing}")


def _find(text: str, sign: str, at: int) -> int:
    end = text.find(sign, at)
    if end < 0:
        raise ShellError(f"a {sign} has no end")
    return end


def _end_of_double(text: str, at: int) -> int:
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 2
        elif text.startswith("$(", at):
            at = find_end(text, at + 1, "(", ")")
        elif text.startswith("${", at):
            at = find_end(text, at + 1, "{", "}")
        else:
            at += 1
    if at >= len(text):
        raise ShellError('a " has no end')
    return at


def _ticks(text: str, at: int, *, quoted: bool) -> tuple[WordPart, int]:
    end = at + 1
    while end < len(text) and text[end] != "`":
        end += 2 if text[end] == "\\" else 1
    if end >= len(text):
        raise ShellError("a ` has no end")
    return WordPart("command", text[at + 1 : end].replace("\\`", "`"), quoted), end + 1
