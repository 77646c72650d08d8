"""How many processes and threads a raylet's user, its cgroups and its host have, and how many they may have: one more fails to start.

The kernel counts both alike, as tasks.
"""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple, Tuple

from .kernel_log import in_first_namespace
from .processes import Forest, ScannedProcess, legible, read_at_once

CGROUPS = "/sys/fs/cgroup"
OF_HOST = (("threads", "/proc/sys/kernel/threads-max"), ("pids", "/proc/sys/kernel/pid_max"))
EXEMPT = 1 << 21 | 1 << 24
"""CAP_SYS_ADMIN and CAP_SYS_RESOURCE: for whoever has one of them `ulimit -u` doesn't count (kernel/fork.c), and for root neither."""
DEEPEST = 32
"""Cgroups above a process that are looked at."""


class TaskLimit(NamedTuple):
    """One limit, and how near it is."""

    what: str
    """`user`, `cgroup`, `threads` (of the host) or `pids` (of the host)."""
    used: int
    limit: int
    path: str | None = None
    """A cgroup's file that says the limit."""


def task_limits(process: ScannedProcess, forest: Forest, nproc: int | None) -> Tuple[TaskLimit, ...]:
    """Those that it and all that it starts must keep. `nproc` is its RLIMIT_NPROC."""
    return (*_of_user(process, forest, nproc), *_of_cgroups(process.pid), *_of_host())


def _of_user(process: ScannedProcess, forest: Forest, nproc: int | None) -> Iterator[TaskLimit]:
    """In another user namespace they are counted apart from those that are seen here."""
    uid, pid = process.details.uid, process.pid
    if uid and nproc and not _is_exempt(pid) and _user_namespace(pid) == _user_namespace("self") is not None:
        yield TaskLimit("user", sum(one.threads for one in forest.values() if one.details.uid == uid), nproc)


def _is_exempt(pid: int) -> bool:
    """Also where that can't be read."""
    try:
        lines = read_at_once(f"/proc/{pid}/status", 1 << 16).split(b"\n")
    except OSError:
        return True
    powers = next((line.split()[1] for line in lines if line.startswith(b"CapEff:")), None)
    return powers is None or bool(int(powers, 16) & EXEMPT)


def _user_namespace(pid: int | str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return None


def _of_cgroups(pid: int) -> Iterator[TaskLimit]:
    """All above it count too: the one that is nearest to its limit."""
    try:
        text = read_at_once(f"/proc/{pid}/cgroup", 1 << 16)
    except OSError:
        return
    found = [limit for folder in pids_folders(text, CGROUPS) for limit in [_of_folder(folder)] if limit]
    if found:
        yield max(found, key=lambda one: one.used / one.limit)


def pids_folders(text: bytes, root: str) -> Iterator[str]:
    """By /proc/PID/cgroup, in version 1 and 2, from its own folder upwards; a container may see only the uppermost, under no name."""
    for number, controllers, path in (line.split(":", 2) for line in os.fsdecode(text).splitlines() if line.count(":") >= 2):
        if number != "0" and "pids" not in controllers.split(","):
            continue
        base = root if number == "0" else f"{root}/pids"
        parts = [part for part in path.split("/") if part][:DEEPEST]
        if ".." not in parts:
            yield from ("/".join((base, *parts[:depth])) for depth in range(len(parts), -1, -1))


def _of_folder(folder: str) -> TaskLimit | None:
    """`None`: there is no limit, or it can't be read."""
    try:
        limit, used = read_at_once(f"{folder}/pids.max", 64), read_at_once(f"{folder}/pids.current", 64)
    except OSError:
        return None
    known = limit.strip().isdigit() and used.strip().isdigit() and int(limit) > 0
    return TaskLimit("cgroup", int(used), int(limit), legible(f"{folder}/pids.max")) if known else None


def _of_host() -> Iterator[TaskLimit]:
    """Each thread takes a pid. In a container the two may speak of different things."""
    if not in_first_namespace():
        return
    try:
        used = int(read_at_once("/proc/loadavg", 256).split()[3].partition(b"/")[2])
        limits = [(what, int(read_at_once(path, 64))) for what, path in OF_HOST]
    except (OSError, ValueError, IndexError):
        return
    yield from (TaskLimit(what, used, limit) for what, limit in limits if limit > 0)
