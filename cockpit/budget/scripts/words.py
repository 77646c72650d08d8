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
_HEREDOC = re.compile(r"(?P<same_line><<<)|(?P<sign><<-?)[ \t]*")


class ShellError(Exception):
    """Text that is no shell; its words say where."""


class WordPart(msgspec.Struct, frozen=True):
    """A piece of a word. What is within `$…` is read when it is expanded."""

    kind: Literal["text", "variable", "command", "process", "sum"]
    text: str
    quoted: bool


Word = tuple[WordPart, ...]


class Heredoc(msgspec.Struct, frozen=True):
    """The lines behind `<<EOF`, up to the line that ends them."""

    end: str
    tabs: bool
    """Tabs before a line don't count (`<<-`)."""
    literal: bool
    """Variables and commands in it are text: its end was quoted."""

    @classmethod
    def announced(cls, word: Word, sign: str) -> Heredoc:
        """By `<<` or `<<-`, and the word behind it."""
        return cls("".join(part.text for part in word), sign == "<<-", any(part.quoted for part in word))

    def is_end(self, line: str) -> bool:
        """Whether this line ends it."""
        return (line.lstrip("\t") if self.tabs else line) == self.end

    def end_in(self, text: str, at: int) -> int:
        """Where its last line has ended."""
        while at < len(text):
            stop = _end_of_line(text, at)
            line, at = text[at:stop], min(stop + 1, len(text))
            if self.is_end(line):
                break
        return at


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
    if text.startswith("$((", at) and (end := end_of_sum(text, at + 1)) is not None:
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
    """Where what opens here has closed. Quotes, comments, heredocs and what opens within it are skipped."""
    depth = 0
    heredocs: list[Heredoc] = []
    start = at
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == '"':
            at = _end_of_double(text, at + 1)
        elif opening == "(" and sign in "'#<\n(" and (skipped := _skip_in_command(text, at, start, heredocs)) is not None:
            at = skipped
            continue
        elif sign == opening:
            depth += 1
        elif sign == closing:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    raise ShellError(f"a {opening} has no {closing}")


def _skip_in_command(text: str, at: int, start: int, heredocs: list[Heredoc]) -> int | None:
    """Where to read on behind a quote, a comment, a sum or the heredocs of a line; `None` where none of them is here."""
    sign = text[at]
    if sign == "'":
        return _find(text, "'", at + 1) + 1
    if sign == "#" and text[at - 1] in ENDS:
        return _end_of_line(text, at)
    if sign == "<" and (found := _HEREDOC.match(text, at)):
        if found["same_line"]:
            return found.end()
        word, end = read_word(text, found.end())
        heredocs.append(Heredoc.announced(word, found["sign"]))
        return end
    if sign == "\n" and heredocs:
        at += 1
        for heredoc in heredocs:
            at = heredoc.end_in(text, at)
        heredocs.clear()
        return at
    return end_of_sum(text, at) if at > start and text.startswith("((", at) else None


def end_of_sum(text: str, at: int) -> int | None:
    """Where `((…))` has closed: there `<<` shifts bits. `None`: these are nested parentheses."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 1 and place > at:
            return place + 2 if text.startswith("))", place) else None
    return None


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


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
