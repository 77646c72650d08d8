"""Reads from the process title of a Ray worker which method it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.phases.methods import framework_of
from cockpit.text import clean

MAX_NAME_CHARS: Final = 80
_PREFIX: Final = "ray::"


class Title(NamedTuple):
    """The class and the method in the title of a worker."""

    class_: str
    """The class of its actor; empty: the worker runs tasks, or its method has a custom name."""
    method: str
    """The method or task; empty: the title is idle."""

    @property
    def text(self) -> str:
        """`Class.method`, safe to show."""
        return clean(f"{self.class_}.{self.method}" if self.class_ and self.method else self.class_ or self.method)[:MAX_NAME_CHARS]


@lru_cache(maxsize=4096)
def read_title(command: str, class_: str = "") -> Title | None:
    """Read the title in a command line; `None`: it is no title of a Ray worker. `class_`: the class of its actor, if Ray has reported it.

    Ray writes `ray::Class.method` or `ray::task` when a call begins, and `ray::Class` or `ray::IDLE` when it ends (ray/_private/worker.py).
    """
    if not command.startswith(_PREFIX):
        return None
    name = (command[len(_PREFIX) :].split(maxsplit=1) or [""])[0].removesuffix("()")
    owner, dot, method = name.rpartition(".")
    if dot and owner:
        return Title(owner, method)
    if name.startswith("IDLE") or not name:
        return Title(class_, "")
    # Until Ray has reported the actor of a new worker, only the form of the name distinguishes a class from a task.
    if name == class_ or framework_of(name) or (not class_ and name[:1].isupper()):
        return Title(name, "")
    return Title("", name)
