"""The grammar of a shell script, as far as scripts that launch training use it."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.budget.scripts.reader import Reader
from cockpit.budget.scripts.tree import Assign, Case, For, Function, If, Node, Pipeline, Redirect, Redirected, Sequence, Simple, Sum, While
from cockpit.budget.scripts.words import ENDS, Word, WordPart, end_of_sum, read_keyword, read_word

MAX_DEPTH = 40
DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}
_STOPS = {"then", "do", "done", "fi", "elif", "else", "esac", "}"}


class _Parser(Reader):
    def script(self) -> Sequence:
        found = self.sequence(frozenset())
        if self.at < len(self.text):
            raise self.error(f"{self.text[self.at : self.at + 10]!r} was not expected")
        return found

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
                self.newline()
            else:
                self.at += len(sign)
            items.append((node, sign))
        self.depth -= 1
        return Sequence(tuple(items))

    def pipeline(self) -> Node:
        denied = False
        while self.keyword() in {"!", "time"}:
            denied ^= self.expect("!", "time") == "!"
            self.blanks()
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
        if word in _STOPS or word == ")":
            raise self.error(f"{word} was not expected")
        defined = re.compile(r"(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))").match(self.text, self.at)
        if defined:
            self.at = defined.end()
            self.newlines()
            return Function(defined[1] or defined[2], self.command())
        return self.simple()

    def simple(self) -> Node:
        assigns: list[Assign] = []
        words: list[Word] = []
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

    def test(self, words: list[Word]) -> None:
        """All of `[[ … ]]`, where signs of redirection and grouping are words."""
        while not words or read_keyword(words[-1]) != "]]":
            self.newlines()
            found = re.compile(r"&&|\|\||[<>()|&;]").match(self.text, self.at)
            if self.at >= len(self.text):
                raise self.error("[[ has no ]]")
            if found:
                words.append((WordPart("text", found[0], False),))
                self.at += len(found[0])
            else:
                word, self.at = read_word(self.text, self.at, ENDS - {"|", "(", ")"} if read_keyword(words[-1]) == "=~" else ENDS)
                words.append(word)

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
        return Sum(self.text[start + 2 : self.at - 2])

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
        if self.text.startswith("((", self.at):
            condition = self.sum()  # its three parts together: they change variables, and so their result isn't known
            self.separator()
            return While(False, condition, self.block("do", "done"))
        name = read_keyword(self.word()) or "_"
        self.newlines()
        words = self.listed_words() if self.keyword() == "in" else None
        self.separator()
        return For(name, words, self.block("do", "done"))

    def listed_words(self) -> tuple[Word, ...]:
        self.expect("in")
        words: list[Word] = []
        self.blanks()
        while self.at < len(self.text) and not self.operator():
            words.append(self.word())
            self.blanks()
        return tuple(words)

    def separator(self) -> None:
        if self.operator() == ";":
            self.at += 1
        self.newlines()

    def case(self) -> Node:
        self.expect("case")
        self.blanks()
        word = self.word()
        self.expect("in")
        branches: list[tuple[tuple[Word, ...], Sequence]] = []
        self.newlines()
        while self.keyword() != "esac":
            branches.append((self.patterns(), self.sequence(frozenset({"esac"}))))
            sign = self.operator()
            self.at += len(sign) if sign.startswith((";;", ";&")) else 0
            self.newlines()
        self.expect("esac")
        return Case(word, tuple(branches))

    def patterns(self) -> tuple[Word, ...]:
        if self.text.startswith("(", self.at):
            self.at += 1
        found: list[Word] = []
        while True:
            self.blanks()
            found.append(self.word())
            self.blanks()
            sign = self.text[self.at : self.at + 1]
            if sign not in {"|", ")"}:
                raise self.error("a pattern has no )")
            self.at += 1
            if sign == ")":
                return tuple(found)


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
    """A script's commands; raises `ShellError` where it is no shell."""
    return _Parser(text.replace("\r\n", "\n")).script()
