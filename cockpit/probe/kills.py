"""Processes that were ended because memory ran low, as raylets' logs and the kernel tell: those of the last hour."""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Tuple

from .kernel import Kernel

Kill = Dict[str, Any]
WINDOW = 3600.0
MOST = 100
MOST_BYTES = 1 << 20
"""That are read of one log in one look: of what is new, the end."""
LONGEST = 2000
GIB = 1 << 30
QUARTER = 900
"""Seconds by which the clocks of two time zones differ, or a multiple of that."""

_STAMP = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ", re.MULTILINE)
_TELLING = re.compile(rb"^.*(?:Killing \d+ worker\(s\)|Killing worker with|Selected to kill: |\) where the \w+ \().*$", re.MULTILINE)
_NODE = re.compile(r"\(IP: [^,)]*, ID: ([0-9a-f]+)\)")
_NIL = "f" * 16
_KILLED = (
    re.compile(
        r"Selected to kill: \((?:Actor\((?P<actor>[0-9a-f]+)\)|\w+)?: (?:job ID=(?P<job>[0-9a-f]+), )?.*?"
        r"(?:task name=(?P<name>.*), required resources=.*)?\bpid=(?P<pid>\d+), actual memory used=(?P<held>[\d.]+)GB"
    ),
    re.compile(
        r"\) where the \w+ \((?:actor ID: (?P<actor>[0-9a-f]+)|\w+ ID: (?P<task>[0-9a-f]+)), name=(?P<name>.*), pid=(?P<pid>\d+), "
        r"memory used=(?P<held>[\d.]+)GB\) was running was "
    ),
)
"""Of Ray 2.60 a line for each worker, of 2.44 the sentence below the headline."""


class Kills:
    """Looks again and again, each time at what is new."""

    def __init__(self, kernel: Kernel | None = None, now: Callable[[], float] = time.time) -> None:
        self._kernel = kernel or Kernel()
        self._now = now
        self._logs: Dict[Tuple[int, int], Log] = {}
        self._found: list[Kill] = []

    def read(self, logs: Iterable[str]) -> list[Kill] | None:
        """The oldest first; `None` where neither a log nor the kernel could be asked."""
        paths = tuple(logs)
        told = self._kernel.read()
        heard = [kill for path in paths for kill in self._read(path)] + (told or [])
        oldest, latest = self._now() - WINDOW, self._now() + QUARTER
        self._found = sorted((kill for kill in self._found + heard if oldest <= kill["moment"] <= latest), key=_moment)[-MOST:]
        return self._found if paths or told is not None or self._found else None

    def _read(self, path: str) -> Iterable[Kill]:
        """A log that is rotated away keeps its inode, and what was read of it is not read again."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return ()
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return ()
            log = self._logs.setdefault((status.st_dev, status.st_ino), Log())
            return log.read_on(file, status, self._now() - WINDOW)
        finally:
            os.close(file)


class Entry(NamedTuple):
    """The headline that the lines of a kill follow."""

    moment: float
    node: str | None


class Log:
    """One file that a raylet writes, read from where it was left."""

    def __init__(self) -> None:
        self._at = 0
        self._entry: Entry | None = None

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
        for match in _TELLING.finditer(text):
            line = match[0].decode("utf-8", "replace")
            stamp, node = _STAMP.match(match[0]), _NODE.search(line)
            if stamp:
                self._entry = Entry((_posix(stamp) or 0.0) + shift, None)
            if self._entry and node:
                self._entry = self._entry._replace(node=node[1])
            found = next((found for found in (pattern.search(line) for pattern in _KILLED) if found), None)
            if found and self._entry:
                yield _kill(found, line, self._entry)


def _kill(found: re.Match[str], line: str, entry: Entry) -> Kill:
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
        "text": line.strip()[:LONGEST],
    }


def _made_by(task: str) -> str | None:
    """The actor that a task makes: its id, after a nil."""
    nil, actor = task[: len(_NIL)], task[len(_NIL) :]
    return actor if nil == _NIL and not actor.startswith(_NIL) else None


def _moment(kill: Kill) -> float:
    moment: float = kill["moment"]
    return moment


def _zone(text: bytes, written: float) -> float:
    """What is added to its times, read as ours: a container may have another time zone. The last of them is when it was written."""
    stamp = _STAMP.match(text, max(0, text.rfind(b"\n[", 0, -1) + 1))
    last = _posix(stamp) if stamp else None
    return 0.0 if last is None else round((written - last) / QUARTER) * QUARTER


def _posix(stamp: re.Match[bytes]) -> float | None:
    try:
        return time.mktime(time.strptime(stamp[1].decode(), "%Y-%m-%d %H:%M:%S")) + int(stamp[2]) / 1000
    except (ValueError, OverflowError):
        return None
