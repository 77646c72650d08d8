"""Reads the surroundings of a raylet's workers: limits of CPU and locked memory, RDMA devices, addresses, the name of the host."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Dict, Tuple

from .. import trust
from .cgroups import cpu_limit, folders_above
from .network import read_addresses
from .proc import has_capability, is_in_our_namespace, make_legible, namespace_id
from .processes import ScannedProcess
from .roots import list_folder, resolve_links, root_of

PINS_ANY_AMOUNT = 1 << 14
"""CAP_IPC_LOCK: `ulimit -l` does not apply to a process with it (ib_umem_get in drivers/infiniband/core/umem.c)."""
MAX_DEVICES = 64
MAX_ENTRIES = 1024
"""Entries read of a folder of devices: any user can name a program raylet and choose its root. With SR-IOV there may be hundreds."""
LONGEST_NAME = 256
MAX_HOSTS_BYTES = 1 << 20
"""Bytes of /etc/hosts that are read: 10,000 hosts take 400 KB."""
MAX_LINE_CHARS = 200
"""Characters of its line that are returned."""


def read_surroundings(process: ScannedProcess, locked: int | None) -> Dict[str, Any]:
    """Facts by the names in `RayProcess` of cockpit.model. `locked`: the raylet's limit of locked memory in bytes.

    Everything is read again each time: limits, addresses and /etc/hosts may change while the raylet lives.
    """
    # The files of the raylet itself; in a container its name is in /etc/hostname.
    pid, root = process.pid, root_of(process)
    name = os.uname().nodename if is_in_our_namespace(pid, "uts") else _read_file(root, "/etc/hostname", LONGEST_NAME).strip()
    line = find_loopback_line(_read_file(root, "/etc/hosts", MAX_HOSTS_BYTES), name) if name else None
    return {
        "cpu_limit": cpu_limit(pid, folders_above(pid, "cpu"))._asdict(),
        "locked_memory": None if has_capability(pid, PINS_ANY_AMOUNT) else locked,
        "rdma": rdma_devices(root),
        "addresses": read_addresses(pid),
        "network": namespace_id(pid, "net"),
        "loopback_line": line and make_legible(line),
    }


def find_loopback_line(hosts: str, name: str) -> str | None:
    """The first line of the text of /etc/hosts that gives `name` an address of loopback, with single blanks; `None`: there is none.

    glibc reads /etc/hosts before it asks any server. Other lines with that name don't help: getaddrinfo returns the addresses of loopback
    first (RFC 6724, rule 8), and Gloo takes the first address that it can bind to (createDefaultDevice in PyTorch's ProcessGroupGloo.cpp).
    """
    wanted = name.lower()
    for line in hosts.splitlines():
        words = line.partition("#")[0].split()
        if wanted in (word.lower() for word in words[1:]) and words[0].startswith(("127.", "::1")):
            return " ".join(words)[:MAX_LINE_CHARS]
    return None


def rdma_devices(root: str) -> Tuple[str, ...] | None:
    """The devices that can be opened below this root. A container sees all names, but needs device files (`--device=/dev/infiniband`)."""
    try:
        if not any(name.startswith("uverbs") for name in list_folder(root, "/dev/infiniband", MAX_ENTRIES)):
            return ()
        return tuple(sorted(map(make_legible, list_folder(root, "/sys/class/infiniband", MAX_ENTRIES))))[:MAX_DEVICES]
    except FileNotFoundError:
        return ()
    except OSError:
        return None


def _read_file(root: str, path: str, most: int) -> str:
    """The beginning of a file below this root; empty if it can't be read."""
    with suppress(OSError):
        return trust.read_begin(root + resolve_links(root, path), most).decode("utf-8", "replace")
    return ""
