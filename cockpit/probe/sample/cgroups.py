"""Reads the cgroups of a process: its limit of CPUs, and the Slurm job or the container that they are named after."""

from __future__ import annotations

import os
import re
from typing import Iterable, Iterator, NamedTuple, Tuple

from .proc import make_legible, read_or_nothing

CGROUPS = "/sys/fs/cgroup"
MAX_DEPTH = 32
"""Levels of cgroups above a process that are read."""
_CONTAINER = re.compile(r"[/:](libpod|docker|crio|cri-containerd)[-/]([0-9a-f]{64})(?![0-9a-f])")
"""podman's `…/libpod-ID`, `docker-ID.scope` or `/docker/ID`, `crio-ID.scope`, `cri-containerd-ID.scope`."""

_SLURM_JOB = re.compile(
    r"^\d{1,9}:[^:\n]{0,200}:/(?:slurm(?:_[\w.-]{1,200})?|system\.slice/(?:[\w.-]{1,200}_)?slurmstepd\.scope)[^\n]{0,500}?/job_(\d{1,12})(?:/|$)",
    re.MULTILINE,
)


class CpuLimit(NamedTuple):
    """The limits of a process's CPUs; the lowest one applies."""

    affinity: int | None
    """The number of CPUs that it may run on, set by taskset, a cpuset or Slurm; `None`: unknown."""
    quota: float | None
    """The CPUs whose time its cgroups give it; `None`: they set no limit, or it can't be read."""
    path: str | None
    """The file of that quota."""


def folders_above(pid: int, controller: str) -> Iterator[str]:
    """The folders of a process's cgroup and of all cgroups above it, its own first."""
    return cgroup_folders(read_or_nothing(f"/proc/{pid}/cgroup"), controller, CGROUPS)


def cgroup_folders(text: str, controller: str, root: str) -> Iterator[str]:
    """The same by the text of /proc/PID/cgroup (version 1 or 2), below the folder `root`.

    A container may see only the uppermost, as `/`.
    """
    for number, controllers, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2):
        if number != "0" and controller not in controllers.split(","):
            continue
        base = root if number == "0" else f"{root}/{controller}"
        parts = [part for part in path.split("/") if part][:MAX_DEPTH]
        if ".." not in parts:
            yield from ("/".join((base, *parts[:depth])) for depth in range(len(parts), -1, -1))


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


def parse_slurm_job(cgroups: str) -> str | None:
    """The job in /proc/PID/cgroup, which only root writes: `…/slurmstepd.scope/job_42/step_0/…` or `/slurm/uid_7/job_42/…`."""
    found = set(_SLURM_JOB.findall(cgroups))
    return found.pop() if len(found) == 1 else None


def read_container_id(pid: int) -> Tuple[str, str] | None:
    """The word that a container engine puts into the name of a cgroup, and the id of the container; `None`: the name has no such word."""
    found = _CONTAINER.search(read_or_nothing(f"/proc/{pid}/cgroup"))
    return (found[1], found[2]) if found else None
