"""Reads the state and the error counters of this host's InfiniBand and RoCE ports from /sys/class/infiniband.

Names and meanings: Documentation/ABI/stable/sysfs-class-infiniband of Linux. Reading a counter asks the device's firmware, which may hang.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List

from .. import trust
from .proc import make_legible

SYS = "/sys"
ERRORS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)  # fmt: skip
"""Counters of the link itself. The counters in hw_counters/ are not read: they count resent packets, which a killed job causes too."""
TRAFFIC = ("port_rcv_packets", "port_xmit_packets")
MAX_PORTS = 64
"""A host has 8 to 16 ports; with SR-IOV it may have hundreds of virtual ones."""
MAX_FILE_BYTES = 256
_NAMED_NUMBER = re.compile(r"^\d+: (.{1,40})$")
"""A state, such as `4: ACTIVE`."""
_PORT = re.compile(r"^[1-9]\d{0,2}$")
Fact = Dict[str, Any]


def read_ports(sys: str = SYS) -> List[Fact]:
    """All ports, at most MAX_PORTS; empty if there is no such device. Raises `OSError` if the devices can't be listed."""
    found: List[Fact] = []
    for device in _list(f"{sys}/class/infiniband"):
        for port in filter(_PORT.match, _list(f"{sys}/class/infiniband/{device}/ports")):
            if len(found) == MAX_PORTS:
                return found
            folder = f"{sys}/class/infiniband/{device}/ports/{port}"
            # A device lacks some counters: their files are absent or can't be read.
            words = {name: _read_word(f"{folder}/counters/{name}") for name in (*ERRORS, *TRAFFIC)}
            counters = {name: int(word) for name, word in words.items() if word is not None and word.isdigit() and len(word) <= 20}
            traffic = [counters[name] for name in TRAFFIC if name in counters]
            state, phys_state = (_NAMED_NUMBER.match(_read_word(f"{folder}/{name}") or "") for name in ("state", "phys_state"))
            found.append(
                {
                    "device": make_legible(device),
                    "port": int(port),
                    "layer": _read_word(f"{folder}/link_layer"),
                    "state": state[1] if state else None,
                    "phys_state": phys_state[1] if phys_state else None,
                    "rate": _read_word(f"{folder}/rate"),
                    "used": any(traffic) if traffic else None,
                    "errors": {name: counters[name] for name in ERRORS if name in counters},
                }
            )
    return found


def _list(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _read_word(path: str) -> str | None:
    try:
        return trust.read_begin(path, MAX_FILE_BYTES).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
