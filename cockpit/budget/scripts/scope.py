"""Holds the variables and the arguments of a shell script, and which of them are unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from cockpit.budget.scripts.sums import UNKNOWN

MAX_TEXT_CHARS = 200_000
Value = str | tuple[str, ...]

_SET_ELSEWHERE = re.compile(
    r"(?:SLURM|PBS|LSB|OMPI|ARNOLD|MLP|PET|VC|RAY|KUBERNETES)_\w+|(?:LOCAL_|NODE_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|"
    r"(?:CUDA|NVIDIA)_VISIBLE_DEVICES|HOME|PWD|OLDPWD|USER|HOSTNAME|PATH|SHELL|RANDOM|SECONDS|BASH_\w+|LD_LIBRARY_PATH|PYTHONPATH"
)
"""A scheduler, an image or the shell may set these variables, so they may be set although the script does not set them."""
_ALWAYS_SET = re.compile(r"HOME|PWD|OLDPWD|USER|HOSTNAME|PATH|SHELL|LD_LIBRARY_PATH|PYTHONPATH")
_ARGUMENT = re.compile("[0-9]{1,9}")
_ENTRY = re.compile(r"\[([^]]*)\]=(.*)", re.DOTALL)


class Scope(msgspec.Struct):
    """The variables and the arguments that a script can use."""

    variables: dict[str, Value] = msgspec.field(default_factory=dict)
    exported: set[str] = msgspec.field(default_factory=set)
    arguments: tuple[str, ...] = ()
    """`$1` and the following ones."""
    name: str = UNKNOWN
    """`$0`."""
    output: Callable[[str, Scope], str] = lambda *_: UNKNOWN
    """Returns the output of a command substitution."""
    assumed: dict[str, None] = msgspec.field(default_factory=dict)
    """Variables that nothing here sets; they were treated as unset."""
    is_complete: bool = True
    """No unread file or unknown command may have set a variable."""
    shell: Mapping[str, str] = {}
    """The variables that the calling shell exports; they count where nothing here sets them."""
    conditions: int = 0
    """Above 0 within a condition: there a variable that nothing sets is empty."""

    @contextmanager
    def reading_condition(self) -> Iterator[None]:
        """Expand the words of a condition."""
        self.conditions += 1
        try:
            yield
        finally:
            self.conditions -= 1

    @contextmanager
    def restore_after(self, names: Collection[str]) -> Iterator[None]:
        """Restore variables that are set for one command only."""
        before = {name: self.variables.get(name) for name in names}
        exported = self.exported & before.keys()
        try:
            yield
        finally:
            self.restore(before)
            self.exported = (self.exported - before.keys()) | exported

    def restore(self, before: Mapping[str, Value | None]) -> None:
        """Give variables the values that they had before; `None`: they were not set."""
        for name, value in before.items():
            self.variables.pop(name, None)
            if value is not None:
                self.variables[name] = value

    def copy(self) -> Scope:
        """A copy; changes of it do not affect this scope."""
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def merge(self, others: Sequence[Scope]) -> None:
        """Take over the states of branches of which any may have run. A variable whose values differ is unknown."""
        names = {name for each in others for name in each.variables}
        self.variables = {name: _common([each.variables.get(name) for each in others]) for name in names}
        self.exported = set().union(*(each.exported for each in others))
        self.is_complete = all(each.is_complete for each in others)
        arguments = others[0].arguments
        self.arguments = arguments if all(each.arguments == arguments for each in others) else (UNKNOWN,)

    def assign(self, name: str, value: Value, *, more: bool = False) -> None:
        """Set a variable; with `more`, append to it."""
        old = self.variables.get(name, UNKNOWN if _SET_ELSEWHERE.fullmatch(name) else "")
        if not more:
            self.variables[name] = _make_array(value) if isinstance(value, tuple) else value
        elif isinstance(value, tuple) or isinstance(old, tuple):
            self.variables[name] = _make_array((*_as_list(old), *_as_list(value)))
        else:
            self.variables[name] = (str(old) + str(value))[:MAX_TEXT_CHARS]

    def value(self, name: str) -> Value | None:
        """The value of a variable or an argument; `None`: nothing here sets it."""
        if name in "@*":
            return self.arguments
        if _ARGUMENT.fullmatch(name) and name != "0":
            return self._argument(int(name))
        known = {"0": self.name, "#": UNKNOWN if UNKNOWN in self.arguments else str(len(self.arguments))}
        if not name.isidentifier():
            return known.get(name, UNKNOWN)
        if name == "PWD" and name not in self.variables:
            return self.output("pwd", self)
        if name not in self.variables and name in self.shell:
            self.assumed |= {} if _ALWAYS_SET.fullmatch(name) else {name: None}
            return self.shell[name]
        return self.variables.get(name)

    def one_value(self, name: str) -> str:
        """The single value of a variable, as sums and tests read it."""
        value = self.value(name)
        if isinstance(value, tuple):
            return value[0] if value else ""
        return value if isinstance(value, str) else UNKNOWN

    def _argument(self, number: int) -> str:
        if UNKNOWN in self.arguments[:number]:
            return UNKNOWN
        return self.arguments[number - 1] if number <= len(self.arguments) else ""

    def is_unset(self, name: str) -> bool | None:
        """Whether a variable is unset; `None`: unknown. If that is only assumed, the variable is added to `assumed`."""
        if _ARGUMENT.fullmatch(name) and UNKNOWN not in self.arguments[: int(name)]:
            return int(name) > len(self.arguments)
        value = self.value(name)
        if value is None and self.is_complete and not _SET_ELSEWHERE.fullmatch(name):
            self.assumed[name] = None
            return True
        return None if value is None or value == UNKNOWN else False


def _common(values: Sequence[Value | None]) -> Value:
    first = values[0]
    return first if first is not None and all(value == first for value in values) else UNKNOWN


def _as_list(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if value and isinstance(value, str) else ()


def _make_array(items: tuple[str, ...]) -> Value:
    """An array. It is unknown if its items have keys (`[2]=x`)."""
    return UNKNOWN if any(_ENTRY.fullmatch(item) for item in items) else items
