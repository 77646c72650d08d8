"""What the workers of a raylet find where it runs: limits of CPUs and locked memory, RDMA devices, addresses, the name of its host."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple, Tuple

from .. import trust
from .cgroups import CGROUPS, cgroup_folders
from .cpus import CpuLimit, cpu_limit
from .names import MOST_BYTES, find_loopback_line
from .network import network_of, read_addresses
from .proc import has_capability, is_in_our_namespace, make_legible, read_or_nothing
from .processes import ScannedProcess
from .roots import list_folder, resolve_links, root_of

PINS_ANY_AMOUNT = 1 << 14
"""CAP_IPC_LOCK: for whoever has it `ulimit -l` doesn't count (ib_umem_get in drivers/infiniband/core/umem.c)."""
MOST_DEVICES = 64
MOST_ENTRIES = 1024
"""Of a folder of devices: whoever calls a program raylet chooses its root. With SR-IOV a host may have hundreds of devices."""
LONGEST_NAME = 256


class RaySurroundings(NamedTuple):
    """What a raylet's workers find: limits, devices and the network. `None` of each: it can't be told."""

    cpu_limit: CpuLimit | None = None
    locked_memory: int | None = None
    """Bytes that a worker may pin (`ulimit -l`, the soft limit); `None` also where it is unlimited or doesn't count."""
    rdma: Tuple[str, ...] | None = None
    """Names of the InfiniBand and RDMA devices that it may open."""
    addresses: Tuple[str, ...] | None = None
    """The addresses of its network but those of loopback."""
    network: str | None = None
    """Its network namespace, told from that of every other host and container."""
    loopback_line: str | None = None
    """The line of its /etc/hosts by which its host's own name leads to loopback; `None` also where there is none."""


def read_surroundings(process: ScannedProcess, locked: int | None) -> RaySurroundings:
    """Of a raylet with this limit of locked memory, in bytes.

    Read again each time: limits, addresses and /etc/hosts can be changed while it lives.
    """
    pid = process.pid
    return RaySurroundings(
        cpu_limit=cpu_limit(pid, cgroup_folders(read_or_nothing(f"/proc/{pid}/cgroup"), "cpu", CGROUPS)),
        locked_memory=None if has_capability(pid, PINS_ANY_AMOUNT) else locked,
        rdma=rdma_devices(root_of(process)),
        addresses=read_addresses(pid),
        network=network_of(pid),
        loopback_line=_read_loopback_line(process),
    )


def rdma_devices(root: str) -> Tuple[str, ...] | None:
    """Those below a root that can be opened: a container sees the names of all, but needs a file for each (`--device=/dev/infiniband`)."""
    try:
        if not any(name.startswith("uverbs") for name in list_folder(root, "/dev/infiniband", MOST_ENTRIES)):
            return ()
        return tuple(sorted(map(make_legible, list_folder(root, "/sys/class/infiniband", MOST_ENTRIES))))[:MOST_DEVICES]
    except FileNotFoundError:
        return ()
    except OSError:
        return None


def _read_loopback_line(process: ScannedProcess) -> str | None:
    """By the files that it sees itself; in a container its name is in /etc/hostname."""
    root, is_ours = root_of(process), is_in_our_namespace(process.pid, "uts")
    name = os.uname().nodename if is_ours else _read_file(root, "/etc/hostname", LONGEST_NAME).strip()
    line = find_loopback_line(_read_file(root, "/etc/hosts", MOST_BYTES), name) if name else None
    return line and make_legible(line)


def _read_file(root: str, path: str, most: int) -> str:
    """How a file below that root begins; empty where it can't be read."""
    with suppress(OSError):
        return trust.read_begin(root + resolve_links(root, path), most).decode("utf-8", "replace")
    return ""
