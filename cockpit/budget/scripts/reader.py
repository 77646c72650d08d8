"""Reads a shell script from left to right: blanks, keywords, words, assignments, redirections and heredocs."""

from __future__ import annotations

import re

import msgspec

from cockpit.budget.scripts.tree import Assign, Heredoc, Redirect
from cockpit.budget.scripts.words import BLANK, ENDS, ShellError, Word, WordPart, find_end, heredoc_text, read_word

_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?(\+?)=", re.ASCII)
_REDIRECT = re.compile(r"(\d{0,4}|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\()|&>>?)")
_OPERATOR = re.compile(r";;&?|;&|&&|\|\||\|&|[;&|\n]")


class Reader(msgspec.Struct):
    """A text, and where in it the reading is."""

    text: str
    at: int = 0
    depth: int = 0
    waiting: list[Heredoc] = msgspec.field(default_factory=list)

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
        """Goes past the end of a line; the heredocs that it announced follow."""
        self.at += 1
        for heredoc in self.waiting:
            heredoc.body = self.heredoc(heredoc)
        self.waiting.clear()

    def heredoc(self, heredoc: Heredoc) -> Word:
        """The lines up to its end."""
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            line = line.lstrip("\t") if heredoc.tabs else line
            if line == heredoc.end:
                break
            lines.append(line + "\n")
        body = "".join(lines)
        return (WordPart("text", body, True),) if heredoc.literal else heredoc_text(body)

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

    def skip(self, sign: str) -> None:
        """Goes past a sign."""
        self.at += len(sign)

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
            found.append(self.redirect(sign[1], sign[2]))

    def redirect(self, stream: str, sign: str) -> Redirect:
        """What follows the sign of a redirection."""
        word = self.word() if self.is_process() else self.target()
        if sign not in {"<<", "<<-"}:
            return Redirect(stream, sign, word, None)
        end = "".join(part.text for part in word)
        heredoc = Heredoc(end, literal=any(part.quoted for part in word), tabs=sign == "<<-")
        self.waiting.append(heredoc)
        return Redirect(stream, sign, word, heredoc)

    def is_process(self) -> bool:
        """Whether `<(…)` or `>(…)` comes next."""
        return self.text.startswith(("<(", ">("), self.at)

    def target(self) -> Word:
        """A word, which may be empty."""
        word, self.at = read_word(self.text, self.at)
        return word

    def word(self) -> Word:
        """A word, or `<(…)`."""
        start = self.at
        if self.is_process():
            self.at = find_end(self.text, self.at + 1, "(", ")")
            return (WordPart("process", self.text[start + 2 : self.at - 1], True),)
        word, self.at = read_word(self.text, self.at)
        if self.at == start:
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
        self.skip("(")
        words: list[Word] = []
        while True:
            self.newlines()
            if self.at >= len(self.text):
                raise self.error("( has no )")
            if self.text[self.at] == ")":
                self.skip(")")
                return Assign(name, index, more, (), tuple(words))
            words.append(self.word())
