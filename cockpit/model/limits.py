"""Defines the limits of a raylet's processes: their number, and their CPUs."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value


class TaskLimit(Value, frozen=True):
    """A limit of processes and threads, which the kernel counts together, and their current number."""

    what: Literal["user", "cgroup", "threads", "pids"]
    """Its scope: the user (`ulimit -u`), a cgroup (`pids.max`), or the host (`kernel.threads-max`, `kernel.pid_max`)."""
    used: int | None = None
    limit: int | None = None
    path: str | None = None
    """The cgroup's file with the limit."""


class CpuLimit(Value, frozen=True):
    """The limits of the CPUs of a raylet and its workers; the lowest one counts."""

    affinity: int | None = None
    """The number of CPUs that it may run on, set by taskset, a cpuset or Slurm."""
    quota: float | None = None
    """The CPU time in its cgroups, in CPUs; `None`: no limit, or unknown."""
    path: str | None = None
    """The file of `quota`."""
