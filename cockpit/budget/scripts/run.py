"""Follows a parsed script as a shell would, without running anything. If a condition is unknown, it follows all branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import partial
from glob import escape
from typing import Any, Literal, NoReturn

import msgspec

from cockpit.budget.scripts import tree
from cockpit.budget.scripts.conditions import holds
from cockpit.budget.scripts.expand import count, fields, text
from cockpit.budget.scripts.scope import Scope, Value
from cockpit.budget.scripts.streams import Streams
from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN
from cockpit.budget.scripts.syntax import DECLARATIONS, parse
from cockpit.budget.scripts.words import ShellError, read_keyword

MAX_STEPS, MAX_DEPTH, MAX_TURNS = 20_000, 25, 500
MAX_KNOWN_TURNS = 60
"""Iterations of `while` that are followed one by one; a script has fewer arguments."""
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
    """The folder in which it runs; `streams.START` is the one in which the script begins. `None`: unknown."""
    env: Mapping[str, str] = {}
    """The known variables that are exported to it."""


class LeftError(Exception):
    """`exit`, `return`, `break` or `continue` was reached. `status`: whether it is a success."""

    def __init__(self, kind: Leaving, status: Status = True) -> None:
        self.kind = kind
        self.status = status


class StopError(Exception):
    """The script has too many steps or levels, or leaves several loops at once."""


class _GuardError(Exception):
    """A branch that would end the script with a failure was skipped."""


class End(msgspec.Struct, frozen=True):
    """How a part of a script ended."""

    left: Leaving | None
    status: Status
    broken: tuple[Scope, ...] = ()
    """The states of branches that may have left the surrounding loop."""


class ScriptRun:
    """Follows one script, and collects its commands in `found` and what it could not read in `unread`."""

    def __init__(self, read: Callable[[str], str | None], program: Callable[[ScriptRun, list[str], Scope], Status]) -> None:
        self.streams = Streams(read)
        self.found: list[ScriptCommand] = []
        self.unread: dict[str, None] = {}
        self.functions: dict[str, tree.Node] = {}
        self._program = program
        """Applies a command that is no function."""
        self._left: list[tuple[Leaving, Scope]] = []
        self._locals: list[dict[str, Value | None]] = []
        self._depth = self._steps = 0

    def script(self, said: str, scope: Scope) -> Status:
        """Follow a script in this scope. If its text is no shell code, that is noted."""
        try:
            parsed = parse(said)
        except ShellError as error:
            self.unread[f"The script is not shell code that cockpit can read: {error}"] = None
            return None
        return self._run_nested(lambda: self._run_until_left(lambda: self.sequence(parsed, scope), scope, "return").status)

    def emit(self, argv: list[str], scope: Scope) -> None:
        """Record a command that the shell would start. Its output is unknown."""
        known = {name: value for name, value in scope.variables.items() if name in scope.exported and isinstance(value, str)}
        env = {name: value for name, value in {**scope.shell, **known}.items() if UNKNOWN not in value}
        self.found.append(ScriptCommand(tuple(argv), bool(self.streams.unsure), self.streams.folder, env))
        self.streams.write(None)

    def call(self, argv: list[str], scope: Scope) -> Status:
        """Follow a call of a function, a builtin or a program."""
        body = self.functions.get(argv[0])
        if body is None:
            return self._program(self, argv, scope)
        kept, scope.arguments = scope.arguments, tuple(argv[1:])
        self._locals.append({})
        try:
            return self._run_nested(lambda: self._run_until_left(lambda: self.node(body, scope), scope, "return").status)
        finally:
            scope.arguments = kept
            scope.restore(self._locals.pop())

    def output(self, said: str, scope: Scope) -> str:
        """The output of a command substitution. Commands within it are recorded."""
        try:
            inner = parse(said)
        except ShellError as error:
            self.unread[f"A command substitution can't be read: {error}"] = None
            return UNKNOWN
        told, _ = self.streams.capture_output(lambda: self._run_nested(lambda: self.run_in_subshell(partial(self.sequence, inner), scope)))
        return UNKNOWN if told is None else told.rstrip("\n")

    def run_in_subshell(self, body: Branch, scope: Scope) -> Status:
        """Follow a part in a subshell: its variables, functions, folder and `exit` do not affect the shell around it."""
        inner, folder, functions = scope.copy(), self.streams.folder, dict(self.functions)
        end = self._run_until_left(lambda: body(inner), inner, "exit", "return", "break", "continue")
        self.streams.folder, self.functions = folder, functions
        return end.status

    def node(self, node: tree.Node, scope: Scope) -> Status:
        """Follow any part of a script."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise StopError
        return _WALKS[type(node)](self, node, scope)

    def sequence(self, node: tree.Sequence, scope: Scope) -> Status:
        """Follow commands that are joined by `;`, `&&` or `||`."""
        status: Status = True
        before, doubt = "\n", False
        for item, sign in node.items:
            doubt = doubt and before in {"&&", "||"}
            if before not in {"&&", "||"}:
                status = self._apart_if(sign == "&", item, scope)
            elif not doubt and status is (before == "&&"):
                try:
                    status = self._past_guard(partial(self._apart_if, sign == "&", item), scope)
                except _GuardError:
                    status = None
            elif status is None or doubt:
                doubt = True
                self._walk_branches([_nothing, partial(self.node, item)], scope)
                status = None
            before = sign
        return status

    def _apart_if(self, alone: bool, item: tree.Node, scope: Scope) -> Status:
        if not alone:
            return self.node(item, scope)
        self.run_in_subshell(partial(self.node, item), scope)
        return True

    def _pipeline(self, node: tree.Pipeline, scope: Scope) -> Status:
        """Follow each part of a pipeline in a subshell. A single command after `!` needs none."""
        if node.denied and len(node.parts) == 1:
            status = self.node(node.parts[0], scope)
            return None if status is None else not status
        for part in node.parts[:-1]:
            said, _ = self.streams.capture_output(partial(self.run_in_subshell, partial(self.node, part), scope))
            self.streams.input = said
        status = self.run_in_subshell(partial(self.node, node.parts[-1]), scope)
        self.streams.input = None
        return None if status is None else status is not node.denied

    def _redirected(self, node: tree.Redirected, scope: Scope) -> Status:
        """Follow a command with redirections. Its input from files is ignored."""
        if node.node == tree.Simple((), ()):
            self.streams.write(None)  # `$(< file)`
        target = None
        for redirect in node.redirects:
            said = text(redirect.word, scope)
            if redirect.sign.startswith((">", "&>")) and redirect.stream in {"", "1"}:
                target = said
        if target is None:
            return self.node(node.node, scope)
        _, status = self.streams.capture_output(lambda: self.node(node.node, scope))
        self.streams.mark_changed(target)
        return status

    def _conditional(self, node: tree.If, scope: Scope) -> Status:
        """Follow `if`: from the first unknown condition on, all branches."""
        for number, (condition, body) in enumerate(node.branches):
            if condition is None:
                return self.sequence(body, scope)
            status = self.sequence(condition, scope)
            if status:
                try:
                    return self._past_guard(partial(self.sequence, body), scope)
                except _GuardError:
                    continue
            if status is None:
                rest = tree.If(node.branches[number + 1 :])
                self._walk_branches([partial(self.sequence, body), partial(self._conditional, rest)], scope)
                return None
        return True

    def _past_guard(self, body: Branch, scope: Scope) -> Status:
        """Follow a branch. If it ends the script with a failure, skip it: people mean a launch in which its condition is false."""
        inner, found, folder = scope.copy(), len(self.found), self.streams.folder
        try:
            status = body(inner)
        except LeftError as left:
            starts = any(word.endswith(".py") or word in ("-m", "submit") for command in self.found[found:] for word in command.argv)
            if left.kind != "exit" or left.status is not False or starts:
                scope.merge([inner])
                raise
            del self.found[found:]
            self.streams.folder = folder
            self.unread["as written the script ends with an error before the training command: counted as if it went on"] = None
            raise _GuardError from None
        scope.merge([inner])
        return status

    def _for_loop(self, node: tree.For, scope: Scope) -> Status:
        """Follow `for`, one iteration after the other."""
        items = list(scope.arguments) if node.words is None else [item for word in node.words for item in _list_items(word, scope)]
        if any(UNKNOWN in item for item in items):
            scope.assign(node.name, UNKNOWN)
            self._walk_unknown_turns(partial(self.sequence, node.body), scope)
            return None
        broken: list[Scope] = []
        for item in items[:MAX_TURNS]:
            scope.assign(node.name, item)
            self.streams.unsure += bool(broken)
            end = self._run_until_left(lambda: self.sequence(node.body, scope), scope, "break", "continue")
            self.streams.unsure -= bool(broken)
            broken += end.broken
            if end.left == "break":
                break
        scope.merge([scope.copy(), *broken])
        return True

    def _while_loop(self, node: tree.While, scope: Scope) -> Status:
        """Follow `while` and `until` one iteration after the other. Once the condition is unknown, so is the number of iterations."""
        for _ in range(MAX_KNOWN_TURNS):
            status = self.node(node.condition, scope)
            if status is node.until:
                return True
            if status is None:
                break
            end = self._run_until_left(lambda: self.sequence(node.body, scope), scope, "break", "continue")
            if end.left == "break":
                return True
            if end.broken:
                scope.merge([scope.copy(), *end.broken])
                break
        self._walk_unknown_turns(lambda inner: (self.sequence(node.body, inner), self.node(node.condition, inner))[1], scope)
        return None

    def _case(self, node: tree.Case, scope: Scope) -> Status:
        """Follow the branch of `case` that matches, or all that may match."""
        with scope.reading_condition():
            value = text(node.word, scope)
        for number, (patterns, body) in enumerate(node.branches):
            told = [read_keyword(each) == "*" or _matches(value, each, scope) for each in patterns]
            if any(told):
                return self.sequence(body, scope)
            if None in told:
                rest = tree.Case(node.word, node.branches[number + 1 :])
                self._walk_branches([partial(self.sequence, body), partial(self._case, rest)], scope)
                return None
        return True

    def _define(self, node: tree.Function, _: Scope) -> Status:
        self.functions[node.name] = node.body
        return True

    def _sum(self, node: tree.Sum, scope: Scope) -> Status:
        result = count(node.text, scope)
        return None if result == UNKNOWN else result != "0"

    def _simple(self, node: tree.Simple, scope: Scope) -> Status:
        """Follow one command: first its assignments, then its words."""
        first = read_keyword(node.words[0]) if node.words else None
        if first == "[[":
            inner = node.words[1:-1]
            with scope.reading_condition():
                sign = read_keyword(inner[1]) if len(inner) == 3 else None
                if sign in {"=", "==", "!="}:
                    same = _matches(text(inner[0], scope), inner[2], scope)
                    return None if same is None else same == (sign != "!=")
                return holds([text(word, scope) for word in inner])
        with scope.reading_condition() if first in {"[", "test"} else nullcontext():
            argv = [item for word in node.words for item in (_list_items if first in {"set", "echo", "printf"} else fields)(word, scope)]
        if not argv:
            self._assign(node, scope)
            return True
        if argv[0] in DECLARATIONS:
            return self._declare(argv, node, scope)
        with scope.restore_after({assign.name for assign in node.assigns}):
            self._assign(node, scope, exported=True)
            return self.call(argv, scope)

    def _assign(self, node: tree.Simple, scope: Scope, *, exported: bool = False) -> None:
        for one in node.assigns:
            items = None if one.items is None else tuple(item for each in one.items for item in _list_items(each, scope))
            value: Value = text(one.value, scope) if items is None else items
            scope.assign(one.name, value if one.place is None else UNKNOWN, more=one.more and one.place is None)
            scope.exported |= {one.name} if exported else set()

    def _declare(self, argv: list[str], node: tree.Simple, scope: Scope) -> Status:
        flags = {sign for word in argv[1:] if word.startswith("-") for sign in word[1:]}
        names = [word for word in argv[1:] if not word.startswith("-")]
        said = dict(name.split("=", 1) for name in names if "=" in name)
        names = [name.split("=", 1)[0] for name in names]
        every = [*names, *(assign.name for assign in node.assigns)]
        if argv[0] != "export" and self._locals and "g" not in flags:
            for name in every:
                self._locals[-1].setdefault(name, scope.variables.get(name))
                scope.variables[name] = ""
        self._assign(node, scope, exported=argv[0] == "export" or "x" in flags)
        for name, value in said.items():
            scope.assign(name, value)
        if flags & set("Ailnu") and argv[0] != "export":  # arrays with keys, integers and references are not evaluated
            scope.variables |= dict.fromkeys(every, UNKNOWN)
        scope.exported |= set(names) if argv[0] == "export" and "n" not in flags else set()
        return True

    def _run_nested(self, body: Callable[[], Status]) -> Status:
        """Follow a nested part; a limit on the depth ends endless recursion."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise StopError
        try:
            return body()
        finally:
            self._depth -= 1

    def _run_until_left(self, body: Callable[[], Status], scope: Scope, *kinds: Leaving) -> End:
        """Follow a part that may be left in these ways. If only some branches left it, both states are merged.

        The states of branches with `break` are returned, because they are merged only after the whole loop.
        """
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

    def _walk_branches(self, choices: list[Branch], scope: Scope) -> None:
        """Follow all branches, because it is unknown which of them runs."""
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

    def _walk_unknown_turns(self, body: Branch, scope: Scope) -> None:
        """Follow a loop with an unknown number of iterations. What it changes is unknown within the loop and after it."""

        def turn(inner: Scope) -> Status:
            end = self._run_until_left(lambda: body(inner), inner, "break", "continue")
            inner.merge([inner.copy(), *end.broken])
            return None

        kept, unread, trial = len(self.found), dict(self.unread), scope.copy()
        self._walk_branches([_nothing, turn], trial)
        del self.found[kept:]
        self.unread = unread
        scope.merge([scope.copy(), trial])
        self._walk_branches([_nothing, turn], scope)


def leave(kind: Leaving, status: Status = True) -> NoReturn:
    """Leave the script, the function or the loop."""
    raise LeftError(kind, status)


def _nothing(_: Scope) -> Status:
    """The branch of an `if` without `else`."""
    return None


def _matches(value: str, word: tree.Word, scope: Scope) -> Status:
    """Whether a value matches a pattern of `case`. Quoted parts are no pattern."""
    pattern = "".join(escape(text((part,), scope)) if part.quoted else text((part,), scope) for part in word)
    return None if {UNKNOWN, SOMEWHERE} & {*value, *pattern} or "(" in pattern else fnmatchcase(value, pattern)


def _list_items(word: tree.Word, scope: Scope) -> list[str]:
    """The items of the list of a `for`. Names of files that a pattern matches are unknown."""
    if any(part.kind == "text" and not part.quoted and set(part.text) & {"*", "?"} for part in word):
        return [UNKNOWN]
    return fields(word, scope)


_WALKS: dict[type, Callable[[ScriptRun, Any, Scope], Status]] = {
    tree.Simple: ScriptRun._simple,
    tree.Redirected: ScriptRun._redirected,
    tree.Sequence: ScriptRun.sequence,
    tree.Pipeline: ScriptRun._pipeline,
    tree.If: ScriptRun._conditional,
    tree.For: ScriptRun._for_loop,
    tree.While: ScriptRun._while_loop,
    tree.Case: ScriptRun._case,
    tree.Function: ScriptRun._define,
    tree.Sum: ScriptRun._sum,
}
