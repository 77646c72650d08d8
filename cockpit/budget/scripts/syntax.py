"""Parses shell scripts, with the part of the grammar that scripts of training jobs use."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.budget.scripts import tree
from cockpit.budget.scripts.tree import Assign, Case, For, Function, If, Node, Pipeline, Redirect, Redirected, Sequence, Simple, Sum, While
from cockpit.budget.scripts.words import ENDS, ShellError, WordReader, end_of_sum, read_keyword

MAX_DEPTH = 40
DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}
_STOPS = {"then", "do", "done", "fi", "elif", "else", "esac", "}", ")"}
_BLANKS = re.compile(r"(?:[ \t\r]|\\\n|#[^\n]*)*")
_KEYWORD = re.compile(r"[()]|[^\s;&|<>()'\"\\$`]+(?=[ \t\n;&|<>()]|\Z)")
_OPERATOR = re.compile(r";;&?|;&|&&|\|\||\|&|[;|\n]|&(?!>)")
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?(\+?)=", re.ASCII)
_REDIRECT = re.compile(r"(\d{0,4}|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\()|&>>?)")
_FUNCTION = re.compile(r"(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))")
_IN_TEST = re.compile(r"&&|\|\||[<>()|&;]")
_SETS = re.compile(r"(?<!\\)(?:\$\{\w+:?=|\$\(\([^)\n]{0,200}(?:\+\+|--|(?<![=!<>])=(?!=)))")
"""Expansions that also set a variable."""


class _Parser:
    """A text, and the position at which it is read."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text = text
        self.at = at
        self.depth = depth
        self.words = WordReader(text, self._end_of_command)
        self.heredocs: list[tuple[tree.Word, str]] = []
        """The heredocs of this line, each with its operator. Their texts begin in the next line."""

    def _end_of_command(self, text: str, at: int) -> int:
        inner = _Parser(text, at, self.depth + 1)
        inner.sequence(frozenset({")"}))
        inner.expect(")")
        return inner.at

    def error(self, what: str) -> ShellError:
        """An error with its line."""
        return ShellError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def blanks(self) -> None:
        self.at = found.end() if (found := _BLANKS.match(self.text, self.at)) else self.at

    def newlines(self) -> None:
        """Go to the next command. The texts of heredocs are skipped."""
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.at += 1
            for word, sign in self.heredocs:
                self._heredoc(word, sign)
            self.heredocs.clear()
            self.blanks()

    def _heredoc(self, word: tree.Word, sign: str) -> None:
        end, start = "".join(part.text for part in word), self.at
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            line, self.at = (self.text[self.at :], len(self.text)) if stop < 0 else (self.text[self.at : stop], stop + 1)
            if (line.lstrip("\t") if sign == "<<-" else line) == end:
                break
        if not any(part.quoted for part in word) and _SETS.search(self.text[start : self.at]):
            raise self.error("a heredoc that sets a variable is not followed")

    def operator(self) -> str:
        """The operator between two commands, if it comes next. It is not consumed."""
        self.blanks()
        found = _OPERATOR.match(self.text, self.at)
        return found[0] if found else ""

    def keyword(self) -> str | None:
        """The next word, if it may be a keyword. It is not consumed."""
        self.blanks()
        found = _KEYWORD.match(self.text, self.at)
        return found[0] if found else None

    def expect(self, *words: str) -> str:
        """Read one of these keywords."""
        self.newlines()
        found = self.keyword()
        if found not in words:
            raise self.error(f"{' or '.join(words)} is missing")
        self.at += len(found)
        return found

    def word(self, *, needed: bool = True, ends: frozenset[str] = ENDS) -> tree.Word:
        """Read a word, or `<(…)`."""
        start = self.at
        if self.text.startswith(("<(", ">("), self.at):
            self.at = self._end_of_command(self.text, self.at + 2)
            return (tree.WordPart("process", self.text[start + 2 : self.at - 1], True),)
        word, self.at = self.words.word(self.at, ends)
        if needed and self.at == start:
            raise self.error(f"{self.text[start : start + 1]!r} was not expected")
        return word

    def redirects(self) -> list[Redirect]:
        """Read all redirections that come next, such as `> file` and `<<EOF`."""
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
                self.heredocs.append((word, sign[2]))
            found.append(Redirect(sign[1], sign[2], word))

    def assign(self) -> Assign | None:
        """Read an assignment (`name=…`), if one comes next."""
        found = _ASSIGN.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        if not self.text.startswith("(", self.at):
            return Assign(found[1], found[2], bool(found[3]), self.word(needed=False), None)
        self.at += 1
        words: list[tree.Word] = []
        self.newlines()
        while not self.text.startswith(")", self.at):
            if self.at >= len(self.text):
                raise self.error("( has no )")
            words.append(self.word())
            self.newlines()
        self.at += 1
        return Assign(found[1], found[2], bool(found[3]), (), tuple(words))

    def sequence(self, stops: frozenset[str]) -> Sequence:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("too deep")
        items: list[tuple[Node, str]] = []
        while True:
            self.newlines()
            if self.at >= len(self.text) or self.keyword() in stops or (stops and self.operator().startswith((";;", ";&"))):
                break
            node = self.pipeline()
            sign = self.operator()
            if not sign or sign.startswith((";;", ";&")):
                items.append((node, "\n"))
                break
            if sign == "\n":
                self.newlines()
            else:
                self.at += len(sign)
            items.append((node, sign))
        self.depth -= 1
        return Sequence(tuple(items))

    def pipeline(self) -> Node:
        denied = False
        while self.keyword() in {"!", "time"}:
            denied ^= self.expect("!", "time") == "!"
        parts = [self.command()]
        while self.operator() in {"|", "|&"}:
            self.at += len(self.operator())
            self.newlines()
            parts.append(self.command())
        return Pipeline(tuple(parts), denied) if denied or len(parts) > 1 else parts[0]

    def command(self) -> Node:
        word = self.keyword()
        if word in _COMPOUNDS:
            node = _COMPOUNDS[word](self)
            redirects = self.redirects()
            return Redirected(node, tuple(redirects)) if redirects else node
        if word in _STOPS:
            raise self.error(f"{word} was not expected")
        if defined := _FUNCTION.match(self.text, self.at):
            self.at = defined.end()
            self.newlines()
            return Function(defined[1] or defined[2], self.command())
        return self.simple()

    def simple(self) -> Node:
        assigns: list[Assign] = []
        words: list[tree.Word] = []
        redirects: list[Redirect] = []
        while True:
            redirects += self.redirects()
            if self.at >= len(self.text) or self.operator() or self.text[self.at] in "()":
                break
            assign = self.assign() if not words or read_keyword(words[0]) in DECLARATIONS else None
            if assign:
                assigns.append(assign)
            else:
                words.append(self.word())
                if len(words) == 1 and read_keyword(words[0]) == "[[":
                    self.test(words)
        if not assigns and not words and not redirects:
            raise self.error(f"{self.text[self.at : self.at + 10]!r} was not expected")
        node = Simple(tuple(assigns), tuple(words))
        return Redirected(node, tuple(redirects)) if redirects else node

    def test(self, words: list[tree.Word]) -> None:
        """Read the rest of `[[ … ]]`, in which `<`, `>`, `(` and `)` are words."""
        while read_keyword(words[-1]) != "]]":
            self.newlines()
            if self.at >= len(self.text):
                raise self.error("[[ has no ]]")
            if found := _IN_TEST.match(self.text, self.at):
                words.append((tree.WordPart("text", found[0], False),))
                self.at += len(found[0])
            else:
                words.append(self.word(ends=ENDS - {"|", "(", ")"} if read_keyword(words[-1]) == "=~" else ENDS))

    def block(self, opening: str, closing: str) -> Sequence:
        self.expect(opening)
        body = self.sequence(frozenset({closing}))
        self.expect(closing)
        return body

    def parentheses(self) -> Node:
        if self.text.startswith("((", self.at) and end_of_sum(self.text, self.at) is not None:
            return self.sum()
        return Pipeline((self.block("(", ")"),))

    def sum(self) -> Sum:
        start, end = self.at, end_of_sum(self.text, self.at)
        if end is None:
            raise self.error("(( has no ))")
        self.at = end
        return Sum(self.text[start + 2 : end - 2])

    def conditional(self) -> Node:
        branches: list[tuple[Sequence | None, Sequence]] = []
        word = self.expect("if")
        while word != "fi":
            condition = self.sequence(frozenset({"then"})) if word in {"if", "elif"} else None
            if condition is not None:
                self.expect("then")
            branches.append((condition, self.sequence(frozenset({"elif", "else", "fi"}))))
            word = self.expect("elif", "else", "fi")
        return If(tuple(branches))

    def loop(self) -> Node:
        until = self.expect("while", "until") == "until"
        condition = self.sequence(frozenset({"do"}))
        return While(until, condition, self.block("do", "done"))

    def each(self) -> Node:
        self.expect("for")
        self.blanks()
        is_sum = self.text.startswith("((", self.at)
        # The three parts are read as one sum. It changes variables, so its result is unknown.
        head: Sum | str = self.sum() if is_sum else read_keyword(self.word()) or "_"
        words: list[tree.Word] | None = None
        if not is_sum:
            self.newlines()
            if self.keyword() == "in":
                self.expect("in")
                words = []
                while self.at < len(self.text) and not self.operator():
                    words.append(self.word())
                    self.blanks()
        if self.operator() == ";":
            self.at += 1
        body = self.block("do", "done")
        return While(False, head, body) if isinstance(head, Sum) else For(head, None if words is None else tuple(words), body)

    def case(self) -> Node:
        self.expect("case")
        self.blanks()
        word = self.word()
        self.expect("in")
        branches: list[tuple[tuple[tree.Word, ...], Sequence]] = []
        self.newlines()
        while self.keyword() != "esac":
            patterns: list[tree.Word] = []
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
            branches.append((tuple(patterns), self.sequence(frozenset({"esac"}))))
            sign = self.operator()
            self.at += len(sign) if sign.startswith((";;", ";&")) else 0
            self.newlines()
        self.expect("esac")
        return Case(word, tuple(branches))


_COMPOUNDS: dict[str | None, Callable[[_Parser], Node]] = {
    "if": _Parser.conditional,
    "for": _Parser.each,
    "while": _Parser.loop,
    "until": _Parser.loop,
    "case": _Parser.case,
    "{": lambda parser: parser.block("{", "}"),
    "(": _Parser.parentheses,
}


def parse(text: str) -> Sequence:
    """The commands of a script. Raises `ShellError` if the text is no shell code."""
    parser = _Parser(text.replace("\r\n", "\n"))
    found = parser.sequence(frozenset())
    if parser.at < len(parser.text):
        raise parser.error(f"{parser.text[parser.at : parser.at + 10]!r} was not expected")
    return found


def read_word(text: str) -> tree.Word:
    """Read a text as one word, with quotes and expansions."""
    return _Parser(text).words.word(0, frozenset())[0]


def unquoted_text(text: str) -> tree.Word:
    """Read a text as in a sum: with expansions as between double quotes; a double quote itself has no meaning there."""
    return tuple(_Parser(text).words.between_quotes(0, len(text), escaped="$`\\\n"))
