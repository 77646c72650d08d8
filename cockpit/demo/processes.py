"""Which processes carry our mark in their environment, and how to end exactly these.

Every descendant inherits the mark, also one that has started a session of its own and outlived its parents. Python 3.8, and nothing but
psutil: whatever keeps the demo's nodes runs it too, in the cluster's own Python, with the psutil that Ray brings along.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import psutil

MARK = "COCKPIT_DEMO"
"""The environment variable; its value is the folder of the demo."""


def find_marked(value: str) -> list[psutil.Process]:
    """Every living process with this mark, except the one that asks."""
    return [process for process in _all_processes() if process.pid != os.getpid() and _has_mark(process, value)]


def _all_processes() -> Iterator[psutil.Process]:
    """Not `psutil.process_iter`: from psutil 6.0 on it goes on telling of a process that has ended, though another has its pid by now."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, IndexError):  # gone meanwhile; the second where psutil finds its /proc/PID/stat empty
            yield psutil.Process(pid)


def find_descendants(roots: list[psutil.Process]) -> list[psutil.Process]:
    """What is below these: a title that a process gives itself (Ray's agents do) may lie over the mark."""
    found = set(roots)
    for root in roots:
        with contextlib.suppress(psutil.Error):  # gone meanwhile
            found.update(root.children(recursive=True))
    return [process for process in found.difference(roots) if process.pid != os.getpid()]


def end_marked(value: str, within: float = 10.0) -> list[int]:
    """End every process with this mark, and what is below one; returns the pids that are still there after `within` seconds.

    Looks again until there is none, because one that was seen may have started another.
    """
    deadline = time.monotonic() + within
    left = find_marked(value)
    family = find_descendants(left)
    left += family
    while left and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):  # gone meanwhile; another that has got its pid is let be
                process.kill()
        time.sleep(0.05)
        left = find_marked(value) + [process for process in family if _is_alive(process)]
    return [process.pid for process in left]


def _has_mark(process: psutil.Process, value: str) -> bool:
    with contextlib.suppress(psutil.Error):  # gone meanwhile, or somebody else's
        return process.environ().get(MARK) == value and _is_alive(process)
    return False


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False
