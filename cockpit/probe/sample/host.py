"""Reads the processors, memory and file systems of this host; the memory as Ray's memory monitor counts it."""

from __future__ import annotations

import os
from typing import Dict, Iterable, NamedTuple, Tuple

from .proc import PAGE_BYTES, namespace_id, read, read_or_nothing
from .processes import ScannedProcess

Amount = Dict[str, "int | str | None"]
_CGROUP_FILES = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
"""For cgroup version 2 and 1: the file of the limit, the file of the bytes in use, the prefix of the counters in memory.stat."""


class MemoryUse(NamedTuple):
    """Memory of a host or a cgroup in bytes; `None`: unknown."""

    used: int | None
    total: int | None
    """The limit of the cgroup, else the memory of the machine."""
    host_total: int | None = None
    """The memory of the machine, if `total` is a lower limit of a cgroup."""
    shared: int | None = None
    """The part of `used` that is tmpfs or shared between processes, such as Ray's object store in /dev/shm."""


def memory(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> MemoryUse:
    """The figures of the cgroup if its limit is lower than the machine's memory, else the figures of the machine.

    Ray 2.60 does the same (src/ray/common/monitors/memory_monitor_utils.cc).
    """
    words = (line.split() for line in read(f"{proc}/meminfo").decode().splitlines())
    info = {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) > 1}
    total, available = info.get("MemTotal"), info.get("MemAvailable")
    limited = _read_limit(cgroup) if os.path.exists(f"{cgroup}/memory.max") else _read_limit(f"{cgroup}/memory")
    if limited is not None and limited.total is not None and (total is None or limited.total < total):
        return limited._replace(host_total=total)
    return MemoryUse(total - available if total is not None and available is not None else None, total, shared=info.get("Shmem"))


def lowest_limit(folders: Iterable[str]) -> MemoryUse | None:
    """The use and limit of the cgroup that reaches its limit first. `folders` are a cgroup and all cgroups above it, upwards.

    If several have the same limit, it is the uppermost.
    """
    limits = [limit for limit in map(_read_limit, folders) if limit is not None]
    return min(reversed(limits), key=lambda one: one.total or 0, default=None)


def _read_limit(folder: str) -> MemoryUse | None:
    """The use and limit of one cgroup (version 2 or 1); `None`: no limit, which is also the meaning of `max` and 0."""
    for names in _CGROUP_FILES:
        if read_or_nothing(f"{folder}/{names[0]}").strip():
            return read_cgroup_use(folder, *names)
    return None


def read_cgroup_use(folder: str, limit_file: str, use_file: str, prefix: str) -> MemoryUse | None:
    """The same by the files of one version; `prefix`: of its counters.

    The page cache does not count as used, since the kernel can take it back.
    """
    limit, use = (read_or_nothing(f"{folder}/{name}").strip() for name in (limit_file, use_file))
    if not limit.isdigit() or not int(limit):
        return None
    counters = read_counters(folder)
    known = [int(use) if use.isdigit() else None, counters.get(f"{prefix}inactive_file"), counters.get(f"{prefix}active_file")]
    current, *cache = known
    used = None if current is None or None in cache else max(0, min(current - sum(filter(None, cache)), int(limit)))
    return MemoryUse(used, int(limit), shared=counters.get(f"{prefix}shmem"))


def read_counters(folder: str) -> Dict[str, int]:
    """The counters in memory.stat of a cgroup; empty if it can't be read."""
    words = (line.split() for line in read_or_nothing(f"{folder}/memory.stat").splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdigit()}


def shared_memory(process: ScannedProcess) -> int | None:
    """The bytes of its resident memory that other processes may share: files, /dev/shm. `None`: it has ended.

    /proc/PID/stat has only the sum of shared and private memory. `process.rss` is a moment older, so the shared memory of a growing process
    may be larger now: it is cut to `rss`.
    """
    try:
        return min(process.rss, int(read(f"/proc/{process.pid}/statm").split()[2]) * PAGE_BYTES)
    except (OSError, IndexError, ValueError):
        return None


class Cpu:
    """The load of the processors between two reads."""

    def __init__(self) -> None:
        self._last = _cpu_times()

    def read(self) -> float | None:
        """Percent of all processors; `None` if no time has passed since the last read."""
        (busy, total), (busy_before, total_before) = _cpu_times(), self._last
        if total <= total_before:
            return None
        self._last = busy, total
        return round(min(100.0, max(0.0, 100 * (busy - busy_before) / (total - total_before))), 1)


def _cpu_times() -> Tuple[int, int]:
    """Busy ticks and all ticks. Waiting for a disk is idle. The time of guests is left out, since it is a part of user time."""
    words = [int(word) for word in read("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    return sum(words) - words[3] - words[4], sum(words)


def space(path: str) -> Amount:
    """The bytes of a file system as Ray's file system monitor counts them: space that users can't write to is used."""
    status = os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    return {"used": total - status.f_bavail * status.f_frsize, "total": total}


def free_space(path: str) -> Tuple[int | None, int | None]:
    """The bytes that a user can still write to a file system, and its size; `None`: unknown."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def disks(folders: Iterable[str]) -> list[Amount]:
    """The space of each file system that one of these folders is on, under the path of the first such folder."""
    found: Dict[int, Amount] = {}
    for folder in filter(os.path.isdir, folders):
        device = os.stat(folder).st_dev
        if device not in found:
            found[device] = {"path": folder, **space(folder)}
    return list(found.values())


def machine() -> str | None:
    """An identity that no other host has, nor another container on this host; `None`: unknown."""
    return namespace_id("self", "pid")
