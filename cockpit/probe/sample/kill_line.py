"""Computes, as Ray 2.60 does, the line above which a raylet kills workers, and the bytes in use that it compares with the line.

See src/ray/common/monitors/memory_monitor_utils.cc of Ray: GetMemoryThreshold, TakeSystemMemoryUsageSnapshot and
TakeUserAndSystemSliceMemoryUsageSnapshot. Ray 2.60 computes the line once, when the raylet starts.
"""

from __future__ import annotations

import os
import re
import struct
from typing import Dict, NamedTuple, Tuple

from .cgroups import CGROUPS, folders_above
from .host import MemoryUse, read_cgroup_use, read_counters
from .origin import flag
from .proc import make_legible, read_or_nothing
from .processes import ScannedProcess, lives

ISOLATED = "--enable-resource-isolation=true"
ISOLATED_SINCE = (2, 60)
"""Earlier releases have resource isolation too, but it is unknown how they compute the line."""
_SWAP_FILES = ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", "total_")
"""The files of cgroup version 1 for memory and swap together. `host` has those for memory only."""


class KillLine(NamedTuple):
    """The line of a raylet, in bytes."""

    at: int
    used: int | None = None
    """The bytes in use that Ray compares with the line. `None`: it compares `MemoryUse.used`, of the host or its cgroup."""
    total: int | None = None
    """The maximum of `used`. `None`: it is `MemoryUse.total`."""
    charged: int | None = None
    """With resource isolation: all memory that the kernel counts for the workers, with file cache. Ray also kills workers if this reaches
    the line without swap (event_memory_monitor.cc)."""


def kill_line(
    memory: MemoryUse, raylet: ScannedProcess, isolation: str | None, proc: str = "/proc", cgroups: str = CGROUPS
) -> KillLine | None:
    """Computes the line of a raylet; `None`: its memory monitor is off, or the line is unknown.

    `memory`: the memory of the host. `isolation`: the folder from `isolation_folder`. The line of a raylet in another container is unknown,
    because it counts other memory than we see. With resource isolation it is known, because then the raylet counts its own cgroups.
    """
    settings = raylet.details.environ
    if settings is None:
        return None
    try:
        is_on = float(settings.get("RAY_memory_monitor_refresh_ms", 250)) > 0
        threshold = float(settings.get("RAY_memory_usage_threshold", 0.95))
        free = int(settings.get("RAY_min_memory_free_bytes", -1))
    except ValueError:
        return None
    counts_swap = settings.get("RAY_count_swap_in_memory_monitor", "0").lower() in ("1", "true")
    if ISOLATED in raylet.details.argv:
        if isolation is None:
            return None
        # In another cgroup namespace, Ray sees the cgroup above its own cgroups as the uppermost one.
        top = os.path.dirname(isolation) if raylet.details.apart else cgroups
        return _isolated_line(memory, isolation, top if counts_swap else None, is_on, proc)
    if not is_on or not memory.total or raylet.details.apart or not 0 < threshold <= 1:
        return None
    total, used = (memory.total, None) if not counts_swap else _with_swap(memory, proc, cgroups)
    if not total or (counts_swap and used is None):
        return None
    at = int(_single(_single(total) * _single(threshold)))  # Ray computes this in single precision
    return KillLine(max(at, total - free) if free > -1 else at, used, total if counts_swap else None)


def isolation_folder(raylet: ScannedProcess, version: str | None) -> str | None:
    """The folder of the cgroups that a raylet with resource isolation has made; `None`: it has none, or they are unknown.

    The kernel reports the cgroup of the process, and Ray names that cgroup after the node. `version`: the version of Ray.
    """
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    node = flag(raylet.details.argv, "--node_id", "--node-id")
    if ISOLATED not in raylet.details.argv or not node or found is None or (int(found[1]), int(found[2])) < ISOLATED_SINCE:
        return None
    own = next(folders_above(raylet.pid, "memory"), "")
    folder, end = own[: -len("/system/leaf")], own[-len("/system/leaf") :]
    is_its = end == "/system/leaf" and os.path.basename(folder) == f"ray-node_{node}"
    return make_legible(folder) if is_its and lives(raylet.pid, raylet.ticks) else None


def _isolated_line(memory: MemoryUse, folder: str, top: str | None, is_on: bool, proc: str) -> KillLine | None:
    """The line of a raylet with resource isolation. `top`: the cgroup whose swap counts; `None`: swap does not count."""
    user, system = read_counters(f"{folder}/user"), read_counters(f"{folder}/system")
    high, charged = (read_or_nothing(f"{folder}/user/{name}").strip() for name in ("memory.high", "memory.current"))
    if not high.isdigit() or not charged.isdigit():
        return None
    if not is_on:  # then Ray kills only by the kernel's own count
        return KillLine(int(high), int(charged), charged=int(charged))
    try:
        used = user["anon"] + user["shmem"] + system["shmem"]
    except KeyError:
        return None
    if top is None:
        return KillLine(int(high), used, charged=int(charged))
    host_swap = _host_swap(proc)
    limit, _ = _cgroup_swap(top, host_swap) or (0, 0)
    _, used_swap = _cgroup_swap(f"{folder}/user", host_swap) or (0, 0)
    return KillLine(int(high) + limit, used + used_swap, memory.total and memory.total + limit, int(charged))


def _with_swap(memory: MemoryUse, proc: str, cgroups: str) -> Tuple[int | None, int | None]:
    """The sum of memory and swap of a host or its cgroup, and the used part of it; `None`: unknown."""
    swap, swap_used = host_swap = _host_swap(proc)
    if not os.path.exists(f"{cgroups}/memory.max"):
        both = read_cgroup_use(f"{cgroups}/memory", *_SWAP_FILES)
        if both is not None and both.total is not None:
            if both.total <= (memory.host_total or memory.total or 0) + swap:
                return both.total, both.used
            if memory.host_total is not None:  # then Ray uses the numbers of the host, but `memory` has those of the cgroup
                return None, None
    if memory.total is None or memory.used is None:
        return None, None
    limit, used = _cgroup_swap(cgroups, host_swap) or (swap, swap_used)
    return memory.total + limit, memory.used + used


def _host_swap(proc: str) -> Tuple[int, int]:
    """The swap of the host, and the used part of it."""
    words = (line.split() for line in read_or_nothing(f"{proc}/meminfo").splitlines() if line.startswith("Swap"))
    sizes: Dict[str, int] = {word[0]: int(word[1]) * 1024 for word in words if len(word) > 1 and word[1].isdigit()}
    total = sizes.get("SwapTotal:", 0)
    return total, max(0, total - sizes.get("SwapFree:", 0))


def _cgroup_swap(folder: str, host_swap: Tuple[int, int]) -> Tuple[int, int] | None:
    """The swap that a cgroup (version 2) may use, and the part that it uses; `None`: it counts no swap, as the top cgroup of a host."""
    limit, current = (read_or_nothing(f"{folder}/memory.swap.{name}").strip() for name in ("max", "current"))
    if not limit:
        return None
    total = int(limit) if limit.isdigit() else host_swap[0]
    used = int(current) if current.isdigit() and total else 0
    return total, max(0, used - read_counters(folder).get("swapcached", 0))


def _single(number: float) -> float:
    """The number in single precision."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
