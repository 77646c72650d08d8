"""Reads which processes were killed for lack of memory in the last hour, from the logs of raylets and from the kernel."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from contextlib import suppress
from typing import Callable, Dict, Iterable, Tuple

from .. import trust
from .kernel_log import Kernel, Kill

WINDOW_S = 3600.0
MAX_KILLS = 100
MAX_BYTES = 1 << 20
"""Read of one log at a time: the end of its new part."""
MAX_LINE_CHARS = 2000
"""Characters of a line that are parsed."""
MAX_LINES = 3 * MAX_KILLS
"""Lines parsed of one log at a time, the last ones: one kill takes up to three."""
GIB = 1 << 30
ZONE_STEP_S = 900
"""The clocks of two time zones differ by a multiple of this many seconds."""

_STAMP = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ", re.MULTILINE)
_KILL_LINE = re.compile(rb"^.*(?:Killing \d+ worker\(s\)|Killing worker with|Selected to kill: |\) where the \w+ \().*$", re.MULTILINE)
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
"""Ray 2.60 writes a line for each worker, 2.44 a sentence below the headline."""


class KillScanner:
    """Reads the new part of each log again and again."""

    def __init__(self, kernel: Kernel | None = None, now: Callable[[], float] = time.time) -> None:
        self._kernel = kernel or Kernel()
        self._now = now
        self._logs: Dict[Tuple[int, int], RayletLog] = {}
        self._found: list[Kill] = []

    def read(self, logs: Iterable[str]) -> list[Kill] | None:
        """The kills, oldest first; `None` if neither a log nor the kernel could be read."""
        paths = tuple(logs)
        by_kernel = self._kernel.read()
        new = list(by_kernel or ())
        for path in paths:
            # Any user may put a log into a session of Ray, but only logs of its owner count.
            owner: Tuple[int, ...] | None = None
            with suppress(OSError):
                owner = (os.stat(os.path.dirname(os.path.dirname(path))).st_uid,)
            with suppress(OSError), trust.open_file(path, owner) as file:
                status = os.fstat(file)
                log = self._logs.setdefault((status.st_dev, status.st_ino), RayletLog())  # a rotated log keeps its inode
                new += [{**kill, "session": session_of(path)} for kill in log.read_on(file, status, self._now() - WINDOW_S)]
        oldest, latest = self._now() - WINDOW_S, self._now() + ZONE_STEP_S
        found = (kill for kill in self._found + new if oldest <= kill["moment"] <= latest)
        self._found = sorted(found, key=lambda kill: float(kill["moment"]))[-MAX_KILLS:]
        return self._found if paths or by_kernel is not None or self._found else None


def session_of(log: str) -> str:
    """The name of the session whose `logs` folder has this file."""
    return os.path.basename(os.path.dirname(os.path.dirname(log)))


class RayletLog:
    """The log of one raylet; reading goes on at the place where it stopped."""

    def __init__(self) -> None:
        self._at = 0
        self._moment: float | None = None
        self._node: str | None = None
        """The time and the node in the headline, which comes before the lines of one kill; `None`: there was none."""

    def read_on(self, file: int, status: os.stat_result, since: float) -> list[Kill]:
        """Reads whole lines only, and nothing of a log that was last written before `since` (POSIX time)."""
        self._at = min(self._at, status.st_size) if status.st_mtime >= since else status.st_size
        start = max(self._at, status.st_size - MAX_BYTES)
        if start != self._at:
            self._moment = None
        text = os.pread(file, status.st_size - start, start)
        whole = text[: text.rfind(b"\n") + 1]
        self._at = start + len(whole)
        if b"kill" not in whole and b"Kill" not in whole and b" where the " not in whole:
            return []

        # A raylet in a container may write times of another time zone. Its last line has the time of the last write to the file.
        stamp = _STAMP.match(whole, max(0, whole.rfind(b"\n[", 0, -1) + 1))
        last = _posix(stamp) if stamp else None
        shift = 0.0 if last is None else round((status.st_mtime - last) / ZONE_STEP_S) * ZONE_STEP_S

        kills: list[Kill] = []
        for match in deque(_KILL_LINE.finditer(whole), MAX_LINES):
            line = match[0][:MAX_LINE_CHARS].decode("utf-8", "replace")
            stamp, node = _STAMP.match(match[0]), _NODE.search(line)
            if stamp:
                self._moment, self._node = (_posix(stamp) or 0.0) + shift, None
            if node:
                self._node = node[1]
            patterns = _KILLED if "memory used=" in line else ()
            found = next((found for found in (pattern.search(line) for pattern in patterns) if found), None)
            if found is None or self._moment is None:
                continue
            fields = found.groupdict()
            owner = fields["actor"] or fields.get("task") or ""
            actor = fields["actor"]
            if not actor and owner.startswith(_NIL) and not owner[len(_NIL) :].startswith(_NIL):
                actor = owner[len(_NIL) :]  # a task that creates an actor has the actor's id, after a nil
            kills.append(
                {
                    "by": "ray",
                    "moment": self._moment,
                    "pid": int(fields["pid"]),
                    "name": fields["name"],
                    "actor": actor,
                    "job": fields.get("job") or owner[-8:] or None,  # the ids of actors and tasks end with the eight digits of their job
                    "node": self._node,
                    "held": int(float(fields["held"]) * GIB),
                    "text": line.strip()[:MAX_LINE_CHARS],
                }
            )
        return kills


def _posix(stamp: re.Match[bytes]) -> float | None:
    try:
        return time.mktime(time.strptime(stamp[1].decode(), "%Y-%m-%d %H:%M:%S")) + int(stamp[2]) / 1000
    except (ValueError, OverflowError):
        return None
