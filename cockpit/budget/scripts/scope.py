"""Holds the state of a shell: variables, arguments, functions and the folder, and which of them are unknown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.budget.scripts.syntax import Node

UNKNOWN = "\0"
"""Stands for an unknown value or an unknown part of one."""
SOMEWHERE = "…"
"""Stands for the path of the folder in which the script begins."""
START = f"/{SOMEWHERE}"
"""The folder in which a script begins."""
MAX_TEXT_CHARS = 200_000
Value = tuple[str, ...]
"""The items of an array. A plain value is one item."""
UNKNOWN_VALUE: Value = (UNKNOWN,)

SET_ELSEWHERE = re.compile(
    r"(?:SLURM|PBS|LSB|OMPI|ARNOLD|MLP|PET|VC|RAY|KUBERNETES)_\w+|(?:LOCAL_|NODE_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|"
    r"(?:CUDA|NVIDIA)_VISIBLE_DEVICES|HOME|PWD|OLDPWD|USER|HOSTNAME|PATH|SHELL|RANDOM|SECONDS|BASH_\w+|LD_LIBRARY_PATH|PYTHONPATH"
)
"""A scheduler, an image or the shell may set these variables, so they may be set although the script does not set them."""
_ALWAYS_SET = re.compile(r"HOME|PWD|OLDPWD|USER|HOSTNAME|PATH|SHELL|LD_LIBRARY_PATH|PYTHONPATH")
_ARGUMENT = re.compile("[0-9]{1,9}")


class Scope(msgspec.Struct):
    """The state of one shell. What is copied does not affect the shell that it is copied from."""

    variables: dict[str, Value] = msgspec.field(default_factory=dict)
    exported: set[str] = msgspec.field(default_factory=set)
    arguments: tuple[str, ...] = ()
    """`$1` and the following ones."""
    name: str = UNKNOWN
    """`$0`."""
    folder: str | None = START
    """`None`: unknown."""
    functions: dict[str, Node] = msgspec.field(default_factory=dict)
    output: Callable[[str, Scope], str] = lambda *_: UNKNOWN
    """Returns the output of a command substitution."""
    assumed: dict[str, None] = msgspec.field(default_factory=dict)
    """Variables that nothing here sets; they were treated as unset."""
    is_complete: bool = True
    """No unread file or unknown command may have set a variable."""
    shell: Mapping[str, str] = {}
    """The variables that the calling shell exports; they count where nothing here sets them."""
    in_condition: bool = False
    """In a condition, a variable that nothing sets is empty."""

    def for_condition(self) -> Scope:
        """The same state, in which the words of a condition are expanded."""
        return replace(self, in_condition=True)

    def copy(self) -> Scope:
        """The state of a subshell."""
        return replace(self, variables=dict(self.variables), exported=set(self.exported), functions=dict(self.functions))

    def merge(self, others: Sequence[Scope]) -> None:
        """Take over the states of branches of which any may have run. What differs is unknown."""
        first, *more = others
        names = {name for each in others for name in each.variables}
        values = {name: {each.variables.get(name, UNKNOWN_VALUE) for each in others} for name in names}
        self.variables = {name: next(iter(found)) if len(found) == 1 else UNKNOWN_VALUE for name, found in values.items()}
        self.exported = set().union(*(each.exported for each in others))
        self.functions = {name: body for each in others for name, body in each.functions.items()}
        self.is_complete = all(each.is_complete for each in others)
        self.arguments = first.arguments if all(each.arguments == first.arguments for each in more) else (UNKNOWN,)
        self.folder = first.folder if all(each.folder == first.folder for each in more) else None

    def restore(self, names: Collection[str], before: Scope) -> None:
        """Give variables the values that they had before."""
        for name in names:
            self.variables.pop(name, None)
            if name in before.variables:
                self.variables[name] = before.variables[name]
        self.exported = (self.exported - {*names}) | (before.exported & {*names})

    def value(self, name: str) -> Value | None:
        """The value of a variable or an argument; `None`: nothing here sets it."""
        if name in "@*":
            return self.arguments
        if name == "0":
            return (self.name,)
        if name == "#":
            return UNKNOWN_VALUE if UNKNOWN in self.arguments else (str(len(self.arguments)),)
        if _ARGUMENT.fullmatch(name):
            return UNKNOWN_VALUE if UNKNOWN in self.arguments[: int(name)] else self.arguments[int(name) - 1 : int(name)] or ("",)
        if not name.isidentifier():
            return UNKNOWN_VALUE
        if name == "PWD" and name not in self.variables:
            return UNKNOWN_VALUE if self.folder is None else (self.folder,)
        if name not in self.variables and name in self.shell:
            self.assumed |= {} if _ALWAYS_SET.fullmatch(name) else {name: None}
            return (self.shell[name],)
        return self.variables.get(name)

    def is_unset(self, name: str) -> bool | None:
        """Whether a variable is unset; `None`: unknown. If that is only assumed, the variable is added to `assumed`."""
        if _ARGUMENT.fullmatch(name) and UNKNOWN not in self.arguments[: int(name)]:
            return int(name) > len(self.arguments)
        value = self.value(name)
        if value is None and self.is_complete and not SET_ELSEWHERE.fullmatch(name):
            self.assumed[name] = None
            return True
        return None if value is None or value == UNKNOWN_VALUE else False

    def path(self, said: str) -> str | None:
        """A path in the current folder; `None`: unknown."""
        return None if UNKNOWN in said or (self.folder is None and not said.startswith("/")) else posixpath.join(self.folder or "", said)


def from_start(path: str) -> str:
    """A path within the first folder, relative to it; any other path unchanged."""
    return posixpath.normpath(path[len(START) :].lstrip("/") or ".") if path == START or path.startswith(f"{START}/") else path
