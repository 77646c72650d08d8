"""Processes that were ended because memory ran low, as raylets' logs and the kernel tell: those of the last hour."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from typing import Callable, Dict, Iterable, Iterator, NamedTuple, Tuple

from .. import trust
from .kernel_log import Kernel, Kill

WINDOW_S = 3600.0
MAX_KILLS = 100
MOST_BYTES = 1 << 20
"""That are read of one log in one look: of what is new, the end."""
MAX_LINE_CHARS = 2000
"""Characters of a line that are looked at."""
MOST_LINES = 3 * MAX_KILLS
"""That are looked at in one look at one log, the last ones: a kill has up to three."""
GIB = 1 << 30
ZONE_STEP_S = 900
"""Seconds by which the clocks of two time zones differ, or a multiple of that."""

_STAMP = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ", re.MULTILINE)
_TELLING = re.compile(rb"^.*(?:Killing \d+ worker\(s\)|Killing worker with|Selected to kill: |\) where the \w+ \().*$", re.MULTILINE)
_NODE = re.compile(r"\(IP: [^,)]*, ID: ([0-9a-f]+)\)")
_NIL = "f" * 16
_HELD = r"(?P<held>[0-9]{1,9}(?:\.[0-9]{1,9})?)GB"
_KILLED = (
    re.compile(
        r"Selected to kill: \((?:Actor\((?P<actor>[0-9a-f]+)\)|\w+)?: (?:job ID=(?P<job>[0-9a-f]+), )?.*?"
        r"(?:task name=(?P<name>.*), required resources=.*)?\bpid=(?P<pid>[0-9]{1,10}), actual memory used=" + _HELD
    ),
    re.compile(
        r"\) where the \w+ \((?:actor ID: (?P<actor>[0-9a-f]+)|\w+ ID: (?P<task>[0-9a-f]+)), name=(?P<name>.*), pid=(?P<pid>[0-9]{1,10}), "
        r"memory used=" + _HELD + r"\) was running was "
    ),
)
"""Of Ray 2.60 a line for each worker, of 2.44 the sentence below the headline."""


class KillScanner:
    """Looks again and again, each time at what is new."""

    def __init__(self, kernel: Kernel | None = None, now: Callable[[], float] = time.time) -> None:
        self._kernel = kernel or Kernel()
        self._now = now
        self._logs: Dict[Tuple[int, int], RayletLog] = {}
        self._found: list[Kill] = []

    def read(self, logs: Iterable[str]) -> list[Kill] | None:
        """The oldest first; `None` where neither a log nor the kernel could be asked."""
        paths = tuple(logs)
        told = self._kernel.read()
        heard = [kill for path in paths for kill in self._read(path)] + (told or [])
        oldest, latest = self._now() - WINDOW_S, self._now() + ZONE_STEP_S
        found = (kill for kill in self._found + heard if oldest <= kill["moment"] <= latest)
        self._found = sorted(found, key=lambda kill: float(kill["moment"]))[-MAX_KILLS:]
        return self._found if paths or told is not None or self._found else None

    def _read(self, path: str) -> Iterable[Kill]:
        """A log that is rotated away keeps its inode, and what was read of it is not read again."""
        try:
            with trust.open_file(path, _owner_of_session(path)) as file:
                status = os.fstat(file)
                log = self._logs.setdefault((status.st_dev, status.st_ino), RayletLog())
                return [{**kill, "session": session_of(path)} for kill in log.read_on(file, status, self._now() - WINDOW_S)]
        except OSError:
            return ()


def session_of(log: str) -> str:
    """The name of the session in whose `logs` this file lies."""
    return os.path.basename(os.path.dirname(os.path.dirname(log)))


def _owner_of_session(log: str) -> Tuple[int, ...] | None:
    """Everybody may put a log into a session of Ray's, and only its owner's raylets tell of it. `None`: whose it is can't be seen."""
    try:
        return (os.stat(os.path.dirname(os.path.dirname(log))).st_uid,)
    except OSError:
        return None


class KillHeadline(NamedTuple):
    """The headline that the lines of a kill follow."""

    moment: float
    node: str | None


class RayletLog:
    """One file that a raylet writes, read from where it was left."""

    def __init__(self) -> None:
        self._at = 0
        self._entry: KillHeadline | None = None

    def read_on(self, file: int, status: os.stat_result, since: float) -> list[Kill]:
        """Whole lines only. What was written last before `since` is passed over."""
        self._at = min(self._at, status.st_size) if status.st_mtime >= since else status.st_size
        start = max(self._at, status.st_size - MOST_BYTES)
        self._entry = self._entry if start == self._at else None
        text = os.pread(file, status.st_size - start, start)
        whole = text[: text.rfind(b"\n") + 1]
        self._at = start + len(whole)
        if b"kill" not in whole and b"Kill" not in whole and b" where the " not in whole:
            return []
        return list(self._kills(whole, _zone(whole, status.st_mtime)))

    def _kills(self, text: bytes, shift: float) -> Iterator[Kill]:
        for match in deque(_TELLING.finditer(text), MOST_LINES):
            line = match[0][:MAX_LINE_CHARS].decode("utf-8", "replace")
            stamp, node = _STAMP.match(match[0]), _NODE.search(line)
            if stamp:
                self._entry = KillHeadline((_posix(stamp) or 0.0) + shift, None)
            if self._entry and node:
                self._entry = self._entry._replace(node=node[1])
            patterns = _KILLED if "memory used=" in line else ()
            found = next((found for found in (pattern.search(line) for pattern in patterns) if found), None)
            if found and self._entry:
                yield _kill(found, line, self._entry)


def _kill(found: re.Match[str], line: str, entry: KillHeadline) -> Kill:
    """An actor's id and a task's end with their job's, eight digits."""
    said = found.groupdict()
    owner = said["actor"] or said.get("task")
    return {
        "by": "ray",
        "moment": entry.moment,
        "pid": int(said["pid"]),
        "name": said["name"],
        "actor": said["actor"] or _made_by(owner or ""),
        "job": said.get("job") or (owner[-8:] if owner else None),
        "node": entry.node,
        "held": int(float(said["held"]) * GIB),
        "text": line.strip()[:MAX_LINE_CHARS],
    }


def _made_by(task: str) -> str | None:
    """The actor that a task makes: its id, after a nil."""
    nil, actor = task[: len(_NIL)], task[len(_NIL) :]
    return actor if nil == _NIL and not actor.startswith(_NIL) else None


def _zone(text: bytes, written: float) -> float:
    """What is added to its times, read as ours: a container may have another time zone. The last of them is when it was written."""
    stamp = _STAMP.match(text, max(0, text.rfind(b"\n[", 0, -1) + 1))
    last = _posix(stamp) if stamp else None
    return 0.0 if last is None else round((written - last) / ZONE_STEP_S) * ZONE_STEP_S


def _posix(stamp: re.Match[bytes]) -> float | None:
    try:
        return time.mktime(time.strptime(stamp[1].decode(), "%Y-%m-%d %H:%M:%S")) + int(stamp[2]) / 1000
    except (ValueError, OverflowError):
        return None
