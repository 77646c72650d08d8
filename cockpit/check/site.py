"""The nodes that a job would run on: those of the Ray that runs, or else those that the preset would start."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

from cockpit.findings.gpus import NO_DEVICES
from cockpit.model import Host, Node, Snapshot
from cockpit.placement import Place, fixed
from cockpit.presets import Preset, RayNode
from cockpit.reasons import Facts, Reasons
from cockpit.sources.ray import NodeFacts, StatusFacts
from cockpit.sources.ray_names import mangle

DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Site:
    """Nodes as placement sees them, and what is known of the hosts below them, by the ids of the places."""

    places: tuple[Place, ...]
    nodes: Mapping[str, Node] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    planned: bool = False
    """No Ray runs: these are the nodes that the preset would start."""
    growing: bool = False
    """An autoscaler could add nodes."""
    why: str | None = None
    """Why nothing can be said of what fits; `None`: it can."""

    @cached_property
    def by_id(self) -> Mapping[str, Place]:
        """The places."""
        return {place.id: place for place in self.places}

    def title(self, place: str) -> str:
        """What people call a node."""
        known = self.by_id.get(place)
        return known.name if known else place


def site_of(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    """Where the job would run; `wanted` are the resources that it asks for."""
    if snapshot.cluster.reachable:
        told = any(node.id for node in snapshot.nodes or ())
        return _running(snapshot, wanted) if told else Site((), why="Ray has not told of its nodes")
    if preset.ray is not None:
        return _planned(preset, snapshot, wanted)
    at = f" at {snapshot.cluster.address}" if snapshot.cluster.address else ""
    lives = next((f", though a Ray lives on {session.host}" for session in snapshot.sessions or () if session.live), "")
    return Site((), why=f"no Ray dashboard answers{at}{lives}")


def _running(snapshot: Snapshot, wanted: Collection[str]) -> Site:
    nodes = {node.id: node for node in snapshot.nodes or () if node.id and node.state == "ALIVE"}
    hosts = {node: host for host in snapshot.hosts.values() for node in host.nodes}
    failed = {fault.source for fault in snapshot.faults}
    why = "what Ray said of its nodes is old" if failed & {"ray.nodes", "ray.gcs"} else None
    world = Reasons(_facts(snapshot, old="ray.status" in failed)).world
    known = {name for node in nodes.values() for name in node.resources}
    if not why and (not world.known or any(mangle(name) in known for name in wanted if mangle(name) != name and name not in known)):
        why = "Ray has not told yet what its nodes have"
    return Site(world.places, nodes, hosts, growing=snapshot.growing, why=why)


def _facts(snapshot: Snapshot, *, old: bool) -> Facts:
    """What Ray said, in the words of who judges it."""
    nodes = NodeFacts(nodes=tuple(node for node in snapshot.nodes or () if node.id), workers=(), holders=(), growing=snapshot.growing)
    status = StatusFacts(usage=None, totals=None, demand=None)
    asked = None if old else snapshot.taken
    return Facts(nodes, status, snapshot.actors or (), snapshot.placement_groups, None, snapshot.jobs or (), asked)


def _planned(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    starts = preset.ray.nodes if preset.ray else ()
    env = preset.ray.env if preset.ray else {}
    nodes = {start.host: node for start in starts if (node := _node(start, snapshot.nodes or ()))}
    hosts = {start.host: host for start in starts if (host := _host(start, snapshot.hosts.values()))}
    places = []
    for start in starts:
        host = hosts.get(start.host)
        total = _resources(start, env.get(DEVICES), host)
        if lacking := [name for name in sorted(wanted) if name not in total and _automatic(name)]:
            why = f"how much {lacking[0]} {start.host} would have is not known: the preset doesn't say, and nobody looks there"
            return Site((), nodes, hosts, planned=True, why=why)
        labels = {str(key): str(value) for key, value in _map(start.flags.get("labels")).items()}
        places.append(Place(start.host, start.host, total, dict.fromkeys(total, 0), labels))
    return Site(tuple(places), nodes, hosts, planned=True)


def _automatic(name: str) -> bool:
    """Whether Ray finds out by itself how much of it there is."""
    return name in ("GPU", "CPU", "memory", "object_store_memory")


def _resources(start: RayNode, devices: str | None, host: Host | None) -> dict[str, int]:
    """No more GPUs than there are; what is not known is left out."""
    flags = start.flags
    gpus, cpus = flags.get("num_gpus"), flags.get("num_cpus")
    there = len(host.gpus) if host is not None and host.gpus is not None else None
    seen = None if devices is None or "$" in devices else len(listed(devices))
    counts = [int(number) for number in (gpus, there, seen) if number is not None]
    given = {
        **_map(flags.get("resources")),
        "GPU": min(counts) if counts else None,
        "CPU": cpus if cpus is not None else host.cpus if host else None,
        "memory": flags.get("memory"),
        "object_store_memory": flags.get("object_store_memory"),
    }
    return {name: fixed(amount) for name, amount in given.items() if isinstance(amount, (int, float)) and isfinite(amount)}


def listed(devices: str) -> list[str]:
    """The devices that CUDA_VISIBLE_DEVICES names."""
    named = [each.strip() for each in devices.split(",")]
    return [] if named[0].lower() in NO_DEVICES else named


def _map(written: object) -> Mapping[str, object]:
    try:
        read = json.loads(written) if isinstance(written, str) else {}
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _names(start: RayNode) -> set[str]:
    return {name for name in (start.host, start.address, start.flags.get("node_ip_address")) if isinstance(name, str)}


def _node(start: RayNode, nodes: Iterable[Node]) -> Node | None:
    names = _names(start)
    found = [node for node in nodes if names & {node.host, node.name, node.ip}]
    return next((node for node in found if node.id is None), found[0] if found else None)


def _host(start: RayNode, hosts: Iterable[Host]) -> Host | None:
    names = _names(start)
    return next((host for host in hosts if names & {host.name, *host.addresses}), None)
