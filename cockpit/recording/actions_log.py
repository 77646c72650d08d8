"""Reads the actions that this user's cockpits perform during a recording, from the log of actions."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cockpit.actions.plan import RAY
from cockpit.recording.events import Event, Phase
from cockpit.trust import is_plain

MAX_LINE_BYTES = 32 << 20
"""An action on a hundred thousand processes. Longer lines are left out."""
MAX_ROWS = 200
"""Targets that are kept of each kind of outcome; the text of the event has their number."""
MAX_TEXT = 500
"""Characters that are kept of a text."""


class _LogEntry(msgspec.Struct):
    time: float
    id: str
    action: str = msgspec.field(name="act")
    user: str = ""
    host: str = ""
    target: list[str] = []
    plan: list[dict[str, Any]] = []
    outcome: Any = None


class ActionsLog:
    """Reads the log from where it stopped last; lines from before its start are not new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._size()
        """Bytes that were read."""

    def _size(self) -> int:
        try:
            return self._path.lstat().st_size
        except OSError:
            return 0

    def take_new(self, hosts: Collection[str], shift: float = 0.0) -> list[Event]:
        """New actions on these hosts or in Ray. `shift`: seconds from the log's dates to the dates of our clock."""
        if (size := self._size()) == self._read:
            return []
        self._read = min(self._read, size)  # the log was truncated
        text = self._read_on()
        lines, _, rest = text.rpartition(b"\n")
        self._read += len(text) - (len(rest) if len(rest) < MAX_LINE_BYTES else 0)
        return [event for line in lines.splitlines() if (event := _read_event(line, hosts, shift)) is not None]

    def _read_on(self) -> bytes:
        """The next bytes; none from a link, or from a file that another user could have made."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(file, MAX_LINE_BYTES, self._read) if is_plain(os.fstat(file)) else b""
        except OSError:
            return b""
        finally:
            os.close(file)


def _read_event(line: bytes, hosts: Collection[str], shift: float) -> Event | None:
    try:
        entry = msgspec.json.decode(line, type=_LogEntry)
    except (msgspec.MsgspecError, ValueError):
        return None
    if entry.target and not any(host == RAY or host in hosts for host in entry.target):
        return None
    begins = entry.outcome == "begun"
    subject = ", ".join(entry.target[:5])
    where = f" on {subject}" if entry.target and entry.target != [RAY] else ""
    text = f"{entry.user or 'somebody'} began {entry.action}{where}" if begins else f"{entry.action}{where}: {_outcome(entry.outcome)}"
    data = {"act": entry.action, "user": entry.user, "host": entry.host, "plan": entry.plan, "outcome": entry.outcome}
    phase: Phase = "begin" if begins else "end"
    return Event(entry.time + shift, "act", text, phase, subject or None, key=f"act:{entry.id}", data=_shorten(data))


def _outcome(outcome: Any) -> str:
    if not isinstance(outcome, Mapping):
        return "ended"
    if "broken_off" in outcome:
        return f"aborted: {outcome['broken_off']}"
    counts = {word: len(outcome.get(word) or ()) for word in ("done", "refused", "failed")}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "nothing was done"


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, Mapping):
        return {key: _shorten(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shorten(item) for item in value[:MAX_ROWS]]
    return value
