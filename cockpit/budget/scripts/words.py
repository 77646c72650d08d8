"""Splits shell code into words, and each word into texts, variables, commands and sums."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.budget.scripts.tree import Word, WordPart

ENDS = frozenset(" \t\n;&|<>()")
"""The characters that end an unquoted word."""
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
"""`$'…'`. Its escapes are not evaluated."""
_TICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)


class ShellError(Exception):
    """The text is no shell code. The message has the place."""


EndOfCommand = Callable[[str, int], int]
"""Returns the end of a command within `$(` or `<(`: takes the position where it begins, returns the one after its `)`."""


def read_keyword(word: Word) -> str | None:
    """The text of a word without quotes and expansions; only such a word can be a keyword such as `if`."""
    return word[0].text if len(word) == 1 and word[0].kind == "text" and not word[0].quoted else None


class WordReader:
    """Reads words from a text."""

    def __init__(self, text: str, end_of_command: EndOfCommand) -> None:
        self.text = text
        self._end_of_command = end_of_command

    def word(self, at: int, ends: frozenset[str] = ENDS) -> tuple[Word, int]:
        """The word that begins at this position, and the position after it."""
        parts: list[WordPart] = []
        while at < len(self.text) and self.text[at] not in ends:
            found, at = self._part(at, ends)
            parts += found
        return _join(parts), at

    def between_quotes(self, at: int, end: int, escaped: str = '$`"\\\n') -> list[WordPart]:
        """The parts of a text between double quotes."""
        parts: list[WordPart] = []
        while at < end:
            sign = self.text[at]
            if sign == "\\" and at + 1 < end and self.text[at + 1] in escaped:
                parts.append(WordPart("text", self.text[at + 1].replace("\n", ""), True))
                at += 2
            elif sign in "$`":
                part, at = self._expansion(at, quoted=True)
                parts.append(part)
            else:
                stop = min((place for each in "\\$`" if (place := self.text.find(each, at + 1, end)) >= 0), default=end)
                parts.append(WordPart("text", self.text[at:stop], True))
                at = stop
        return parts

    def _part(self, at: int, ends: frozenset[str]) -> tuple[list[WordPart], int]:
        text, sign = self.text, self.text[at]
        if sign == "\\":
            return [] if text.startswith("\\\n", at) else [WordPart("text", text[at + 1 : at + 2], True)], at + 2
        if sign == "'":
            end = self._find("'", at + 1)
            return [WordPart("text", text[at + 1 : end], True)], end + 1
        if sign == '"':
            end = self._skip(at) - 1
            return self.between_quotes(at + 1, end) or [WordPart("text", "", True)], end + 1
        if ansi := _ANSI.match(text, at):
            return [WordPart("process", "", True)], ansi.end()
        if text.startswith('$"', at):
            return [], at + 1
        if sign in "$`":
            part, at = self._expansion(at, quoted=False)
            return [part], at
        end = at + 1
        while end < len(text) and text[end] not in ends and text[end] not in "\\'\"`$":
            end += 1
        return [WordPart("text", text[at:end], False)], end

    def _expansion(self, at: int, *, quoted: bool) -> tuple[WordPart, int]:
        """The expansion that begins with `$` or a backtick at this position, and the position after it."""
        text = self.text
        if text[at] == "`" or text.startswith(("$(", "${"), at):
            end = self._skip(at)
            if text[at] == "`":
                return WordPart("command", text[at + 1 : end - 1].replace("\\`", "`"), quoted), end
            if text.startswith("$((", at) and end_of_sum(text, at + 1) == end:
                return WordPart("sum", text[at + 3 : end - 2], quoted), end
            return WordPart("command" if text[at + 1] == "(" else "variable", text[at + 2 : end - 1], quoted), end
        found = re.compile(r"\$([@*#?$!\-0-9]|[A-Za-z_]\w*)", re.ASCII).match(text, at)
        return (WordPart("variable", found[1], quoted), found.end()) if found else (WordPart("text", "$", quoted), at + 1)

    def _skip(self, at: int) -> int:
        """The position after the escape, quote, expansion or single character that begins at this position."""
        text = self.text
        if text[at] == "\\":
            return at + 2
        if text[at] == "`":
            found = _TICKS.match(text, at)
            if not found:
                raise ShellError("a ` has no end")
            return found.end()
        if text.startswith("$((", at) and (end := end_of_sum(text, at + 1)) is not None:
            return end
        if text.startswith("$(", at):
            return self._end_of_command(text, at + 2)
        closing = '"' if text[at] == '"' else "}" if text.startswith("${", at) else None
        if closing is None:
            return at + 1
        depth, at = 1, at + len(closing if closing == '"' else "${")
        while depth:
            if at >= len(text):
                raise ShellError(f"a {closing.replace('}', '{')} has no {'end' if closing == chr(34) else closing}")
            depth += (text[at] == "{" and closing == "}") - (text[at] == closing)
            at = at + 1 if text[at] == closing else self._skip(at)
        return at

    def _find(self, sign: str, at: int) -> int:
        end = self.text.find(sign, at)
        if end < 0:
            raise ShellError(f"a {sign} has no end")
        return end


def end_of_sum(text: str, at: int) -> int | None:
    """The position after a sum `((…))`, in which `<<` shifts bits. `None`: it is no sum but nested parentheses."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 1 and place > at:
            return place + 2 if text.startswith("))", place) else None
    return None


def _join(parts: list[WordPart]) -> Word:
    joined: list[WordPart] = []
    for part in parts:
        if joined and part.kind == "text" == joined[-1].kind and part.quoted == joined[-1].quoted:
            joined[-1] = WordPart("text", joined[-1].text + part.text, part.quoted)
        else:
            joined.append(part)
    return tuple(joined)
