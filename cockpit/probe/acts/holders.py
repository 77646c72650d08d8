"""Who uses what lies in a session's folder: holds it open, has it mapped, or works there."""

from __future__ import annotations

import os
import re
import threading
import time
from itertools import islice
from typing import Dict, Iterable, Iterator, Mapping, NamedTuple, Set, Tuple

from ..look.kinds import OWNED
from ..look.proc import read
from ..look.processes import Forest, ScannedProcess
from ..trust import own_uids
from .host_state import HostState, Tell

PATIENCE = 2.0
"""Seconds after which a process whose memory map is locked is left alone."""
TELL_EVERY = 1.0
MOST = 10_000
"""Uses by one process; whoever holds more open is not listed with each."""
_PLACE = re.compile(r"/(session_[\d_-]+)(?:/(.*?))?(?: \(deleted\))?$", re.DOTALL)


class FileUse(NamedTuple):
    """One use of one file."""

    pid: int
    session: str
    """Its name, which is the same wherever its folder is mounted."""
    path: str
    """The file, from there; empty for the folder itself."""
    how: str


def holds(forest: Forest, tell: Tell) -> Tuple[Tuple[FileUse, ...], Tuple[int, ...]]:
    """And the pids that could not be asked, because they hang. Files of other users' processes are seen by root alone."""
    left = [pid for pid, process in forest.items() if process.alive and not process.details.stuck and pid != os.getpid()]
    found: list[FileUse] = []
    hanging: list[int] = []
    while left:
        asking = _Asking(left)
        at = asking.wait(tell)
        found += [hold for pid in left[:at] for hold in asking.found.get(pid, ())]
        hanging += left[at : at + 1]
        left = left[at + 1 :]
    return tuple(found), (*hanging, *(pid for pid, process in forest.items() if process.details.stuck))


def why_in_use(look: HostState, used: Iterable[FileUse], session: str, uid: int) -> str | None:
    """The live Ray of its owner's, of root's or of ours that works with files there, if one does: it may have no others."""
    for hold in used:
        process, verdict = look.forest.get(hold.pid), look.verdicts.get(hold.pid)
        if hold.session != session or process is None or verdict is None or verdict.kind not in OWNED:
            continue
        if process.details.uid in (uid, *own_uids()):
            return f"it is in use: {verdict.kind} {hold.pid} of a live Ray has {hold.path or 'its folder'} open"
    return None


def describe_uses(used: Iterable[FileUse], forest: Forest, session: str) -> Iterator[str]:
    """A sentence for each process that uses something there, which may be removed all the same."""
    by_pid: Dict[int, list[FileUse]] = {}
    for hold in used:
        if hold.session == session:
            by_pid.setdefault(hold.pid, []).append(hold)
    for pid, mine in by_pid.items():
        one, more = mine[0], len({hold.path for hold in mine}) - 1
        others = f" and {more} more" if more else ""
        process = forest[pid]
        by = f"by {_shorten_command(process)} (pid {pid})"
        yield f"{session}: {one.path or 'the folder itself'}{others} is {one.how} {by}: its space is freed when that process ends"


def _shorten_command(process: ScannedProcess) -> str:
    """Its program and what that runs: enough to know it by, and too short for a secret."""
    return " ".join(process.details.argv[:2])[:120] or process.name


class _Asking:
    """Reads what these processes use, in a thread of its own, which may hang in any of them."""

    def __init__(self, pids: list[int]) -> None:
        self.found: Dict[int, Set[FileUse]] = {}
        self._pids = pids
        self._at = 0
        self._finished = threading.Event()
        threading.Thread(target=self._run, name="holders", daemon=True).start()

    def _run(self) -> None:
        for at, pid in enumerate(self._pids):
            self._at = at
            self.found[pid] = set(islice(_of(pid), MOST))
        self._finished.set()

    def wait(self, tell: Tell) -> int:
        """How many have answered before one that does not."""
        at, since, told_at = self._at, time.monotonic(), 0.0
        while not self._finished.wait(0.02):
            now = time.monotonic()
            if now - told_at > TELL_EVERY:
                told_at = now
                tell(f"open files of {at} of {len(self._pids)} processes checked", at, len(self._pids))
            if self._at != at:
                at, since = self._at, now
            elif now - since > PATIENCE:
                return at
        return len(self._pids)


def _of(pid: int) -> Iterator[FileUse]:
    for path, how in _links(pid):
        match = _PLACE.search(path)
        if match:
            yield FileUse(pid, match[1], match[2] or "", how)


def _links(pid: int) -> Iterator[Tuple[str, str]]:
    yield from ((link, how) for name, how in _WORKS.items() for link in _link(f"/proc/{pid}/{name}"))
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        numbers = []  # it has ended, or is not ours to look into
    yield from ((link, "held open") for number in numbers for link in _link(f"/proc/{pid}/fd/{number}"))
    try:
        lines = read(f"/proc/{pid}/maps").split(b"\n")
    except OSError:
        return
    paths = {line[line.index(b"/") :] for line in lines if b"/session_" in line}
    yield from ((os.fsdecode(path).replace("\\012", "\n"), "mapped") for path in paths)


def _link(path: str) -> Iterator[str]:
    try:
        yield os.readlink(path)
    except OSError:
        return


_WORKS: Mapping[str, str] = {"cwd": "used as working directory", "exe": "executed", "root": "used as root directory"}
