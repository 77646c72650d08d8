"""How many CPUs a process may use: by its affinity, and by the limits of its cgroups."""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

from .proc import make_legible, read_or_nothing


class CpuLimit(NamedTuple):
    """What limits the CPUs of a process; the lowest of all limits counts."""

    affinity: int | None
    """CPUs that it may run on, as taskset, a cpuset or Slurm has set it; `None`: that can't be read."""
    quota: float | None
    """CPUs whose time its cgroups give it; `None`: they set no limit, or it can't be read."""
    path: str | None
    """The file of that quota."""


def cpu_limit(pid: int, folders: Iterable[str]) -> CpuLimit:
    """`folders` are those of its cgroup and of every cgroup above it, where the lowest quota counts."""
    quotas = [(quota, path) for folder in folders for quota, path in [_read_quota(folder)] if quota is not None]
    quota, path = min(quotas, default=(None, None))
    return CpuLimit(_count_affinity(pid), quota, path and make_legible(path))


def _count_affinity(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return None


def _read_quota(folder: str) -> tuple[float | None, str]:
    """Microseconds of CPU time in a period, of a cgroup of version 2 or 1; `max` and -1 are no limit."""
    path = f"{folder}/cpu.max"
    words = read_or_nothing(path).split()
    if not words:
        path = f"{folder}/cpu.cfs_quota_us"
        words = [read_or_nothing(path).strip(), read_or_nothing(f"{folder}/cpu.cfs_period_us").strip()]
    if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
        return None, path
    return round(int(words[0]) / int(words[1]), 2), path
