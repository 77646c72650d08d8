"""A host's processors, memory and file systems, the memory as Ray's own memory monitor counts it."""

from __future__ import annotations

import os
import socket
import struct
from typing import Dict, Iterable, Mapping, NamedTuple, Tuple

from .processes import PAGE, ScannedProcess, read

Amount = Dict[str, "int | str | None"]
DEFAULT_THRESHOLD = 0.95
_SIOCGIFADDR = 0x8915


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
    info = _meminfo(f"{proc}/meminfo")
    total, available = info.get("MemTotal"), info.get("MemAvailable")
    limit, used = _limit(cgroup), _cgroup_used(cgroup)
    if limit is not None and (total is None or limit < total):
        return MemoryUse(None if used is None else max(0, min(used, limit)), limit, total, _cgroup_shared(cgroup))
    return MemoryUse(total - available if total is not None and available is not None else None, total, shared=info.get("Shmem"))


def _meminfo(path: str) -> Dict[str, int]:
    words = (line.split() for line in read(path).decode().splitlines())
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) > 1}


def _limit(cgroup: str) -> int | None:
    """Of version 2 where that file is there, else of version 1; `max` and 0 are no limit."""
    for path in (f"{cgroup}/memory.max", f"{cgroup}/memory/memory.limit_in_bytes"):
        try:
            text = read(path).decode().strip()
        except OSError:
            continue
        return int(text) or None if text.isdigit() else None
    return None


def _cgroup_used(cgroup: str) -> int | None:
    """Without the page cache, which the kernel can take back."""
    for usage, stat, prefix in (
        (f"{cgroup}/memory.current", f"{cgroup}/memory.stat", ""),
        (f"{cgroup}/memory/memory.usage_in_bytes", f"{cgroup}/memory/memory.stat", "total_"),
    ):
        try:
            current, lines = int(read(usage)), read(stat).decode().splitlines()
        except OSError:
            continue
        cache = dict(line.split()[:2] for line in lines if " " in line)
        if f"{prefix}inactive_file" not in cache or f"{prefix}active_file" not in cache:
            return None
        return current - int(cache[f"{prefix}inactive_file"]) - int(cache[f"{prefix}active_file"])
    return None


def _cgroup_shared(cgroup: str) -> int | None:
    for path, name in ((f"{cgroup}/memory.stat", "shmem"), (f"{cgroup}/memory/memory.stat", "total_shmem")):
        try:
            lines = read(path).decode().splitlines()
        except OSError:
            continue
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)
    return None


def shared_memory(pid: int) -> int | None:
    """Of its resident memory what may be others' too: files, /dev/shm; `None`: it has ended. /proc/PID/stat has only the sum."""
    try:
        return int(read(f"/proc/{pid}/statm").split()[2]) * PAGE
    except (OSError, IndexError, ValueError):
        return None


def kill_at(total: int | None, raylets: Iterable[ScannedProcess]) -> int | None:
    """Above how many used bytes Ray ends workers: the lowest limit of the raylets here. `None`: no raylet, its monitor off, or unknown.

    A raylet in a container that we are not in counts other memory than we see.
    """
    near = [raylet.details for raylet in raylets if not raylet.details.apart]
    known = [_kill_at(total, details.environ, details.argv) for details in near] if total else []
    return min((limit for limit in known if limit is not None), default=None)


def _kill_at(total: int | None, settings: Mapping[str, str] | None, argv: Tuple[str, ...]) -> int | None:
    """With resource isolation the limit is a cgroup's memory.high, and with swap counted it is another sum: unknown."""
    if total is None or settings is None or "--enable-resource-isolation=true" in argv:
        return None
    if settings.get("RAY_count_swap_in_memory_monitor", "0").lower() in ("1", "true"):
        return None
    try:
        refresh = float(settings.get("RAY_memory_monitor_refresh_ms", 250))
        threshold = float(settings.get("RAY_memory_usage_threshold", DEFAULT_THRESHOLD))
        free = int(settings.get("RAY_min_memory_free_bytes", -1))
    except ValueError:
        return None
    if refresh <= 0:
        return None
    return max(int(total * threshold), total - free) if free > -1 else int(total * threshold)


class Cpu:
    """How busy the processors were between two looks."""

    def __init__(self) -> None:
        self._last = _cpu_times()

    def read(self) -> float | None:
        """Percent of all processors; `None` when no time has passed since the last look."""
        busy, total = _cpu_times()
        spent, passed = busy - self._last[0], total - self._last[1]
        if passed <= 0:
            return None
        self._last = busy, total
        return round(min(100.0, max(0.0, 100 * spent / passed)), 1)


def _cpu_times() -> Tuple[int, int]:
    """Ticks busy, and in all; waiting for a disk is idle. Guests are in user time already."""
    words = [int(word) for word in read("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    return sum(words) - words[3] - words[4], sum(words)


def space(path: str) -> Amount:
    """Of a file system, counted as Ray's file system monitor does: what a user can't write to is used."""
    status = os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    return {"used": total - status.f_bavail * status.f_frsize, "total": total}


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
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def addresses() -> list[str]:
    """All but loopback and link-local ones, IPv4 first."""
    found = [address for _, name in socket.if_nameindex() for address in [_address(name)] if address and not address.startswith("127.")]
    return [*dict.fromkeys(found), *dict.fromkeys(_addresses_v6())]


def _address(interface: str) -> str | None:
    import fcntl  # only for the greeting

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None  # it has no IPv4 address
    return socket.inet_ntoa(answer[20:24])


def _addresses_v6() -> list[str]:
    try:
        rows = [line.split() for line in read("/proc/net/if_inet6").decode().splitlines()]
    except OSError:
        return []
    scopes = {"00": "global"}
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] in scopes]
