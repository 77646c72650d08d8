"""What limits the processes of a raylet: how many there may be, and how many CPUs they may use."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value


class TaskLimit(Value, frozen=True):
    """How many processes and threads, which the kernel counts alike, there are and may be where a raylet runs."""

    what: Literal["user", "cgroup", "threads", "pids"]
    """Of whom: its user (`ulimit -u`), a cgroup above it (`pids.max`), its host (`kernel.threads-max`, `kernel.pid_max`)."""
    used: int | None = None
    limit: int | None = None
    path: str | None = None
    """A cgroup's file that says the limit."""


class CpuLimit(Value, frozen=True):
    """What limits the CPUs of a raylet and its workers; the lowest of all limits counts."""

    affinity: int | None = None
    """CPUs that it may run on, as taskset, a cpuset or Slurm has set it."""
    quota: float | None = None
    """CPUs whose time its cgroups give it; `None`: they set no limit, or that is not known."""
    path: str | None = None
    """The file of that quota."""
