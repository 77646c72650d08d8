"""Reads a shell script from left to right: blanks, keywords, words, assignments, redirections and heredocs."""

from __future__ import annotations

import re

import msgspec

from cockpit.budget.scripts.tree import Assign, Redirect
from cockpit.budget.scripts.words import BLANK, ENDS, Heredoc, ShellError, Word, WordPart, find_end, read_word

_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?(\+?)=", re.ASCII)
_REDIRECT = re.compile(r"(\d{0,4}|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\()|&>>?)")
_SETS = re.compile(r"(?<!\\)(?:\$\{\w+:?=|\$\(\([^)\n]{0,200}(?:\+\+|--|(?<![=!<>])=(?!=)))")
"""What sets a variable where it stands in a text."""
_OPERATOR = re.compile(r";;&?|;&|&&|\|\||\|&|[;&|\n]")


class Reader(msgspec.Struct):
    """A text, and where in it the reading is."""

    text: str
    at: int = 0
    depth: int = 0
    waiting: list[Heredoc] = msgspec.field(default_factory=list)
    """Announced in this line: their text begins in the next one."""

    def error(self, what: str) -> ShellError:
        """What is wrong, and in which line."""
        return ShellError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def blanks(self) -> None:
        """Goes on past blanks, lines that go on, and comments."""
        while self.at < len(self.text):
            if self.text[self.at] in BLANK or self.text[self.at] == "\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def newlines(self) -> None:
        """Goes on to the next command."""
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.newline()
            self.blanks()

    def newline(self) -> None:
        """Goes past the end of a line, and past the heredocs that it announced, whose text isn't followed."""
        self.at += 1
        for heredoc in self.waiting:
            self.heredoc(heredoc)
        self.waiting.clear()

    def heredoc(self, heredoc: Heredoc) -> None:
        """Goes past the lines up to its end."""
        start, self.at = self.at, heredoc.end_in(self.text, self.at)
        if not heredoc.literal and _SETS.search(self.text[start : self.at]):
            raise self.error("a heredoc that sets a variable is not followed")

    def operator(self) -> str:
        """What stands between two commands, if it comes next; it stays unread."""
        self.blanks()
        found = _OPERATOR.match(self.text, self.at)
        return found[0] if found and not self.text.startswith("&>", self.at) else ""

    def keyword(self) -> str | None:
        """The word that comes next, if it could be a keyword; it stays unread."""
        self.blanks()
        if self.at < len(self.text) and self.text[self.at] in "()":
            return self.text[self.at]
        found = re.compile(r"[^\s;&|<>()'\"\\$`]+").match(self.text, self.at)
        after = self.text[found.end() : found.end() + 1] if found else ""
        return found[0] if found and (not after or after in ENDS or after == "\n") else None

    def expect(self, *words: str) -> str:
        """Reads one of these keywords."""
        self.newlines()
        found = self.keyword()
        if found not in words:
            raise self.error(f"{' or '.join(words)} is missing")
        self.at += len(found)
        return found

    def redirects(self) -> list[Redirect]:
        """`> file`, `<<EOF` and their like, as many as stand here."""
        found: list[Redirect] = []
        while True:
            self.blanks()
            sign = _REDIRECT.match(self.text, self.at)
            if not sign:
                return found
            self.at = sign.end()
            self.blanks()
            word = self.word(needed=False)
            if sign[2] in {"<<", "<<-"}:
                self.waiting.append(Heredoc.announced(word, sign[2]))
            found.append(Redirect(sign[1], sign[2], word))

    def word(self, *, needed: bool = True) -> Word:
        """A word, or `<(…)`."""
        start = self.at
        if self.text.startswith(("<(", ">("), self.at):
            self.at = find_end(self.text, self.at + 1, "(", ")")
            return (WordPart("process", self.text[start + 2 : self.at - 1], True),)
        word, self.at = read_word(self.text, self.at)
        if needed and self.at == start:
            raise self.error(f"{self.text[start : start + 1]!r} was not expected")
        return word

    def assign(self) -> Assign | None:
        """`name=…`, if that comes next."""
        found = _ASSIGN.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        name, index, more = found[1], found[2], bool(found[3])
        if not self.text.startswith("(", self.at):
            word, self.at = read_word(self.text, self.at)
            return Assign(name, index, more, word, None)
        self.at += 1
        words: list[Word] = []
        while True:
            self.newlines()
            if self.at >= len(self.text):
                raise self.error("( has no )")
            if self.text[self.at] == ")":
                self.at += 1
                return Assign(name, index, more, (), tuple(words))
            words.append(self.word())
