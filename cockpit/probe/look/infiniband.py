"""Ports of InfiniBand and RoCE devices of this host, as /sys/class/infiniband shows them: their state, and what their links have counted.

Names and meanings: Documentation/ABI/stable/sysfs-class-infiniband of Linux. Reading a counter asks the device's firmware, which may hang.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List

from .. import trust
from .proc import make_legible

SYS = "/sys"
ERRORS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)  # fmt: skip
"""Counters of the link itself. Those of hw_counters/ count packets that were sent again, which a job that is killed causes too."""
TRAFFIC = ("port_rcv_packets", "port_xmit_packets")
MOST_PORTS = 64
"""A host has 8 to 16; with SR-IOV it may have hundreds of virtual ones."""
MOST_BYTES = 256
_NAMED = re.compile(r"^\d+: (.{1,40})$")
_PORT = re.compile(r"^[1-9]\d{0,2}$")
Fact = Dict[str, Any]


def read_ports(sys: str = SYS) -> List[Fact]:
    """All ports, at most MOST_PORTS; none where there is no such device. Raises `OSError` where that can't be told."""
    found: List[Fact] = []
    for device in _list(f"{sys}/class/infiniband"):
        for port in filter(_PORT.match, _list(f"{sys}/class/infiniband/{device}/ports")):
            if len(found) == MOST_PORTS:
                return found
            found.append(_read_port(f"{sys}/class/infiniband/{device}/ports/{port}", device, int(port)))
    return found


def _read_port(folder: str, device: str, port: int) -> Fact:
    counters = {name: value for name in (*ERRORS, *TRAFFIC) for value in _read_counters(f"{folder}/counters/{name}")}
    traffic = [counters[name] for name in TRAFFIC if name in counters]
    return {
        "device": make_legible(device),
        "port": port,
        "layer": _read_word(f"{folder}/link_layer"),
        "state": _read_named(f"{folder}/state"),
        "phys_state": _read_named(f"{folder}/phys_state"),
        "rate": _read_word(f"{folder}/rate"),
        "used": any(traffic) if traffic else None,
        "errors": {name: counters[name] for name in ERRORS if name in counters},
    }


def _list(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _read_counters(path: str) -> Iterator[int]:
    """One number; none where this device doesn't have it: a file that can't be read is one of those."""
    word = _read_word(path)
    if word is not None and word.isdigit() and len(word) <= 20:
        yield int(word)


def _read_named(path: str) -> str | None:
    """`4: ACTIVE` is ACTIVE."""
    found = _NAMED.match(_read_word(path) or "")
    return found[1] if found else None


def _read_word(path: str) -> str | None:
    try:
        return trust.read_begin(path, MOST_BYTES).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
