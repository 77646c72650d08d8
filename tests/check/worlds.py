"""Small clusters, presets and budgets for the tests of `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cockpit.budget import Budget, Group
from cockpit.check.check import check
from cockpit.check.result import CheckOutcome
from cockpit.model import Amount, Disk, Hold, Host, HostMemory, Quantity, RayProcess, Snapshot
from cockpit.presets import JobSpec, Needs, Preset, RayNode, RayStart
from tests.world import GIB, NOW, gpu, node, process, snapshot

NAMES = ("head", "w1", "w2", "w3")


def machine(number: int, taken: float = 0, busy: float = 0, *, has: int = 8, cores: int = 16, **more: Any):
    """A node of 8 empty GPUs and 16 CPUs, so many of them handed out."""
    facts = {
        "host": NAMES[number - 1] if number <= len(NAMES) else f"n{number}",
        "resources": {"GPU": Quantity(taken, has), "CPU": Quantity(busy, cores)},
        "gpus": tuple(gpu(index, 0, uuid=f"GPU-{number}-{index}") for index in range(has)),
        "memory": HostMemory(100 * GIB, 1000 * GIB, 950 * GIB),
        "probed": True,
        **more,
    }
    return node(number, **facts)


def looked(each, **more: Any) -> Host:
    """A node's host as a probe reports it."""
    raylet = RayProcess("raylet", 10, node=each.id, ray="2.60.0", python="3.11.9", files=100, files_limit=65536)
    facts = {"gpus": each.agent.gpus, "shm": each.agent.shm, "processes": (), "nodes": (each.id,), "rays": (raylet,), **more}
    return Host(each.host, (each.ip,), NOW, **facts)


def cluster(*nodes, **more: Any) -> Snapshot:
    """A cluster of which every host is looked at, and where nothing runs or waits."""
    hosts = {each.host: looked(each) for each in nodes}
    calm = {"placement_groups": (), "actors": (), "jobs": (), "demand": (), "processes": (), "faults": (), "sessions": (), "hosts": hosts}
    return snapshot(nodes=nodes, **{**calm, **more})


def down(*hosts: Host, **more: Any) -> Snapshot:
    """No Ray runs; these hosts are looked at."""
    bare = (
        node(number, id=None, host=host.name, ip=host.addresses[0], resources={}, gpus=host.gpus, probed=True)
        for number, host in enumerate(hosts, 1)
    )
    calm = cluster(*bare, hosts={host.name: host for host in hosts})
    return replace(calm, cluster=replace(calm.cluster, reachable=False), **more)


def group(name: str, number: int, strategy: str | None = "PACK", **needs: float) -> Group:
    return Group(name, ((needs or {"GPU": 1.0, "CPU": 1.0}, number),), strategy)


def preset(*, needs: Needs | None = None, ray: RayStart | None = None, **job: Any) -> Preset:
    return Preset("ppo", Path("/nowhere/ppo.yaml"), ray=ray, job=JobSpec("python train.py", **job), needs=needs or Needs())


def start(*nodes: RayNode, **env: str) -> RayStart:
    return RayStart(nodes[0], nodes[1:], env)


def asked(*groups: Group, **more: Any) -> Budget:
    return Budget(more.pop("framework", "OpenRLHF"), groups=groups, **more)


def of(world: Snapshot, *groups: Group, needs: Needs | None = None, **more: Any) -> CheckOutcome:
    """A job of these groups on this cluster."""
    return check(preset(needs=needs), asked(*groups, **more), world)


def lines_of(result: CheckOutcome, *levels: str) -> list[str]:
    """The texts of these levels."""
    return [line.text for line in result.lines if line.level in levels]


__all__ = ["GIB", "NOW", "Amount", "Disk", "Hold", "HostMemory", "gpu", "process"]
