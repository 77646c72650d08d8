"""What commands print while a script is walked through, where it is, and the files that it has not changed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import msgspec

from cockpit.budget.scripts.scope import MAX_TEXT_CHARS
from cockpit.budget.scripts.sums import SOMEWHERE, UNKNOWN

START = f"/{SOMEWHERE}"
"""The folder in which a script begins."""


class _Sink(msgspec.Struct):
    """What is printed here, as long as all of it is known."""

    unsure: int
    texts: list[str] = msgspec.field(default_factory=list)
    whole: bool = True

    def text(self) -> str | None:
        return "".join(self.texts)[:MAX_TEXT_CHARS] if self.whole else None


class Streams:
    """Standard output, the folder, and files; `None` is what nobody can know. Of standard input only what a pipeline prints is followed."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self.unsure = 0
        """How many conditions that can't be known stand around this place."""
        self.folder: str | None = START
        self.input: str | None = None
        """What the command before it in a pipeline prints, if that is known."""
        self._changed: set[str] = set()
        self._read = read
        self._sinks: list[_Sink] = []

    def write(self, said: str | None) -> None:
        """Prints a text; `None`: one that isn't known."""
        if not self._sinks:
            return
        sink = self._sinks[-1]
        sink.whole &= said is not None and sink.unsure == self.unsure
        sink.texts.append(said or "")

    def capture_output(self, body: Callable[[], bool | None]) -> tuple[str | None, bool | None]:
        """What is printed meanwhile, `None` where not all of it is known; and how it ended."""
        self._sinks.append(_Sink(self.unsure))
        try:
            status = body()
        finally:
            sink = self._sinks.pop()
        return sink.text(), status

    def path(self, said: str) -> str | None:
        """Where a path leads from the folder that the script is in: as seen from where it began, or absolute."""
        if UNKNOWN in said or not said or (self.folder is None and not said.startswith("/")):
            return None
        path = posixpath.join(self.folder or "", said)
        return from_start(path) if path.startswith(START) else posixpath.normpath(path)

    def read(self, said: str) -> str | None:
        """A file's text; what the script has changed isn't known any more."""
        path = self.path(said)
        return None if path is None or path in self._changed else self._read(path)

    def mark_changed(self, said: str) -> None:
        """A file that the script writes."""
        self._changed |= {path for path in (self.path(said),) if path}


def from_start(path: str) -> str:
    """A path as seen from the folder in which all begins, where it leads there; else as it is."""
    return posixpath.normpath(path[len(START) :].lstrip("/") or ".") if path == START or path.startswith(f"{START}/") else path
