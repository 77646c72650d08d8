"""Finds the processes with the demo's mark in their environment, and ends exactly these.

Every descendant inherits the mark, also one that has started its own session and outlived its parents. The module runs on Python 3.8 with
only psutil, because the program that keeps the demo's nodes uses it too, in the cluster's own Python with Ray's psutil.
"""

from __future__ import annotations

import contextlib
import os
import time

import psutil

MARK = "COCKPIT_DEMO"
"""The environment variable; its value is the folder of the demo."""


def find_marked(value: str) -> list[psutil.Process]:
    """Return every living process with this mark, except the current one."""
    found = []
    # psutil.process_iter is not used: from psutil 6.0 on it still yields a process that has ended after another has got its pid.
    for pid in psutil.pids():
        # psutil.Error: the process has ended, or belongs to another user. IndexError: psutil has read an empty /proc/PID/stat.
        with contextlib.suppress(psutil.Error, IndexError):
            process = psutil.Process(pid)
            if pid != os.getpid() and process.environ().get(MARK) == value and _is_alive(process):
                found.append(process)
    return found


def find_descendants(roots: list[psutil.Process]) -> list[psutil.Process]:
    """Return the descendants of these processes. If a process sets its own title (Ray's agents do), that may overwrite the mark."""
    found = set(roots)
    for root in roots:
        with contextlib.suppress(psutil.Error):  # it has ended
            found.update(root.children(recursive=True))
    return [process for process in found.difference(roots) if process.pid != os.getpid()]


def end_marked(value: str, within: float = 10.0) -> list[int]:
    """Kill every process with this mark, and its descendants. Return the pids that are still alive after `within` seconds.

    It searches until there is none, because a process may have started another before it was killed.
    """
    deadline = time.monotonic() + within
    left = find_marked(value)
    descendants = find_descendants(left)
    left += descendants
    while left and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):  # it has ended; psutil does not kill another process that has got its pid
                process.kill()
        time.sleep(0.05)
        left = find_marked(value) + [process for process in descendants if _is_alive(process)]
    return [process.pid for process in left]


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False
