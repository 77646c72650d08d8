"""Which processes carry our mark in their environment, and how to end exactly these.

Every descendant inherits the mark, also one that has started a session of its own and outlived its parents. Standard library only and
Python 3.8: whatever keeps the demo's nodes runs it too, in the cluster's own Python.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "COCKPIT_DEMO"
"""The environment variable; its value is the folder of the demo."""


def marked(value: str) -> list[tuple[int, int]]:
    """Pid and start (clock ticks since boot) of every process with this mark, except the one that asks."""
    wanted = f"{MARK}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile, or somebody else's
            continue
        if wanted in environment and stat[0] not in "ZX" and int(folder.name) != os.getpid():
            found.append((int(folder.name), int(stat[19])))
    return found


def below(roots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pid and start of all descendants: a title that a process gives itself (Ray's agents do) may lie over the mark."""
    found = dict(roots)
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = (int(stat[1]), int(stat[19]))
    grown = True
    while grown:
        more = {pid: start for pid, (parent, start) in parents.items() if parent in found and pid not in found and pid != os.getpid()}
        grown = bool(more)
        found.update(more)
    return [(pid, start) for pid, start in found.items() if (pid, start) not in roots]


def end(value: str, within: float = 10.0) -> list[int]:
    """End every process with this mark, and what is below one; returns the pids that are still there after `within` seconds.

    Looks again until there is none, because one that was seen may have started another.
    """
    deadline = time.monotonic() + within
    family = below(marked(value))
    left = marked(value) + family
    while left and time.monotonic() < deadline:
        for pid, start in left:
            _kill(pid, start)
        time.sleep(0.05)
        left = marked(value) + [one for one in family if _alive(*one)]
    return [pid for pid, _ in left]


def _alive(pid: int, start: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] not in "ZX" and int(stat[19]) == start


def _kill(pid: int, start: int) -> None:
    with contextlib.suppress(OSError):  # gone meanwhile
        stat = Path(f"/proc/{pid}/stat").read_text()
        if int(stat.rpartition(")")[2].split()[19]) == start:
            os.kill(pid, signal.SIGKILL)
