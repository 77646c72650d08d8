"""Parses shell scripts, with the part of the grammar that scripts of training jobs use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

MAX_SUM_CHARS = 2000
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?(\+?)=", re.ASCII)
_STOPS = {"then", "do", "done", "fi", "elif", "else", "esac", "}", ")"}
_ENDS = frozenset(" \t\n;&|<>()")
"""The characters that end an unquoted word."""
_BLANKS = re.compile(r"(?:[ \t\r]|\\\n|#[^\n]*)*")
_PLAIN = re.compile(r"[^\s;&|<>()'\"\\$`}]+")
_KEYWORD = re.compile(r"[()]|[^\s;&|<>()'\"\\$`]+(?=[ \t\n;&|<>()]|\Z)")
_OPERATOR = re.compile(r";;|&&|\|\||\|&|[;|\n]|&(?!>)")
_REDIRECT = re.compile(r"(?:\d{0,4}|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\()|&>>?)")
_FUNCTION = re.compile(r"(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))")
_IN_TEST = re.compile(r"&&|\|\||[<>()|&;]")
_SINGLE_QUOTED = re.compile(r"'[^']*'|\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_TICKS = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_SETS = re.compile(r"(?<!\\)(?:\$\{\w+:?=|\$\(\([^)\n]{0,200}(?:\+\+|--|(?<![=!<>])=(?!=)))")
"""Expansions that also set a variable."""


Kind = Literal[
    "simple", "test", "sum", "list", "joined", "pipe", "not", "background", "subshell", "if", "case", "for", "while", "match", "function",
]  # fmt: skip


class ShellError(Exception):
    """The text is no shell code. The message has the line."""


class Node(msgspec.Struct, frozen=True):
    """A part of a script. Its words are kept as they are written, with their quotes."""

    kind: Kind
    words: tuple[str, ...] = ()
    """Of `joined`: its operator; of `for`: the variable and the items; of `match`: the value and the patterns."""
    parts: tuple[Node, ...] = ()
    """Of `if`, `case` and `while`: each condition before its body. An `else` comes last, without a condition."""
    redirects: tuple[tuple[str, str], ...] = ()
    """Each with its operator (`2>`) and its word."""


def parse(text: str) -> Node:
    """The commands of a script. Raises `ShellError` if the text is no shell code."""
    parser = _Parser(text.replace("\r\n", "\n"))
    found = parser.sequence()
    if parser.at < len(parser.text):
        word = parser.keyword()
        raise parser.error(f"{word} was not expected" if word in _STOPS else "")
    return found


def split_words(text: str) -> list[str]:
    """The words of a text that may have several lines and comments, such as that of an array."""
    return _Parser(text).words()


def skip(text: str, at: int, *, quoted: bool = False) -> int:
    """The position after the escape, quote, expansion or single character that begins at this position."""
    if text[at] == "\\":
        return at + 2
    if not quoted and (found := _SINGLE_QUOTED.match(text, at)):
        return found.end()
    if text[at] == "`" and (found := _TICKS.match(text, at)):
        return found.end()
    if text.startswith("$((", at) and (end := end_of_sum(text, at + 1)) is not None:
        return end
    if text.startswith("$(", at) or (not quoted and text.startswith(("<(", ">("), at)):
        parser = _Parser(text, at + 1)
        parser.block("(", ")")
        return parser.at
    if text[at] == '"' or text.startswith("${", at):
        return _skip_to_end(text, at)
    if text[at] in "'`" and not quoted:
        raise _error(text, at, f"a {text[at]} has no end")
    return at + 1


def _skip_to_end(text: str, start: int) -> int:
    """The position after the `"…"` or `${…}` that begins at this position."""
    opening, closing = ('"', '"') if text[start] == '"' else ("${", "}")
    at, level = start + len(opening), 1
    while at < len(text):
        if text[at] == closing:
            at, level = at + 1, level - 1
            if not level:
                return at
        else:
            level += text[at] == "{" and closing == "}"
            at = skip(text, at, quoted=True)
    raise _error(text, start, f"a {opening} has no end")


def _error(text: str, at: int, what: str) -> ShellError:
    return ShellError(f"line {text.count(chr(10), 0, at) + 1}: {what}")


def end_of_sum(text: str, at: int) -> int | None:
    """The position after a sum `((…))`, in which `<<` shifts bits. `None`: it is no sum but nested parentheses."""
    depth = 0
    for found in re.compile("[()]").finditer(text, at, at + MAX_SUM_CHARS):
        depth += 1 if found[0] == "(" else -1
        if depth == 1 and found.start() > at + 1:
            return found.start() + 2 if text.startswith("))", found.start()) else None
    return None


class _Parser:
    """A text, and the position at which it is read."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at
        self.heredocs: list[tuple[str, str]] = []
        """The heredocs of this line. Their texts begin in the next line."""

    def error(self, what: str = "") -> ShellError:
        return _error(self.text, self.at, what or f"{self.text[self.at : self.at + 10]!r} was not expected")

    def newlines(self) -> None:
        """Go to the next command. The texts of heredocs are skipped."""
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.at += 1
            for sign, word in self.heredocs:
                end, tabs = re.sub(r"[\"'\\]", "", word), "\t*" if sign.endswith("-") else ""
                found = re.compile(rf"^{tabs}{re.escape(end)}$", re.MULTILINE).search(self.text, self.at)
                start, self.at = self.at, min(found.end() + 1, len(self.text)) if found else len(self.text)
                if end == word and _SETS.search(self.text, start, self.at):
                    raise self.error("a heredoc that sets a variable is not followed")
            self.heredocs.clear()
            self.blanks()

    def blanks(self) -> None:
        self.at = found.end() if (found := _BLANKS.match(self.text, self.at)) else self.at

    def operator(self) -> str:
        """The operator between two commands, if it comes next. It is not consumed."""
        self.blanks()
        return found[0] if (found := _OPERATOR.match(self.text, self.at)) else ""

    def keyword(self) -> str:
        """The next word, if it may be a keyword. It is not consumed."""
        self.blanks()
        return found[0] if (found := _KEYWORD.match(self.text, self.at)) else ""

    def expect(self, *words: str) -> str:
        """Read one of these keywords."""
        self.newlines()
        found = self.keyword()
        if found not in words:
            raise self.error(f"{' or '.join(words)} is missing")
        self.at += len(found)
        return found

    def word(self, ends: frozenset[str] = _ENDS, *, needed: bool = True) -> str:
        """Read a word as it is written. An array with its assignment is one word."""
        start = self.at
        if (found := ASSIGNMENT.match(self.text, start)) and self.text.startswith("(", found.end()):
            self.at = found.end() + 1
            self.words()
            self.at += 1
        while self.at < len(self.text) and (self.text[self.at] not in ends or self.text.startswith(("<(", ">("), self.at)):
            plain = _PLAIN.match(self.text, self.at)
            self.at = plain.end() if plain else skip(self.text, self.at)
        if needed and self.at == start:
            raise self.error()
        return self.text[start : self.at]

    def words(self) -> list[str]:
        """Read the words before a `)` or the end."""
        found: list[str] = []
        self.newlines()
        while self.at < len(self.text) and self.text[self.at] != ")":
            found.append(self.word())
            self.newlines()
        return found

    def redirects(self) -> tuple[tuple[str, str], ...]:
        """Read all redirections that come next, such as `> file` and `<<EOF`."""
        found: list[tuple[str, str]] = []
        while True:
            self.blanks()
            sign = _REDIRECT.match(self.text, self.at)
            if not sign:
                return tuple(found)
            self.at = sign.end()
            self.blanks()
            found.append((sign[0], self.word(needed=False)))
            if sign[1] in {"<<", "<<-"}:
                self.heredocs.append(found[-1])

    def sequence(self) -> Node:
        """Read commands up to a word that ends them."""
        parts: list[Node] = []
        while True:
            self.newlines()
            if self.at >= len(self.text) or self.keyword() in _STOPS or self.operator() == ";;":
                break
            node, sign = self.joined(), self.operator()
            parts.append(Node("background", parts=(node,)) if sign == "&" else node)
            if not sign or sign == ";;":
                break
            self.at += len(sign) if sign != "\n" else 0
        return Node("list", parts=tuple(parts))

    def joined(self) -> Node:
        """Read pipelines that `&&` and `||` join. A `&` behind them puts all of them into the background."""
        node = self.pipeline()
        while (sign := self.operator()) in {"&&", "||"}:
            self.at += len(sign)
            self.newlines()
            node = Node("joined", (sign,), (node, self.pipeline()))
        return node

    def pipeline(self) -> Node:
        denied = False
        while self.keyword() in {"!", "time"}:
            denied ^= self.expect("!", "time") == "!"
        parts = [self.command()]
        while self.operator() in {"|", "|&"}:
            self.at += len(self.operator())
            self.newlines()
            parts.append(self.command())
        node = parts[0] if len(parts) == 1 else Node("pipe", parts=tuple(parts))
        return Node("not", parts=(node,)) if denied else node

    def command(self) -> Node:
        word = self.keyword()
        if word in _COMPOUNDS:
            node = _COMPOUNDS[word](self)
            return msgspec.structs.replace(node, redirects=self.redirects())
        if defined := _FUNCTION.match(self.text, self.at):
            self.at = defined.end()
            self.newlines()
            return Node("function", (defined[1] or defined[2],), (self.command(),))
        return self.simple()

    def simple(self) -> Node:
        words: list[str] = []
        redirects = self.redirects()
        while self.at < len(self.text) and not self.operator() and self.text[self.at] not in "()":
            words.append(self.word())
            redirects += self.redirects()
        if not words and not redirects:
            raise self.error()
        return Node("simple", tuple(words), (), redirects)

    def test(self) -> Node:
        """Read `[[ … ]]`, in which `<`, `>`, `(` and `)` are words."""
        words = [self.expect("[[")]
        while words[-1] != "]]":
            self.newlines()
            if self.at >= len(self.text):
                raise self.error("[[ has no ]]")
            if found := _IN_TEST.match(self.text, self.at):
                words.append(found[0])
                self.at = found.end()
            else:
                words.append(self.word(_ENDS - {"|", "(", ")"} if words[-1] == "=~" else _ENDS))
        if len(words) == 5 and words[2] in {"=", "==", "!="}:
            matches = Node("match", (words[1], words[3]))
            return Node("not", parts=(matches,)) if words[2] == "!=" else matches
        return Node("test", tuple(words[1:-1]))

    def block(self, opening: str, closing: str) -> Node:
        self.expect(opening)
        body = self.sequence()
        self.expect(closing)
        return body

    def parentheses(self) -> Node:
        start, end = self.at, end_of_sum(self.text, self.at) if self.text.startswith("((", self.at) else None
        if end is None:
            return Node("subshell", parts=(self.block("(", ")"),))
        self.at = end
        return Node("sum", (self.text[start + 2 : end - 2],))

    def conditional(self) -> Node:
        parts: list[Node] = []
        word = self.expect("if")
        while word != "fi":
            if word != "else":
                parts.append(self.sequence())
                self.expect("then")
            parts.append(self.sequence())
            word = self.expect("elif", "else", "fi")
        return Node("if", parts=tuple(parts))

    def loop(self) -> Node:
        word = self.expect("while", "until")
        condition = self.sequence()
        condition = Node("not", parts=(condition,)) if word == "until" else condition
        return Node("while", parts=(condition, self.block("do", "done")))

    def each(self) -> Node:
        self.expect("for")
        self.blanks()
        if self.text.startswith("((", self.at):
            # The three parts are read as one sum. It changes variables, so its result is unknown.
            counter = self.parentheses()
            self.at += self.operator() == ";"
            return Node("while", parts=(counter, self.block("do", "done")))
        words = [self.word(), '"$@"']
        self.newlines()
        if self.keyword() == "in":
            self.expect("in")
            del words[1:]
            while self.at < len(self.text) and not self.operator():
                words.append(self.word())
        self.at += self.operator() == ";"
        return Node("for", tuple(words), (self.block("do", "done"),))

    def case(self) -> Node:
        """Read `case`, which is like an `if` with a match for each branch."""
        self.expect("case")
        self.blanks()
        word = self.word()
        self.expect("in")
        parts: list[Node] = []
        self.newlines()
        while self.keyword() != "esac":
            patterns: list[str] = []
            sign = "|"
            self.at += self.text.startswith("(", self.at)
            while sign == "|":
                self.blanks()
                patterns.append(self.word())
                self.blanks()
                sign = self.text[self.at : self.at + 1]
                if sign not in {"|", ")"}:
                    raise self.error("a pattern has no )")
                self.at += 1
            parts += [Node("match", (word, *patterns)), self.sequence()]
            self.at += 2 if self.operator() == ";;" else 0
            self.newlines()
        self.expect("esac")
        return Node("case", parts=tuple(parts))


_COMPOUNDS: dict[str, Callable[[_Parser], Node]] = {
    "if": _Parser.conditional,
    "for": _Parser.each,
    "while": _Parser.loop,
    "until": _Parser.loop,
    "case": _Parser.case,
    "{": lambda parser: parser.block("{", "}"),
    "(": _Parser.parentheses,
    "[[": _Parser.test,
}
