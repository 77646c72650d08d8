"""Follows a parsed script as a shell would, without running anything. If a condition is unknown, it follows all branches."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from typing import Literal

import msgspec

from cockpit.budget.scripts.evaluate import holds
from cockpit.budget.scripts.expand import count, fields, pattern, text
from cockpit.budget.scripts.scope import MAX_TEXT_CHARS, SET_ELSEWHERE, SOMEWHERE, START, UNKNOWN, UNKNOWN_VALUE, Scope, Value, from_start
from cockpit.budget.scripts.syntax import ASSIGNMENT, Node, ShellError, parse, split_words

MAX_STEPS = 20_000
MAX_TURNS, MAX_WHILE_TURNS = 500, 60
_DECLARATIONS = {"export", "local", "declare", "typeset", "readonly"}
_GUARD = "as written the script ends with an error before the training command: counted as if it went on"
_KEYED_ITEM = re.compile(r"\[[^]]*\]=.*", re.DOTALL)
Leaving = Literal["exit", "return", "break", "continue"]
Status = bool | None
"""Whether a command succeeds; `None`: unknown."""
Branch = Callable[[Scope], Status]


class ScriptCommand(msgspec.Struct, frozen=True):
    """A command that the shell would run."""

    argv: tuple[str, ...]
    """`UNKNOWN` within a word stands for an unknown part. `UNKNOWN` alone stands for any number of words."""
    maybe: bool = False
    """It runs only under a condition that is unknown."""
    folder: str | None = None
    """The folder in which it runs; `START` is the one in which the script begins. `None`: unknown."""
    env: Mapping[str, str] = {}
    """The known variables that are exported to it."""


class LeftError(Exception):
    """`exit`, `return`, `break` or `continue` was reached. `status`: whether it is a success."""

    def __init__(self, kind: Leaving, status: Status = True) -> None:
        self.kind = kind
        self.status = status


class StopError(Exception):
    """The script has too many steps, or leaves several loops at once."""


class ScriptRun:
    """Follows one script, and collects its commands in `found` and what it could not read in `unread`."""

    def __init__(self, read: Callable[[str], str | None], program: Callable[[ScriptRun, list[str], Scope], Status]) -> None:
        self.found: list[ScriptCommand] = []
        self.unread: dict[str, None] = {}
        self.unsure = 0
        """The number of unknown conditions around the current command."""
        self.input: str | None = None
        """The output of the command before it in a pipeline; `None`: unknown."""
        self.changed: set[str] = set()
        """The files that the script writes. What is in them is unknown."""
        self._read = read
        self._program = program
        """Applies a command that is no function."""
        self._outputs: list[tuple[int, list[str | None]]] = []
        """What is printed into each `$(…)` or pipe around the current command, with `unsure` at its beginning."""
        self._left: list[tuple[Leaving, Scope]] = []
        """The states of branches that may have left a loop or a function."""
        self._locals: list[set[str]] = []
        """The names that each function around the current command has declared as its own."""
        self._steps = 0

    def script(self, said: str, scope: Scope) -> Status:
        """Follow a script in this scope. If its text is no shell code, that is noted."""
        try:
            parsed = parse(said)
        except ShellError as error:
            self.unread[f"The script is not shell code that cockpit can read: {error}"] = None
            return None
        return self._until_left(partial(self.node, parsed), scope, "return")[1]

    def emit(self, argv: list[str], scope: Scope) -> None:
        """Record a command that the shell would start. Its output is unknown."""
        known = {name: " ".join(value) for name, value in scope.variables.items() if name in scope.exported}
        env = {name: value for name, value in {**scope.shell, **known}.items() if UNKNOWN not in value}
        self.found.append(ScriptCommand(tuple(argv), bool(self.unsure), scope.folder, env))
        self.write(None)

    def call(self, argv: list[str], scope: Scope) -> Status:
        """Follow a call of a function, a builtin or a program."""
        body = scope.functions.get(argv[0])
        if body is None:
            return self._program(self, argv, scope)
        outside, scope.arguments = scope.copy(), tuple(argv[1:])
        self._locals.append(set())
        try:
            return self._until_left(partial(self.node, body), scope, "return")[1]
        finally:
            scope.arguments = outside.arguments
            scope.restore(self._locals.pop(), outside)

    def output(self, said: str, scope: Scope) -> str:
        """The output of a command substitution. Commands within it are recorded."""
        printed = self.capture(partial(self.script, said), scope)
        return UNKNOWN if printed is None else printed.rstrip("\n")

    def write(self, said: str | None) -> None:
        """Print a text; `None`: an unknown one."""
        if self._outputs:
            unsure, texts = self._outputs[-1]
            texts.append(said if unsure == self.unsure else None)

    def capture(self, body: Branch, scope: Scope) -> str | None:
        """Follow a part in a subshell, and return what it prints; `None`: a part of it is unknown."""
        texts: list[str | None] = []
        self._outputs.append((self.unsure, texts))
        try:
            self.run_in_subshell(body, scope)
        finally:
            self._outputs.pop()
        return None if None in texts else "".join(filter(None, texts))[:MAX_TEXT_CHARS]

    def run_in_subshell(self, body: Branch, scope: Scope) -> Status:
        """Follow a part in a subshell: its variables, folder and `exit` do not affect the shell around it."""
        return self._until_left(body, scope.copy(), "exit", "return", "break", "continue")[1]

    def read(self, said: str, scope: Scope) -> str | None:
        """The text of a file; `None`: it can't be read, or the script may have changed it."""
        path = self._file(said, scope)
        return None if path is None or path in self.changed else self._read(path)

    def mark_changed(self, said: str, scope: Scope) -> None:
        """Note that the script writes a file."""
        self.changed |= {path for path in (self._file(said, scope),) if path}

    def _file(self, said: str, scope: Scope) -> str | None:
        path = scope.path(said) if said else None
        return None if path is None else from_start(path) if path.startswith(START) else posixpath.normpath(path)

    def node(self, node: Node, scope: Scope) -> Status:
        """Follow any part of a script."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise StopError
        files = [(sign, text(word, scope)) for sign, word in node.redirects]
        targets = [word for sign, word in files if sign.lstrip("1").startswith((">", "&>"))]
        if not targets:
            return self._follow(node, scope)
        self._outputs.append((self.unsure, []))
        try:
            return self._follow(node, scope)
        finally:
            self._outputs.pop()
            self.mark_changed(targets[-1], scope)

    def _follow(self, node: Node, scope: Scope) -> Status:
        match node.kind:
            case "test":
                return holds([text(word, scope.for_condition()) for word in node.words])
            case "match":
                value = text(node.words[0], scope.for_condition())
                told = [_matches(value, word, scope.for_condition()) for word in node.words[1:]]
                return True if True in told else None if None in told else False
            case "sum":
                result = count(node.words[0], scope)
                return None if result == UNKNOWN else result != "0"
            case "not":
                status = self.node(node.parts[0], scope)
                return None if status is None else not status
            case "background" | "subshell":
                status = self.run_in_subshell(partial(self.node, node.parts[0]), scope)
                return True if node.kind == "background" else status
            case "function":
                scope.functions[node.words[0]] = node.parts[0]
                return True
        return _FOLLOW[node.kind](self, node, scope)

    def _list(self, node: Node, scope: Scope) -> Status:
        status: Status = True
        for part in node.parts:
            status = self.node(part, scope)
        return status

    def _joined(self, node: Node, scope: Scope) -> Status:
        """Follow two parts that `&&` or `||` joins."""
        status, right = self.node(node.parts[0], scope), partial(self.node, node.parts[1])
        if status is None:
            self._follow_any([_nothing, right], scope)
        elif status is (node.words == ("&&",)):
            status = self._past_guard(right, scope)[1]
        return status

    def _pipe(self, node: Node, scope: Scope) -> Status:
        """Follow each part of a pipeline in a subshell."""
        for part in node.parts[:-1]:
            self.input = self.capture(partial(self.node, part), scope)
        status = self.run_in_subshell(partial(self.node, node.parts[-1]), scope)
        self.input = None
        return status

    def _if(self, node: Node, scope: Scope) -> Status:
        """Follow `if`: from the first unknown condition on, all branches."""
        if len(node.parts) < 2:
            return self.node(node.parts[0], scope) if node.parts else True
        body, rest = node.parts[1], Node(node.kind, parts=node.parts[2:])
        status = self.node(node.parts[0], scope)
        if status is None:
            self._follow_any([partial(self.node, body), partial(self.node, rest)], scope)
            return None
        if status and node.kind == "case":
            return self.node(body, scope)  # what its branch does is meant, also if it ends the script
        if status:
            was_skipped, status = self._past_guard(partial(self.node, body), scope)
            if not was_skipped:
                return status
        return self.node(rest, scope)

    def _past_guard(self, body: Branch, scope: Scope) -> tuple[bool, Status]:
        """Follow a branch. If it ends the script with a failure, skip it: people mean a launch in which its condition is false."""
        inner, found = scope.copy(), len(self.found)
        try:
            status = body(inner)
        except LeftError as left:
            starts = any(word.endswith(".py") or word in ("-m", "submit") for command in self.found[found:] for word in command.argv)
            if left.kind != "exit" or left.status is not False or starts:
                scope.merge([inner])
                raise
            del self.found[found:]
            self.unread[_GUARD] = None
            return True, None
        scope.merge([inner])
        return False, status

    def _for(self, node: Node, scope: Scope) -> Status:
        name, body = node.words[0], partial(self.node, node.parts[0])
        items = [item for word in node.words[1:] for item in fields(word, scope, lists_files=True)]
        rest = iter(items)

        def take(inner: Scope) -> Status:
            item = next(rest, None)
            inner.variables |= {} if item is None else {name: (item,)}
            return item is not None

        if not any(UNKNOWN in item for item in items) and self._turns(take, body, scope, MAX_TURNS):
            return True
        scope.variables[name] = UNKNOWN_VALUE
        return self._follow_unknown_turns(body, scope)

    def _while(self, node: Node, scope: Scope) -> Status:
        condition, body = (partial(self.node, part) for part in node.parts)
        if self._turns(condition, body, scope, MAX_WHILE_TURNS):
            return True
        return self._follow_unknown_turns(lambda inner: (body(inner), condition(inner))[1], scope)

    def _turns(self, condition: Branch, body: Branch, scope: Scope, most: int) -> bool:
        """Follow a loop one iteration after the other. Once it is unknown whether another one follows, the result is `False`."""
        for _ in range(most):
            status = condition(scope)
            if not status:
                return status is False
            left, _, is_known = self._until_left(body, scope, "break", "continue")
            if left == "break" or not is_known:
                return left == "break"
        return False

    def _simple(self, node: Node, scope: Scope) -> Status:
        """Follow one command: first its assignments, then its words."""
        assigns = list(takewhile(ASSIGNMENT.match, node.words))
        words = node.words[len(assigns) :]
        first = words[0] if words else ""
        if first in _DECLARATIONS:
            return self._declare(words, scope)
        inner = scope.for_condition() if first in {"[", "test"} else scope
        argv = [item for word in words for item in fields(word, inner, lists_files=first in {"set", "echo", "printf"})]
        if not argv:
            if not node.words:
                self.write(None)  # `$(< file)`
            for word in assigns:
                self._assign(word, scope)
            return True
        outside = scope.copy()
        names = {self._assign(word, scope) for word in assigns}
        scope.exported |= names
        try:
            return self.call(argv, scope)
        finally:
            scope.restore(names, outside)

    def _assign(self, word: str, scope: Scope) -> str:
        """Apply `name=value`, and return the name."""
        said, _, right = word.partition("=")
        name, _, place = said.rstrip("+").partition("[")
        value: Value = (text(right, scope),) if right[:1] != "(" else ()
        if right[:1] == "(":
            value = tuple(item for each in split_words(right[1:]) for item in fields(each, scope, lists_files=True))
            has_keys = any(map(_KEYED_ITEM.fullmatch, value))
            value = UNKNOWN_VALUE if has_keys else value
        if said.endswith("+"):
            old = scope.variables.get(name, UNKNOWN_VALUE if SET_ELSEWHERE.fullmatch(name) else ())
            value = (*old, *value) if right[:1] == "(" else (("".join(old[:1]) + value[0])[:MAX_TEXT_CHARS], *old[1:])
        scope.variables[name] = UNKNOWN_VALUE if place else value
        return name

    def _declare(self, words: tuple[str, ...], scope: Scope) -> Status:
        """Apply `export`, `local` and `declare`."""
        assigns = [word for word in words[1:] if ASSIGNMENT.match(word)]
        said = [item for word in words[1:] if word not in assigns for item in fields(word, scope)]
        flags = {sign for word in said if word.startswith("-") for sign in word[1:]}
        pairs = [word.partition("=") for word in said if not word.startswith("-")]
        if words[0] != "export" and self._locals and "g" not in flags:
            lefts = [word.partition("=")[0] for word in assigns]
            emptied = [*(name for name, _, _ in pairs), *(left[:-1] for left in lefts if left.endswith("+"))]
            self._locals[-1].update(emptied, lefts)
            scope.variables |= dict.fromkeys(emptied, ("",))  # but `local A=$A` reads the value that A has outside
        names = {self._assign(word, scope) for word in assigns} | {name for name, _, _ in pairs}
        scope.variables |= {name: (value,) for name, sign, value in pairs if sign}
        if flags & set("Ailnu") and words[0] != "export":  # arrays with keys, integers and references are not evaluated
            scope.variables |= dict.fromkeys(names, UNKNOWN_VALUE)
        scope.exported |= names if (words[0] == "export" and "n" not in flags) or "x" in flags else set()
        return True

    def _until_left(self, body: Branch, scope: Scope, *kinds: Leaving) -> tuple[Leaving | None, Status, bool]:
        """Follow a part that may be left in these ways: how it was left, its status, and whether no branch may have left a loop.

        If only some branches left it, their states are merged.
        """
        kept, self._left = self._left, []
        left, status = None, None
        try:
            status = body(scope)
        except LeftError as error:
            if error.kind not in kinds:
                raise
            left, status = error.kind, error.status
        finally:
            here = [(kind, state) for kind, state in self._left if kind in kinds]
            self._left = [*kept, *(each for each in self._left if each[0] not in kinds)]
        if here:
            scope.merge([scope.copy(), *(state for _, state in here)])
        return left, None if here else status, not any(kind == "break" for kind, _ in here)

    def _follow_any(self, choices: list[Branch], scope: Scope) -> None:
        """Follow all branches, because it is unknown which of them runs."""
        ends: list[Scope] = []
        leaving: list[LeftError] = []
        self.unsure += 1
        for choice in choices:
            inner = scope.copy()
            try:
                choice(inner)
                ends.append(inner)
            except LeftError as left:
                leaving.append(left)
                self._left += [(left.kind, inner)] if left.kind != "exit" else []
        self.unsure -= 1
        if not ends:
            way = next((left for left in leaving if left.kind != "exit"), leaving[0])
            raise LeftError(way.kind, None)
        scope.merge(ends)

    def _follow_unknown_turns(self, body: Branch, scope: Scope) -> Status:
        """Follow a loop with an unknown number of iterations. What it changes is unknown within the loop and after it."""

        def turn(inner: Scope) -> Status:
            return self._until_left(body, inner, "break", "continue")[1]

        kept, unread, trial = len(self.found), dict(self.unread), scope.copy()
        self._follow_any([_nothing, turn], trial)
        del self.found[kept:]
        self.unread = unread
        scope.merge([scope.copy(), trial])
        self._follow_any([_nothing, turn], scope)
        return None


def _nothing(_: Scope) -> Status:
    """The branch of an `if` without `else`."""
    return None


def _matches(value: str, word: str, scope: Scope) -> Status:
    """Whether a value matches a pattern of `case`."""
    wanted = pattern(word, scope)
    return wanted == "*" or (None if {UNKNOWN, SOMEWHERE} & {*value, *wanted} or "(" in wanted else fnmatchcase(value, wanted))


_FOLLOW: dict[str, Callable[[ScriptRun, Node, Scope], Status]] = {
    "simple": ScriptRun._simple, "list": ScriptRun._list, "joined": ScriptRun._joined, "pipe": ScriptRun._pipe,
    "if": ScriptRun._if, "case": ScriptRun._if, "for": ScriptRun._for, "while": ScriptRun._while,
}  # fmt: skip
