"""The acts that this user's cockpits do while it is recorded, as their log tells."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cockpit.acts.plan import RAY
from cockpit.recording.events import Event, Phase
from cockpit.trust import is_plain

READ_BYTES, MAX_LINE_BYTES = 1 << 20, 32 << 20
"""Read at a time; and of a line at most, as of an act on a hundred thousand processes: what is longer is left out."""
MAX_ROWS = 200
"""Targets of an act that are kept, of each kind of outcome; how many there were is in its text."""
MAX_TEXT = 500
"""Characters of a text that are kept."""


class _Line(msgspec.Struct):
    time: float
    id: str
    act: str
    user: str = ""
    host: str = ""
    target: list[str] = []
    plan: list[dict[str, Any]] = []
    outcome: Any = None


class ActsLog:
    """Reads on where it has read before; what was there when it was made is not news."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._size()

    def _size(self) -> int:
        try:
            return self._path.lstat().st_size
        except OSError:
            return 0

    def take_new(self, hosts: Collection[str], shift: float = 0.0) -> list[Event]:
        """What has been written since, as far as it is about these hosts, or asked of Ray; `shift`: to the dates of our clock."""
        if (size := self._size()) == self._read:
            return []
        self._read = min(self._read, size)  # cut off
        pulled = self._pull()
        lines, _, rest = pulled.rpartition(b"\n")
        self._read += len(pulled) - (len(rest) if len(rest) < MAX_LINE_BYTES else 0)
        return [event for line in lines.splitlines() for event in _events(line, hosts, shift)]

    def _pull(self) -> bytes:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return self._read_lines(file) if is_plain(os.fstat(file)) else b""
        except OSError:
            return b""
        finally:
            os.close(file)

    def _read_lines(self, file: int) -> bytes:
        """So much that a line ends in it, where one does."""
        size = READ_BYTES
        text = os.pread(file, size, self._read)
        while b"\n" not in text and len(text) == size < MAX_LINE_BYTES:
            size *= 2
            text = os.pread(file, size, self._read)
        return text


def _events(line: bytes, hosts: Collection[str], shift: float) -> Iterator[Event]:
    try:
        told = msgspec.json.decode(line, type=_Line)
    except (msgspec.MsgspecError, ValueError):
        return
    if told.target and not any(host == RAY or host in hosts for host in told.target):
        return
    begins = told.outcome == "begun"
    subject = ", ".join(told.target[:5])
    where = f" on {subject}" if told.target and told.target != [RAY] else ""
    text = f"{told.user or 'somebody'} began {told.act}{where}" if begins else f"{told.act}{where}: {_outcome(told.outcome)}"
    data = {"act": told.act, "user": told.user, "host": told.host, "plan": told.plan, "outcome": told.outcome}
    phase: Phase = "begin" if begins else "end"
    yield Event(told.time + shift, "act", text, phase, subject or None, key=f"act:{told.id}", data=_brief(data))


def _outcome(outcome: Any) -> str:
    if not isinstance(outcome, Mapping):
        return "ended"
    if "broken_off" in outcome:
        return f"aborted: {outcome['broken_off']}"
    counts = {word: len(outcome.get(word) or ()) for word in ("done", "refused", "failed")}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "nothing was done"


def _brief(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, Mapping):
        return {key: _brief(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_brief(item) for item in value[:MAX_ROWS]]
    return value
