"""Walks through a parsed script as a shell would, without running anything: branches that nobody can foresee are all walked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from cockpit.budget.scripts import tree
from cockpit.budget.scripts.conditions import holds, matches
from cockpit.budget.scripts.expand import count, fields, text
from cockpit.budget.scripts.flow import Flow, LeftError, ScriptCommand, StopError, nothing
from cockpit.budget.scripts.programs import run_program
from cockpit.budget.scripts.scope import Scope, Value
from cockpit.budget.scripts.sums import UNKNOWN
from cockpit.budget.scripts.syntax import DECLARATIONS, parse
from cockpit.budget.scripts.tree import Word
from cockpit.budget.scripts.words import ShellError, read_keyword

MAX_STEPS = 20_000
MAX_TURNS = 500
MAX_KNOWN_TURNS = 60
"""Turns of `while` that are followed one by one: more than a script has arguments."""


class _GuardError(Exception):
    """A branch that would end the script with a failure was left out."""


class ScriptRun(Flow):
    """One walk."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        super().__init__(read)
        self._locals: list[dict[str, Value | None]] = []
        self._steps = 0

    def script(self, said: str, scope: Scope) -> bool | None:
        """Walks through a text in this scope; where it is no shell, that is said."""
        try:
            parsed = parse(said)
        except ShellError as error:
            self.unread[f"The script is not shell code that cockpit can read: {error}"] = None
            return None
        return self.deeper(lambda: self.run_until_left(lambda: self.sequence(parsed, scope), scope, "return").status)

    def emit(self, argv: list[str], scope: Scope) -> None:
        """Notes a command; what it prints nobody knows."""
        known = {name: value for name, value in scope.variables.items() if name in scope.exported and isinstance(value, str)}
        env = {name: value for name, value in {**scope.shell, **known}.items() if UNKNOWN not in value}
        self.found.append(ScriptCommand(tuple(argv), bool(self.streams.unsure), self.streams.folder, env))
        self.streams.write(None)

    def output(self, said: str, scope: Scope) -> str:
        """What a command substitution prints; commands within it are noted."""
        try:
            inner = parse(said)
        except ShellError as error:
            self.unread[f"A command substitution can't be read: {error}"] = None
            return UNKNOWN
        told, _ = self.streams.capture_output(lambda: self.deeper(lambda: self.run_in_subshell(partial(self.sequence, inner), scope)))
        return UNKNOWN if told is None else told.rstrip("\n")

    def node(self, node: tree.Node, scope: Scope) -> bool | None:
        """Whether it succeeds; `None`: nobody knows."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise StopError
        return _WALKS[type(node)](self, node, scope)

    def sequence(self, node: tree.Sequence, scope: Scope) -> bool | None:
        """Commands, and what `&&` and `||` make of them."""
        status: bool | None = True
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
                self.walk_branches([nothing, partial(self.node, item)], scope)
                status = None
            before = sign
        return status

    def _apart_if(self, alone: bool, item: tree.Node, scope: Scope) -> bool | None:
        if not alone:
            return self.node(item, scope)
        self.run_in_subshell(partial(self.node, item), scope)
        return True

    def pipeline(self, node: tree.Pipeline, scope: Scope) -> bool | None:
        """Each part in a shell of its own, unless it is only denied; what one prints for the next isn't followed."""
        if node.denied and len(node.parts) == 1:
            status = self.node(node.parts[0], scope)
            return None if status is None else not status
        for part in node.parts[:-1]:
            said, _ = self.streams.capture_output(partial(self.run_in_subshell, partial(self.node, part), scope))
            self.streams.input = said
        status = self.run_in_subshell(partial(self.node, node.parts[-1]), scope)
        self.streams.input = None
        return None if status is None else status is not node.denied

    def redirected(self, node: tree.Redirected, scope: Scope) -> bool | None:
        """A command between files; what it reads from them isn't followed."""
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

    def conditional(self, node: tree.If, scope: Scope) -> bool | None:
        """`if`: all branches from the first whose condition can't be known."""
        for number, (condition, body) in enumerate(node.branches):
            status = True if condition is None else self.sequence(condition, scope)
            if status and condition is None:
                return self.sequence(body, scope)
            if status:
                try:
                    return self._past_guard(partial(self.sequence, body), scope)
                except _GuardError:
                    continue
            if status is None:
                rest = tree.If(node.branches[number + 1 :])
                self.walk_branches([partial(self.sequence, body), partial(self.conditional, rest)], scope)
                return None
        return True

    def _past_guard(self, body: Callable[[Scope], bool | None], scope: Scope) -> bool | None:
        """Runs what a condition leads to. Where that ends the script with a failure, the launch that is meant goes on instead."""
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

    def each(self, node: tree.For, scope: Scope) -> bool | None:
        """`for`, turn by turn."""
        items = list(scope.arguments) if node.words is None else [item for word in node.words for item in _files(word, scope)]
        if any(UNKNOWN in item for item in items):
            scope.assign(node.name, UNKNOWN)
            self.walk_unknown_turns(partial(self.sequence, node.body), scope)
            return None
        broken: list[Scope] = []
        for item in items[:MAX_TURNS]:
            scope.assign(node.name, item)
            self.streams.unsure += bool(broken)
            end = self.run_until_left(lambda: self.sequence(node.body, scope), scope, "break", "continue")
            self.streams.unsure -= bool(broken)
            broken += end.broken
            if end.left == "break":
                break
        scope.merge([scope.copy(), *broken])
        return True

    def loop(self, node: tree.While, scope: Scope) -> bool | None:
        """`while` and `until`, turn by turn as long as the condition is known; then any number of turns."""
        for _ in range(MAX_KNOWN_TURNS):
            status = self.node(node.condition, scope)
            if status is node.until:
                return True
            if status is None:
                break
            end = self.run_until_left(lambda: self.sequence(node.body, scope), scope, "break", "continue")
            if end.left == "break":
                return True
            if end.broken:
                scope.merge([scope.copy(), *end.broken])
                break
        self.walk_unknown_turns(partial(self._once, node), scope)
        return None

    def _once(self, node: tree.While, scope: Scope) -> bool | None:
        self.sequence(node.body, scope)
        return self.node(node.condition, scope)

    def case(self, node: tree.Case, scope: Scope) -> bool | None:
        """`case`: the branch that matches, or all that might."""
        with scope.reading_condition():
            value = text(node.word, scope)
        for number, (patterns, body) in enumerate(node.branches):
            told = [read_keyword(each) == "*" or matches(value, text(each, scope)) for each in patterns]
            if any(told):
                return self.sequence(body, scope)
            if None in told:
                rest = tree.Case(node.word, node.branches[number + 1 :])
                self.walk_branches([partial(self.sequence, body), partial(self.case, rest)], scope)
                return None
        return True

    def define(self, node: tree.Function, _: Scope) -> bool | None:
        """A function, for when it is called."""
        self.functions[node.name] = node.body
        return True

    def sum(self, node: tree.Sum, scope: Scope) -> bool | None:
        """`((…))`."""
        result = count(node.text, scope)
        return None if result == UNKNOWN else result != "0"

    def simple(self, node: tree.Simple, scope: Scope) -> bool | None:
        """One command: its assignments, then its words."""
        if node.words and read_keyword(node.words[0]) == "[[":
            with scope.reading_condition():
                return holds([text(word, scope) for word in node.words[1:-1]])
        first = read_keyword(node.words[0]) if node.words else None
        with scope.reading_condition() if first in {"[", "test"} else nullcontext():
            argv = [item for word in node.words for item in (_files if first in {"set", "echo", "printf"} else fields)(word, scope)]
        if not argv:
            self._assign(node, scope)
            return True
        if argv[0] in DECLARATIONS:
            return self._declare(argv, node, scope)
        with scope.restore_after({assign.name for assign in node.assigns}):
            self._assign(node, scope, exported=True)
            return self.call(argv, scope)

    def call(self, argv: list[str], scope: Scope) -> bool | None:
        """A function, what the shell itself does, or a program."""
        body = self.functions.get(argv[0])
        return run_program(self, argv, scope) if body is None else self._function(body, argv[1:], scope)

    def _function(self, body: tree.Node, arguments: list[str], scope: Scope) -> bool | None:
        kept, scope.arguments = scope.arguments, tuple(arguments)
        self._locals.append({})
        try:
            return self.deeper(lambda: self.run_until_left(lambda: self.node(body, scope), scope, "return").status)
        finally:
            scope.arguments = kept
            scope.restore(self._locals.pop())

    def _assign(self, node: tree.Simple, scope: Scope, *, exported: bool = False) -> None:
        for one in node.assigns:
            items = None if one.items is None else tuple(item for each in one.items for item in _files(each, scope))
            value: Value = text(one.value, scope) if items is None else items
            scope.assign(one.name, value if one.place is None else UNKNOWN, more=one.more and one.place is None)
            scope.exported |= {one.name} if exported else set()

    def _declare(self, argv: list[str], node: tree.Simple, scope: Scope) -> bool | None:
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
        if flags & set("Ailnu") and argv[0] != "export":  # tables, whole numbers and references aren't followed
            scope.variables |= dict.fromkeys(every, UNKNOWN)
        scope.exported |= set(names) if argv[0] == "export" and "n" not in flags else set()
        return True


def _files(word: Word, scope: Scope) -> list[str]:
    """The words of a list; what would be looked up among files isn't known."""
    if any(part.kind == "text" and not part.quoted and set(part.text) & {"*", "?"} for part in word):
        return [UNKNOWN]
    return fields(word, scope)


_WALKS: dict[type, Callable[[ScriptRun, Any, Scope], bool | None]] = {
    tree.Simple: ScriptRun.simple,
    tree.Redirected: ScriptRun.redirected,
    tree.Sequence: ScriptRun.sequence,
    tree.Pipeline: ScriptRun.pipeline,
    tree.If: ScriptRun.conditional,
    tree.For: ScriptRun.each,
    tree.While: ScriptRun.loop,
    tree.Case: ScriptRun.case,
    tree.Function: ScriptRun.define,
    tree.Sum: ScriptRun.sum,
}
