"""Reads what a Ray worker runs from its process title."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.phases.methods import framework_of
from cockpit.text import clean

MAX_NAME_CHARS: Final = 80
_PREFIX: Final = "ray::"


class Title(NamedTuple):
    """What the title of a worker says."""

    class_: str
    """Of its actor; empty: it runs tasks, or its method has a name of its own."""
    method: str
    """The method or task; empty: it is idle, as far as the title says."""

    @property
    def text(self) -> str:
        """`Class.method`, safe to show."""
        return clean(f"{self.class_}.{self.method}" if self.class_ and self.method else self.class_ or self.method)[:MAX_NAME_CHARS]


@lru_cache(maxsize=4096)
def read_title(command: str, class_: str = "") -> Title | None:
    """The title in a command line; `None`: it is no title of a Ray worker. `class_`: the class of its actor, if Ray has reported it.

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
    # Before Ray has reported the actor of a new worker, only the name tells its class from a task.
    if name == class_ or framework_of(name) or (not class_ and name[:1].isupper()):
        return Title(name, "")
    return Title("", name)
