"""Keeps the output of the commands of a script, its current folder, and which files it has changed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import msgspec

from cockpit.budget.scripts.scope import MAX_TEXT_CHARS
from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN

START = f"/{SOMEWHERE}"
"""The folder in which a script begins."""


class _Sink(msgspec.Struct):
    """Collects an output. `whole`: all of it is known."""

    unsure: int
    texts: list[str] = msgspec.field(default_factory=list)
    whole: bool = True

    def text(self) -> str | None:
        return "".join(self.texts)[:MAX_TEXT_CHARS] if self.whole else None


class Streams:
    """Standard output, the current folder, and files; `None` is unknown. Standard input is known only in a pipeline."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self.unsure = 0
        """The number of unknown conditions around the current command."""
        self.folder: str | None = START
        self.input: str | None = None
        """The output of the command before it in a pipeline; `None`: unknown."""
        self._changed: set[str] = set()
        self._read = read
        self._sinks: list[_Sink] = []

    def write(self, said: str | None) -> None:
        """Print a text; `None`: an unknown one."""
        if not self._sinks:
            return
        sink = self._sinks[-1]
        sink.whole &= said is not None and sink.unsure == self.unsure
        sink.texts.append(said or "")

    def capture_output(self, body: Callable[[], bool | None]) -> tuple[str | None, bool | None]:
        """Call `body`, and return what it prints (`None` if a part of it is unknown) and its status."""
        self._sinks.append(_Sink(self.unsure))
        try:
            status = body()
        finally:
            sink = self._sinks.pop()
        return sink.text(), status

    def path(self, said: str) -> str | None:
        """Resolve a path in the current folder. The result is relative to the first folder, or absolute; `None`: unknown."""
        if UNKNOWN in said or not said or (self.folder is None and not said.startswith("/")):
            return None
        path = posixpath.join(self.folder or "", said)
        return from_start(path) if path.startswith(START) else posixpath.normpath(path)

    def read(self, said: str) -> str | None:
        """The text of a file; `None`: it can't be read, or the script has changed it."""
        path = self.path(said)
        return None if path is None or path in self._changed else self._read(path)

    def mark_changed(self, said: str) -> None:
        """Note that the script writes a file."""
        self._changed |= {path for path in (self.path(said),) if path}


def from_start(path: str) -> str:
    """A path within the first folder, relative to it; any other path unchanged."""
    return posixpath.normpath(path[len(START) :].lstrip("/") or ".") if path == START or path.startswith(f"{START}/") else path
