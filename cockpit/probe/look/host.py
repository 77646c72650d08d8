"""A host's processors, memory and file systems, the memory as Ray's own memory monitor counts it."""

from __future__ import annotations

import os
from typing import Dict, Iterable, NamedTuple, Tuple

from .proc import PAGE_BYTES, read, read_link, read_or_nothing
from .processes import ScannedProcess

Amount = Dict[str, "int | str | None"]
_CGROUPS = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
"""Of version 2 and 1: the files of a limit and of what is used, and how the names begin of what that is (memory.stat)."""


class MemoryUse(NamedTuple):
    """Bytes."""

    used: int | None
    total: int | None
    host_total: int | None = None
    """The machine's own, where a cgroup's limit is the lower one."""
    shared: int | None = None
    """Of what is used: tmpfs and memory that processes share, Ray's object store in /dev/shm among it."""


def memory(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> MemoryUse:
    """As Ray 2.60 does it (src/ray/common/monitors/memory_monitor_utils.cc): the cgroup's figures only where its limit is the lower one."""
    words = (line.split() for line in read(f"{proc}/meminfo").decode().splitlines())
    info = {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) > 1}
    total, available = info.get("MemTotal"), info.get("MemAvailable")
    limited = _read_limit(cgroup) if os.path.exists(f"{cgroup}/memory.max") else _read_limit(f"{cgroup}/memory")
    if limited is not None and limited.total is not None and (total is None or limited.total < total):
        return limited._replace(host_total=total)
    return MemoryUse(total - available if total is not None and available is not None else None, total, shared=info.get("Shmem"))


def lowest_limit(folders: Iterable[str]) -> MemoryUse | None:
    """Of cgroups one above the other all count; where several have the same limit, the uppermost is first at it."""
    limits = [limit for limit in map(_read_limit, folders) if limit is not None]
    return min(reversed(limits), key=lambda one: one.total or 0, default=None)


def _read_limit(folder: str) -> MemoryUse | None:
    """Of a cgroup of version 2 or 1; `max` and 0 are no limit. The page cache the kernel can take back."""
    for limit_file, use_file, prefix in _CGROUPS:
        limit, use = read_or_nothing(f"{folder}/{limit_file}").strip(), read_or_nothing(f"{folder}/{use_file}").strip()
        if not limit:
            continue
        if not limit.isdigit() or not int(limit):
            return None
        said = dict(line.split()[:2] for line in read_or_nothing(f"{folder}/memory.stat").splitlines() if " " in line)
        known = [use, said.get(f"{prefix}inactive_file"), said.get(f"{prefix}active_file")]
        current, *cache = (int(text) if text and text.isdigit() else None for text in known)
        used = None if current is None or None in cache else max(0, min(current - sum(filter(None, cache)), int(limit)))
        return MemoryUse(used, int(limit), shared=int(said[f"{prefix}shmem"]) if f"{prefix}shmem" in said else None)
    return None


def shared_memory(process: ScannedProcess) -> int | None:
    """Of its resident memory what may be others' too: files, /dev/shm; `None`: it has ended. /proc/PID/stat has only the sum.

    That was read a moment before: of a process that grows, this may be more than it had then.
    """
    try:
        return min(process.rss, int(read(f"/proc/{process.pid}/statm").split()[2]) * PAGE_BYTES)
    except (OSError, IndexError, ValueError):
        return None


def kill_at(total: int | None, raylet: ScannedProcess) -> int | None:
    """Above how many used bytes this raylet ends workers. `None`: its monitor is off, or that is not known.

    In a container that we are not in it counts other memory than we see. With resource isolation the limit is a cgroup's memory.high, and
    with swap counted it is another sum.
    """
    settings = raylet.details.environ
    if not total or settings is None or raylet.details.apart or "--enable-resource-isolation=true" in raylet.details.argv:
        return None
    if settings.get("RAY_count_swap_in_memory_monitor", "0").lower() in ("1", "true"):
        return None
    try:
        refresh = float(settings.get("RAY_memory_monitor_refresh_ms", 250))
        threshold = float(settings.get("RAY_memory_usage_threshold", 0.95))
        free = int(settings.get("RAY_min_memory_free_bytes", -1))
    except ValueError:
        return None
    if refresh <= 0 or not 0 < threshold <= 1:
        return None
    return max(int(total * threshold), total - free) if free > -1 else int(total * threshold)


class Cpu:
    """How busy the processors were between two looks."""

    def __init__(self) -> None:
        self._last = _cpu_times()

    def read(self) -> float | None:
        """Percent of all processors; `None` when no time has passed since the last look."""
        (busy, total), (busy_before, total_before) = _cpu_times(), self._last
        if total <= total_before:
            return None
        self._last = busy, total
        return round(min(100.0, max(0.0, 100 * (busy - busy_before) / (total - total_before))), 1)


def _cpu_times() -> Tuple[int, int]:
    """Ticks busy, and in all; waiting for a disk is idle. Guests are in user time already."""
    words = [int(word) for word in read("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    return sum(words) - words[3] - words[4], sum(words)


def space(path: str) -> Amount:
    """Of a file system, counted as Ray's file system monitor does: what a user can't write to is used."""
    status = os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    return {"used": total - status.f_bavail * status.f_frsize, "total": total}


def free_space(path: str) -> Tuple[int | None, int | None]:
    """Bytes that a user may still write to a file system, and all of its; `None` where that can't be told."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def disks(folders: Iterable[str]) -> list[Amount]:
    """One for each file system below these folders, named by the first of them that lies on it."""
    found: Dict[int, Amount] = {}
    for folder in filter(os.path.isdir, folders):
        device = os.stat(folder).st_dev
        if device not in found:
            found[device] = {"path": folder, **space(folder)}
    return list(found.values())


def machine() -> str | None:
    """What no other host, and no other container on it, says of itself."""
    boot, space = read_or_nothing("/proc/sys/kernel/random/boot_id").strip(), read_link("/proc/self/ns/pid")
    return f"{boot} {space}" if boot and space else None
