"""Reads how many CPUs a process may use: the limits of its affinity and of its cgroups."""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

from .proc import make_legible, read_or_nothing


class CpuLimit(NamedTuple):
    """The limits of a process's CPUs; the lowest one applies."""

    affinity: int | None
    """The number of CPUs that it may run on, set by taskset, a cpuset or Slurm; `None`: unknown."""
    quota: float | None
    """The CPUs whose time its cgroups give it; `None`: they set no limit, or it can't be read."""
    path: str | None
    """The file of that quota."""


def cpu_limit(pid: int, folders: Iterable[str]) -> CpuLimit:
    """The limits of a process. `folders` are its cgroup and all cgroups above it; the lowest quota applies."""
    try:
        affinity = len(os.sched_getaffinity(pid))
    except OSError:
        affinity = None
    # A quota is microseconds of CPU time in a period, in cgroup version 2 or 1; `max` and -1 mean no limit.
    quotas = []
    for folder in folders:
        path = f"{folder}/cpu.max"
        words = read_or_nothing(path).split()
        if not words:
            path = f"{folder}/cpu.cfs_quota_us"
            words = [read_or_nothing(path).strip(), read_or_nothing(f"{folder}/cpu.cfs_period_us").strip()]
        if len(words) == 2 and all(word.isdigit() and int(word) for word in words):
            quotas.append((round(int(words[0]) / int(words[1]), 2), path))
    quota, lowest_path = min(quotas, default=(None, None))
    return CpuLimit(affinity, quota, lowest_path and make_legible(lowest_path))
