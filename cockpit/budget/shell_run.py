"""Walks through a parsed script as a shell would, without running anything: branches that nobody can foresee are all walked."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, NoReturn

import msgspec

from cockpit.budget import shell_tree as tree
from cockpit.budget.shell_expand import Scope, Value, count, fields, text
from cockpit.budget.shell_output import PRINTERS, printed
from cockpit.budget.shell_programs import run_program
from cockpit.budget.shell_sums import UNKNOWN
from cockpit.budget.shell_syntax import DECLARATIONS, parse
from cockpit.budget.shell_tests import holds
from cockpit.budget.shell_words import ShellError, plain

STEPS = 20_000
DEEPEST = 25
TURNS = 500
_ASKING = {"[", "[[", "test", "grep", "which", "command", "type", "pgrep", "diff", "cmp", "timeout"}
"""Programs whose failure is an answer; others are taken to succeed where something follows with `&&`."""
Leaving = Literal["exit", "return", "break", "continue"]


class Command(msgspec.Struct, frozen=True):
    """One command that would run."""

    argv: tuple[str, ...]
    """`UNKNOWN` within a word: a piece that can't be known; `UNKNOWN` alone: one word, or any number of them."""
    env: Mapping[str, str]
    """What is exported to it."""
    maybe: bool = False
    """Only under a condition that can't be known."""


class LeftError(Exception):
    """`exit`, `return`, `break` and `continue`."""

    def __init__(self, kind: Leaving) -> None:
        self.kind = kind


class StopError(Exception):
    """A script that goes on for ever."""


class Run:
    """One walk; what it finds stays in `found` and `unread`."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self.read = read
        self.found: list[Command] = []
        self.unread: dict[str, None] = {}
        self.functions: dict[str, tree.Node] = {}
        self.folder: str | None = ""
        self._locals: list[dict[str, Value | None]] = []
        self._left: list[Scope] = []
        self._maybe = 0
        self._steps = 0
        self._depth = 0

    def script(self, said: str, scope: Scope) -> None:
        """Walks through a text in this scope; where it is no shell, that is said."""
        try:
            parsed = parse(said)
        except ShellError as error:
            self.unread[f"The script is no shell that can be read here: {error}"] = None
        else:
            self._deeper(lambda: self.framed(lambda: self.sequence(parsed, scope), scope, "return"))

    def _deeper(self, body: Callable[[], object]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise StopError
        body()
        self._depth -= 1

    def emit(self, argv: list[str], scope: Scope) -> None:
        """Notes a command."""
        env = {name: value for name in sorted(scope.exported) if isinstance(value := scope.variables.get(name), str)}
        self.found.append(Command(tuple(argv), env, bool(self._maybe)))

    def leave(self, kind: Leaving) -> NoReturn:
        """`exit` and its like."""
        raise LeftError(kind)

    def framed(self, body: Callable[[], object], scope: Scope, *kinds: Leaving) -> set[Leaving]:
        """Runs what may be left in these ways; says how it was. Where only some branch left it, both states count."""
        kept, self._left = self._left, []
        ways: set[Leaving] = set()
        try:
            body()
        except LeftError as left:
            if left.kind not in kinds:
                raise
            ways.add(left.kind)
        finally:
            states, self._left = self._left, kept
        if states:
            scope.merge([scope.copy(), *states])
        return ways

    def apart(self, body: Callable[[Scope], object], scope: Scope) -> None:
        """In a shell of its own: its variables, its folder and its end are its own."""
        inner, folder = scope.copy(), self.folder
        self.framed(lambda: body(inner), inner, "exit", "return", "break", "continue")
        self.folder = folder

    def either(self, choices: list[Callable[[Scope], object]], scope: Scope) -> None:
        """One of these runs, and nobody knows which."""
        ends: list[Scope] = []
        kinds: list[Leaving] = []
        folders = {self.folder}
        self._maybe += 1
        for choice in choices:
            inner = scope.copy()
            try:
                choice(inner)
                ends.append(inner)
            except LeftError as left:
                kinds.append(left.kind)
                self._left += [inner] if left.kind != "exit" else []
            folders.add(self.folder)
        self._maybe -= 1
        self.folder = folders.pop() if len(folders) == 1 else None
        if not ends:
            raise LeftError(next((kind for kind in kinds if kind != "exit"), "exit"))
        scope.merge(ends)

    def blurred(self, body: Callable[[Scope], object], scope: Scope) -> None:
        """Runs so many times that nobody knows: what it changes isn't known, neither within nor after."""
        kept, unread = len(self.found), dict(self.unread)
        trial = scope.copy()
        self.either([_nothing, body], trial)
        del self.found[kept:]
        self.unread = unread
        scope.merge([scope.copy(), trial])
        self.either([_nothing, body], scope)

    def output(self, said: str, scope: Scope) -> str:
        """What a command substitution prints; commands within it are noted."""
        try:
            inner = parse(said)
        except ShellError as error:
            self.unread[f"A command substitution can't be read: {error}"] = None
            return UNKNOWN
        told = self._printed(inner, scope)
        if told is None:
            self._deeper(lambda: self.apart(partial(self.sequence, inner), scope))
        return UNKNOWN if told is None else told.rstrip("\n")

    def _printed(self, said: tree.Sequence, scope: Scope) -> str | None:
        """`None` where this is more than programs that work on their words."""
        node = said.items[0][0] if len(said.items) == 1 else None
        given: str | None = None
        for part in node.parts if isinstance(node, tree.Pipeline) else (node,):
            if not isinstance(part, tree.Simple) or part.assigns or not part.words or plain(part.words[0]) not in PRINTERS:
                return None
            given = text(part.given.body, scope) if part.given else given
            given = printed([item for word in part.words for item in fields(word, scope)], given)
        return given

    def node(self, node: tree.Node, scope: Scope) -> bool | None:
        """Whether it succeeds; `None`: nobody knows."""
        self._steps += 1
        if self._steps > STEPS:
            raise StopError
        return _WALKS[type(node)](self, node, scope)

    def sequence(self, node: tree.Sequence, scope: Scope) -> bool | None:
        """Commands, and what `&&` and `||` make of them."""
        status: bool | None = True
        before, doubt = "\n", False
        for item, sign in node.items:
            doubt = doubt and before in {"&&", "||"}
            if before not in {"&&", "||"} or (not doubt and status is (before == "&&")):
                status = self._apart_if(sign == "&", item, scope)
            elif status is None or doubt:
                doubt = True
                self.either([_nothing, partial(self.node, item)], scope)
                status = None
            before = sign
            if status is None and sign == "&&" and not doubt:
                status, doubt = (None, True) if _asks(item) else (True, False)
        return status

    def _apart_if(self, alone: bool, item: tree.Node, scope: Scope) -> bool | None:
        if not alone:
            return self.node(item, scope)
        self.apart(partial(self.node, item), scope)
        return True

    def pipeline(self, node: tree.Pipeline, scope: Scope) -> bool | None:
        """Each part in a shell of its own, unless it is only denied."""
        if node.denied and len(node.parts) == 1:
            status = self.node(node.parts[0], scope)
            return None if status is None else not status
        for part in node.parts:
            self.apart(partial(self.node, part), scope)
        return None

    def conditional(self, node: tree.If, scope: Scope) -> bool | None:
        """`if`: all branches from the first whose condition can't be known."""
        for number, (condition, body) in enumerate(node.branches):
            status = True if condition is None else self.sequence(condition, scope)
            if status:
                return self.sequence(body, scope)
            if status is None:
                rest = tree.If(node.branches[number + 1 :])
                self.either([partial(self.sequence, body), partial(self.conditional, rest)], scope)
                return None
        return True

    def each(self, node: tree.For, scope: Scope) -> bool | None:
        """`for`, turn by turn."""
        items = list(scope.arguments) if node.words is None else [item for word in node.words for item in fields(word, scope)]
        if any(UNKNOWN in item for item in items):
            scope.variables[node.name] = UNKNOWN
            self.blurred(partial(self.sequence, node.body), scope)
            return None
        for item in items[:TURNS]:
            scope.variables[node.name] = item
            if "break" in self.framed(lambda: self.sequence(node.body, scope), scope, "break", "continue"):
                break
        return True

    def loop(self, node: tree.While, scope: Scope) -> bool | None:
        """`while`, as long as its condition is known."""
        for _ in range(TURNS):
            status = self.sequence(node.condition, scope)
            if status is None:
                self.blurred(partial(self.sequence, node.body), scope)
                return None
            if status is node.until or "break" in self.framed(lambda: self.sequence(node.body, scope), scope, "break", "continue"):
                return True
        raise StopError

    def case(self, node: tree.Case, scope: Scope) -> bool | None:
        """`case`: the branch that matches, or all that might."""
        with scope.asking():
            value = text(node.word, scope)
        for number, (patterns, body) in enumerate(node.branches):
            told = [text(pattern, scope) for pattern in patterns]
            if UNKNOWN in value + "".join(told) and "*" not in told:
                rest = tree.Case(node.word, node.branches[number + 1 :])
                self.either([partial(self.sequence, body), partial(self.case, rest)], scope)
                return None
            if any(fnmatch.fnmatchcase(value, pattern) for pattern in told):
                return self.sequence(body, scope)
        return True

    def define(self, node: tree.Function, _: Scope) -> bool | None:
        """A function, for when it is called."""
        self.functions[node.name] = node.body
        return True

    def sum(self, node: tree.Sum, scope: Scope) -> bool | None:
        """`((…))`."""
        result = count(node.text, scope)
        return None if result == UNKNOWN else result != "0"

    def unfollowed(self, node: tree.Unfollowed, scope: Scope) -> bool | None:
        """Its turns aren't counted."""
        self.blurred(partial(self.sequence, node.body), scope)
        return None

    def simple(self, node: tree.Simple, scope: Scope) -> bool | None:
        """One command: its assignments, then its words."""
        if node.words and plain(node.words[0]) == "[[":
            with scope.asking():
                return holds([(text(word, scope), all(part.quoted for part in word)) for word in node.words[1:-1]], patterns=True)
        with scope.asking() if node.words and plain(node.words[0]) in {"[", "test"} else nullcontext():
            argv = [item for word in node.words for item in fields(word, scope)]
        if not argv:
            self._assign(node, scope)
            return True
        given = text(node.given.body, scope) if node.given else None
        if argv[0] in DECLARATIONS:
            return self._declare(argv, node, scope)
        with scope.kept({assign.name for assign in node.assigns}):
            self._assign(node, scope, exported=True)
            return self.call(argv, scope, given)

    def call(self, argv: list[str], scope: Scope, given: str | None = None) -> bool | None:
        """A function, what the shell itself does, or a program."""
        body = self.functions.get(argv[0])
        return run_program(self, argv, scope, given) if body is None else self._function(body, argv[1:], scope)

    def _function(self, body: tree.Node, arguments: list[str], scope: Scope) -> bool | None:
        kept, scope.arguments = scope.arguments, tuple(arguments)
        self._locals.append({})
        self._deeper(lambda: self.framed(lambda: self.node(body, scope), scope, "return"))
        scope.arguments = kept
        scope.restore(self._locals.pop())
        return None

    def _assign(self, node: tree.Simple, scope: Scope, *, exported: bool = False) -> None:
        for name, place, more, word, items in node.assigns:
            value: Value = text(word, scope) if items is None else tuple(item for each in items for item in fields(each, scope))
            scope.assign(name, place, value, more=more)
            scope.exported |= {name} if exported else set()

    def _declare(self, argv: list[str], node: tree.Simple, scope: Scope) -> bool | None:
        flags = {sign for word in argv[1:] if word.startswith("-") for sign in word[1:]}
        names = [word for word in argv[1:] if not word.startswith("-")]
        if argv[0] != "export" and self._locals:
            for name in (*names, *(assign.name for assign in node.assigns)):
                self._locals[-1].setdefault(name, scope.variables.get(name))
        self._assign(node, scope, exported=argv[0] == "export" or "x" in flags)
        for name in names:
            if "A" in flags or UNKNOWN in name:
                scope.variables[name] = UNKNOWN
            scope.exported |= {name} if argv[0] == "export" else set()
        return True


def _nothing(_: Scope) -> None:
    """The branch that isn't there."""


def _asks(node: tree.Node) -> bool:
    while isinstance(node, tree.Pipeline):
        node = node.parts[-1]
    first = plain(node.words[0]) if isinstance(node, tree.Simple) and node.words else None
    return isinstance(node, (tree.Sum, tree.Sequence)) or first in _ASKING


_WALKS: dict[type, Callable[[Run, Any, Scope], bool | None]] = {
    tree.Simple: Run.simple,
    tree.Sequence: Run.sequence,
    tree.Pipeline: Run.pipeline,
    tree.If: Run.conditional,
    tree.For: Run.each,
    tree.While: Run.loop,
    tree.Case: Run.case,
    tree.Function: Run.define,
    tree.Sum: Run.sum,
    tree.Unfollowed: Run.unfollowed,
}
