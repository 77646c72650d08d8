"""Ways out of commands, shells within shells, and branches of which nobody can foresee which runs: all of them are walked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NoReturn

import msgspec

from cockpit.budget.scripts.scope import Scope
from cockpit.budget.scripts.streams import Streams
from cockpit.budget.scripts.tree import Node

MAX_DEPTH = 25
Leaving = Literal["exit", "return", "break", "continue"]
Branch = Callable[[Scope], "bool | None"]


class ScriptCommand(msgspec.Struct, frozen=True):
    """One command that would run."""

    argv: tuple[str, ...]
    """`UNKNOWN` within a word: a piece that can't be known; `UNKNOWN` alone: one word, or any number of them."""
    maybe: bool = False
    """Only under a condition that can't be known."""
    folder: str | None = None
    """Where it runs: the folder in which all begins is `streams.START`; `None`: nobody knows."""
    env: Mapping[str, str] = {}
    """What is exported to it, as far as that is known."""


class LeftError(Exception):
    """`exit`, `return`, `break` and `continue`, and whether it is a success."""

    def __init__(self, kind: Leaving, status: bool | None) -> None:
        self.kind = kind
        self.status = status


class StopError(Exception):
    """A script that goes on for ever, or leaves several loops at once."""


class End(msgspec.Struct, frozen=True):
    """How something ended."""

    left: Leaving | None
    status: bool | None
    broken: tuple[Scope, ...] = ()
    """States in which some branch may have left the loop around it."""


class Flow(ABC):
    """Where a walk is; what it finds stays in `found` and `unread`."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self.streams = Streams(read)
        self.found: list[ScriptCommand] = []
        self.unread: dict[str, None] = {}
        self.functions: dict[str, Node] = {}
        self._left: list[tuple[Leaving, Scope]] = []
        self._depth = 0

    @abstractmethod
    def script(self, said: str, scope: Scope) -> bool | None:
        """Walks through the text of a script in this scope."""

    @abstractmethod
    def call(self, argv: list[str], scope: Scope) -> bool | None:
        """Runs one command with its words expanded."""

    @abstractmethod
    def emit(self, argv: list[str], scope: Scope) -> None:
        """Notes a command that the shell would start."""

    def leave(self, kind: Leaving, status: bool | None = True) -> NoReturn:
        """`exit` and its like."""
        raise LeftError(kind, status)

    def deeper(self, body: Callable[[], bool | None]) -> bool | None:
        """What calls itself must end."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise StopError
        try:
            return body()
        finally:
            self._depth -= 1

    def run_until_left(self, body: Callable[[], bool | None], scope: Scope, *kinds: Leaving) -> End:
        """Runs what may be left in these ways. Where only some branch left it, both states count; a loop's end does so after all turns."""
        kept, self._left = self._left, []
        end = End(None, None)
        try:
            end = End(None, body())
        except LeftError as left:
            if left.kind not in kinds:
                raise
            end = End(left.kind, left.status)
        finally:
            here = [(kind, state) for kind, state in self._left if kind in kinds]
            self._left = [*kept, *(each for each in self._left if each[0] not in kinds)]
        broken = tuple(state for kind, state in here if kind == "break" and "exit" not in kinds)
        states = [state for kind, state in here if kind != "break" or "exit" in kinds]
        if states:
            scope.merge([scope.copy(), *states])
        return End(end.left, None if states else end.status, broken)

    def run_in_subshell(self, body: Branch, scope: Scope) -> bool | None:
        """In a shell of its own: its variables, its functions, its folder and its end are its own."""
        inner, folder, functions = scope.copy(), self.streams.folder, dict(self.functions)
        end = self.run_until_left(lambda: body(inner), inner, "exit", "return", "break", "continue")
        self.streams.folder, self.functions = folder, functions
        return end.status

    def walk_branches(self, choices: list[Branch], scope: Scope) -> None:
        """One of these runs, and nobody knows which."""
        ends: list[Scope] = []
        leaving: list[LeftError] = []
        start, folders = self.streams.folder, {self.streams.folder}
        self.streams.unsure += 1
        for choice in choices:
            inner, self.streams.folder = scope.copy(), start
            try:
                choice(inner)
                ends.append(inner)
            except LeftError as left:
                leaving.append(left)
                self._left += [(left.kind, inner)] if left.kind != "exit" else []
            folders.add(self.streams.folder)
        self.streams.unsure -= 1
        self.streams.folder = start if len(folders) == 1 else None
        if not ends:
            way = next((left for left in leaving if left.kind != "exit"), leaving[0])
            raise LeftError(way.kind, None)
        scope.merge(ends)

    def walk_unknown_turns(self, body: Branch, scope: Scope) -> None:
        """Runs so many times that nobody knows: what it changes isn't known, neither within nor after."""
        kept, unread = len(self.found), dict(self.unread)
        trial = scope.copy()
        self.walk_branches([nothing, partial(self._turn, body)], trial)
        del self.found[kept:]
        self.unread = unread
        scope.merge([scope.copy(), trial])
        self.walk_branches([nothing, partial(self._turn, body)], scope)

    def _turn(self, body: Branch, scope: Scope) -> bool | None:
        end = self.run_until_left(lambda: body(scope), scope, "break", "continue")
        scope.merge([scope.copy(), *end.broken])
        return None


def nothing(_: Scope) -> bool | None:
    """The branch that isn't there."""
    return None
