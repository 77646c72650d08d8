"""The grammar of a shell script, as far as scripts that launch training use it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from cockpit.budget.shell_tree import Assign, Case, For, Function, Heredoc, If, Node, Pipeline, Sequence, Simple, Sum, Unfollowed, While
from cockpit.budget.shell_words import BLANK, ENDS, Part, ShellError, Word, balanced, heredoc_text, plain, read_word

DEEPEST = 40
DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}


_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[([^]]*)\])?(\+?)=", re.ASCII)
_REDIRECT = re.compile(r"(?:\d{0,4}|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\())|&>>?")
_OPERATOR = re.compile(r";;&?|;&|&&|\|\||\|&|[;&|\n]")
_STOPS = {"then", "do", "done", "fi", "elif", "else", "esac", "}"}


@dataclass
class _Parser:
    text: str
    at: int = 0
    depth: int = 0
    waiting: list[Heredoc] = field(default_factory=list)

    def script(self) -> Sequence:
        found = self.sequence(frozenset())
        if self.at < len(self.text):
            raise self.error(f"{self.text[self.at : self.at + 10]!r} was not expected")
        return found

    def error(self, what: str) -> ShellError:
        return ShellError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def blanks(self) -> None:
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
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.newline()
            self.blanks()

    def newline(self) -> None:
        self.at += 1
        for heredoc in self.waiting:
            heredoc.body = self.heredoc(heredoc)
        self.waiting.clear()

    def heredoc(self, heredoc: Heredoc) -> Word:
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
        return (Part("text", body, True),) if heredoc.literal else heredoc_text(body)

    def operator(self) -> str:
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
        self.newlines()
        found = self.keyword()
        if found not in words:
            raise self.error(f"{' or '.join(words)} is missing")
        self.at += len(found)
        return found

    def sequence(self, stops: frozenset[str]) -> Sequence:
        self.depth += 1
        if self.depth > DEEPEST:
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
            self.newline() if sign == "\n" else self.skip(sign)
            items.append((node, sign))
        self.depth -= 1
        return Sequence(tuple(items))

    def skip(self, sign: str) -> None:
        self.at += len(sign)

    def pipeline(self) -> Node:
        denied = False
        while self.keyword() in {"!", "time"}:
            denied ^= self.expect("!", "time") == "!"
            self.blanks()
        parts = [self.command()]
        while self.operator() in {"|", "|&"}:
            self.skip(self.operator())
            self.newlines()
            parts.append(self.command())
        return Pipeline(tuple(parts), denied) if denied or len(parts) > 1 else parts[0]

    def command(self) -> Node:
        word = self.keyword()
        if word in _COMPOUNDS:
            node = _COMPOUNDS[word](self)
            self.redirects()
            return node
        if word in _STOPS or word == ")":
            raise self.error(f"{word} was not expected")
        defined = re.compile(r"(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))").match(self.text, self.at)
        if defined:
            self.at = defined.end()
            self.newlines()
            return Function(defined[1] or defined[2], self.command())
        return self.simple()

    def redirects(self) -> Heredoc | None:
        given: Heredoc | None = None
        while True:
            self.blanks()
            found = _REDIRECT.match(self.text, self.at)
            if not found:
                return given
            self.at = found.end()
            self.blanks()
            given = self.redirect(found[1] or "&>") or given

    def redirect(self, sign: str) -> Heredoc | None:
        word = self.word() if self.is_process() else self.target()
        if sign == "<<<":
            return Heredoc("", literal=True, tabs=False, body=(*word, Part("text", "\n", True)))
        if not sign.startswith("<<"):
            return None
        end = "".join(part.text for part in word)
        heredoc = Heredoc(end, literal=any(part.quoted for part in word), tabs=sign == "<<-")
        self.waiting.append(heredoc)
        return heredoc

    def simple(self) -> Node:
        line = self.text.count("\n", 0, self.at) + 1
        assigns: list[Assign] = []
        words: list[Word] = []
        given: Heredoc | None = None
        while True:
            given = self.redirects() or given
            if self.at >= len(self.text) or self.operator() or self.text[self.at] in "()":
                break
            assign = self.assign() if not words or plain(words[0]) in DECLARATIONS else None
            if assign:
                assigns.append(assign)
            else:
                words.append(self.word())
                if len(words) == 1 and plain(words[0]) == "[[":
                    self.test(words)
        if not assigns and not words and given is None:
            raise self.error(f"{self.text[self.at : self.at + 10]!r} was not expected")
        return Simple(tuple(assigns), tuple(words), given, line)

    def target(self) -> Word:
        word, self.at = read_word(self.text, self.at)
        return word

    def is_process(self) -> bool:
        """Whether `<(…)` or `>(…)` comes next."""
        return self.text.startswith(("<(", ">("), self.at)

    def word(self) -> Word:
        if self.is_process():
            self.at = balanced(self.text, self.at + 1, "(", ")")
            return (Part("command", "", True),)
        start = self.at
        word, self.at = read_word(self.text, self.at)
        if self.at == start:
            raise self.error(f"{self.text[start : start + 1]!r} was not expected")
        return word

    def test(self, words: list[Word]) -> None:
        """All of `[[ … ]]`, where signs of redirection and grouping are words."""
        while not words or plain(words[-1]) != "]]":
            self.newlines()
            found = re.compile(r"&&|\|\||[<>()|&;]").match(self.text, self.at)
            if self.at >= len(self.text):
                raise self.error("[[ has no ]]")
            if found:
                words.append((Part("text", found[0], False),))
                self.skip(found[0])
            else:
                word, self.at = read_word(self.text, self.at, ENDS - {"|", "(", ")"} if plain(words[-1]) == "=~" else ENDS)
                words.append(word)

    def assign(self) -> Assign | None:
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

    def block(self, opening: str, closing: str) -> Sequence:
        self.expect(opening)
        body = self.sequence(frozenset({closing}))
        self.expect(closing)
        return body

    def braces(self) -> Node:
        return self.block("{", "}")

    def parentheses(self) -> Node:
        if self.text.startswith("((", self.at) and balanced(self.text, self.at + 1, "(", ")") == balanced(self.text, self.at, "(", ")") - 1:
            start, self.at = self.at, balanced(self.text, self.at, "(", ")")
            return Sum(self.text[start + 2 : self.at - 2])
        return Pipeline((self.block("(", ")"),))

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
        return While(until, condition, self.turns())

    def turns(self) -> Sequence:
        return self.block("do", "done")

    def each(self) -> Node:
        self.expect("for", "select")
        self.blanks()
        if self.text.startswith("((", self.at):
            self.at = balanced(self.text, self.at, "(", ")")
            self.separator()
            return Unfollowed(self.turns())
        name = plain(self.word()) or "_"
        self.newlines()
        words = self.listed() if self.keyword() == "in" else None
        self.separator()
        return For(name, words, self.turns())

    def listed(self) -> tuple[Word, ...]:
        self.expect("in")
        words: list[Word] = []
        self.blanks()
        while self.at < len(self.text) and not self.operator():
            words.append(self.word())
            self.blanks()
        return tuple(words)

    def separator(self) -> None:
        if self.operator() == ";":
            self.skip(";")
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
            self.skip(sign if sign.startswith((";;", ";&")) else "")
            self.newlines()
        self.expect("esac")
        return Case(word, tuple(branches))

    def patterns(self) -> tuple[Word, ...]:
        if self.text.startswith("(", self.at):
            self.skip("(")
        found: list[Word] = []
        while True:
            self.blanks()
            found.append(self.word())
            self.blanks()
            sign = self.text[self.at : self.at + 1]
            if sign not in {"|", ")"}:
                raise self.error("a pattern has no )")
            self.skip(sign)
            if sign == ")":
                return tuple(found)


_COMPOUNDS: dict[str | None, Callable[[_Parser], Node]] = {
    "if": _Parser.conditional,
    "for": _Parser.each,
    "select": _Parser.each,
    "while": _Parser.loop,
    "until": _Parser.loop,
    "case": _Parser.case,
    "{": _Parser.braces,
    "(": _Parser.parentheses,
}


def parse(text: str) -> Sequence:
    """A script's commands; raises `ShellError` where it is no shell."""
    return _Parser(text.replace("\r\n", "\n")).script()
