"""Reads the TCP ports that a raylet or GCS uses, and the ports that the kernel gives to outgoing connections of this host."""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from .origin import flag, to_number
from .proc import read_or_nothing

PortRange = Tuple[int, int]
"""The first and the last port of the range."""
MAX_RANGES = 200
"""Ranges in a sample. If there are more, none is reported: counting half of them would give wrong numbers."""
LOCAL_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
_FIXED = {
    "raylet": (("node manager", "--node_manager_port"), ("object manager", "--object_manager_port")),
    "gcs_server": (("GCS", "--gcs_server_port"),),
}
"""Fixed ports by the part that has them; 0 means any free port (Ray 2.9 to 2.60, `start_raylet` in ray/_private/services.py)."""


class RayPorts(NamedTuple):
    """The ports of one raylet or GCS."""

    workers: Tuple[PortRange, ...] = ()
    """Of a raylet: the ports for its workers and drivers, one for each; empty: any port."""
    fixed: Mapping[str, int] = MappingProxyType({})
    local: PortRange | None = None
    """net.ipv4.ip_local_port_range of that process; `None`: it is in another network namespace, or unknown."""
    reserved: Tuple[PortRange, ...] = ()
    """net.ipv4.ip_local_reserved_ports: the kernel never gives these to outgoing connections."""


def read_ray_ports(role: str, argv: Sequence[str], *, in_our_network: bool) -> RayPorts:
    """The ports in its command line, and the kernel's settings of now."""
    fixed = {name: port for name, option in _FIXED.get(role, ()) for port in [_port(flag(argv, option))] if port}
    workers = worker_ports(argv) if role == "raylet" else ()
    if not in_our_network:
        return RayPorts(workers, fixed)
    low_high = read_or_nothing(LOCAL_RANGE).split()
    local = (int(low_high[0]), int(low_high[1])) if len(low_high) == 2 and all(word.isdigit() for word in low_high) else None
    reserved = parse_ranges(read_or_nothing(RESERVED).strip())
    return RayPorts(workers, fixed) if reserved is None else RayPorts(workers, fixed, local, reserved)


def worker_ports(argv: Sequence[str]) -> Tuple[PortRange, ...]:
    """A list of ports overrides the range, and a range from 0 means none (`WorkerPool` in src/ray/raylet/worker_pool.cc)."""
    listed = flag(argv, "--worker_port_list")
    if listed:
        return join_ports(port for word in listed.split(",") for port in [_port(word)] if port)
    low, high = (_port(flag(argv, name)) for name in ("--min_worker_port", "--max_worker_port"))
    return ((low, high or 65535),) if low and (not high or high >= low) else ()


def join_ports(ports: Iterable[int]) -> Tuple[PortRange, ...]:
    """The fewest ranges with exactly these ports; empty if there are too many."""
    found: List[PortRange] = []
    for port in sorted(set(ports)):
        if found and port == found[-1][1] + 1:
            found[-1] = found[-1][0], port
        else:
            found.append((port, port))
    return tuple(found) if len(found) <= MAX_RANGES else ()


def parse_ranges(text: str) -> Tuple[PortRange, ...] | None:
    """Parses `8080,9000-9005`, the kernel's notation; `None` if there are too many."""
    if text.count(",") >= MAX_RANGES:
        return None
    found = []
    for word in text.split(","):
        first, dash, last = word.partition("-")
        low, high = _port(first), _port(last if dash else first)
        if low and high and low <= high:
            found.append((low, high))
    return tuple(found)


def _port(word: str | None) -> int | None:
    number = to_number(word)
    return number if number and number < 65536 else None
