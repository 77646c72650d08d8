"""What a process and everything it started has used: CPU seconds and memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil


def descendants(pid: int) -> list[int]:
    """The process and everything below it."""
    with suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return [pid]


def cpu_seconds(pid: int, *, alone: bool = False) -> float:
    """User and system time of the tree, or of the one alone; of children that have ended too, once they were waited for."""
    return sum(_cpu_seconds(one) for one in ([pid] if alone else descendants(pid)))


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(sum(psutil.Process(pid).cpu_times()[:4]))  # user, system, and both of its children
    return 0.0


def children_cpu_seconds() -> float:
    """Of this process's children that have ended."""
    return sum(os.times()[2:4])


def others_cpu_seconds() -> float:
    """Of all that runs on this machine and was not started from here."""
    busy = psutil.cpu_times()
    return busy.user + busy.nice + busy.system - cpu_seconds(os.getpid())


def peak(pid: int) -> float:
    """MiB: the most it ever had in memory, which psutil doesn't tell."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
