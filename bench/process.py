"""What a process and everything it started has used: CPU seconds and memory, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may hold anything; `None` when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid: int) -> list[int]:
    """The process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) is not None:
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found.extend(parents.get(one, ()))
    return found


def cpu_seconds(pid: int, *, alone: bool = False) -> float:
    """User and system time of the tree, or of the one alone; of children that have ended too, once they were waited for."""
    stats = [stat for one in ([pid] if alone else descendants(pid)) if (stat := _stat(one)) is not None]
    return sum(int(field) for stat in stats for field in stat[11:15]) / TICK


def peak(pid: int) -> float:
    """MiB: the most it ever had in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
