"""Clusters whose raylets are probed, each on its own host."""

from __future__ import annotations

from typing import Any

from cockpit.model import Cluster, Fault, Host, Node, Quantity, RayProcess, Snapshot
from tests.world import NOW, node, snapshot

SESSION = "session_2026-11-21_00-00-00_000000_8"


def place(number: int, *, cpus: float = 192, host_cpus: int | None = 192, ip: str = "", local: bool = False, **raylet: Any):
    """A node with its host: node 1 is the head. `raylet` are facts of its raylet."""
    one = node(number, ip=ip or f"10.0.0.{number}", resources={"CPU": Quantity(0, cpus)})
    facts = {"addresses": (f"10.0.0.{number}",), "network": f"boot net:[{number}]", **raylet}
    found = RayProcess("raylet", 20 + number, SESSION, one.id, "S", **facts)
    return one, Host(f"node{number}", (f"10.0.0.{number}",), NOW, cpus=host_cpus, nodes=(one.id or "",), rays=(found,), local=local)


def cluster(*places: tuple[Node, Host], faults: tuple[Fault, ...] = (), **more: Any) -> Snapshot:
    """A cluster of these nodes, and nothing else."""
    facts = {
        "cluster": Cluster("http://10.0.0.1:8265", "2.60.0", SESSION, reachable=True),
        "nodes": tuple(one for one, _ in places), "hosts": {host.name: host for _, host in places},
        "processes": (), "sessions": (), "jobs": (), "actors": (), "placement_groups": (), "faults": faults, **more,
    }  # fmt: skip
    return snapshot(**facts)
