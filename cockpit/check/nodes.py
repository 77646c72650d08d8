"""The nodes that a job would run on: those of the Ray that runs, or else those that the preset would start."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isfinite

import msgspec
from msgspec.structs import replace

from cockpit.findings.ray_gpus import NO_DEVICES
from cockpit.model import UNKNOWN_MACHINE, Gpu, Host, Machine, Node, RayProcess, Snapshot
from cockpit.monitor.pending_reasons import Reasons, WaitFacts
from cockpit.placement import Place, scale_amount
from cockpit.presets import Preset, RayNode, SlurmStart
from cockpit.presets.allocation import NO_NODES
from cockpit.sources.ray.client import NodeFacts, StatusFacts
from cockpit.sources.ray.resources import mangle
from cockpit.text import join_first

DEVICES = "CUDA_VISIBLE_DEVICES"
AUTOMATIC = ("GPU", "CPU", "memory", "object_store_memory")
"""Ray finds out by itself how much of these there is."""


class Site(msgspec.Struct, frozen=True, dict=True):
    """Nodes as placement sees them, and what is known of the hosts below them, by the ids of the places."""

    places: tuple[Place, ...]
    nodes: Mapping[str, Node] = msgspec.field(default_factory=dict)
    machines: Mapping[str, Machine] = msgspec.field(default_factory=dict)
    """Those of the nodes."""
    hosts: Mapping[str, Host] = msgspec.field(default_factory=dict)
    planned: bool = False
    """No Ray runs: these are the nodes that the preset would start, or those of the allocation."""
    allocation: str | None = None
    """The Slurm job whose nodes these are, on which no Ray runs yet."""
    more: str | None = None
    """Where more nodes may come from: an autoscaler, or hosts of the preset that have not joined."""
    devices: Mapping[str, str] = msgspec.field(default_factory=dict)
    """CUDA_VISIBLE_DEVICES of each Ray, where it has one that is known."""
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

    def raylets(self) -> Iterator[tuple[str, RayProcess]]:
        """Each that a probe sees, by what people call its node."""
        for place, host in self.hosts.items():
            yield from ((self.title(place), ray) for ray in host.rays or () if ray.role == "raylet" and ray.node == place)

    def raylets_by(self, value: Callable[[RayProcess], str | None]) -> dict[str, list[str]]:
        """The nodes of these raylets by a value of theirs, where that is known."""
        found: dict[str, list[str]] = {}
        for name, raylet in self.raylets():
            if told := value(raylet):
                found.setdefault(told, []).append(name)
        return found

    def gpus(self, place: str) -> tuple[Gpu, ...] | None:
        """Those that Ray may hand out there, as NVML tells of them; `None` where nobody does."""
        gpus, devices = self.machines.get(place, UNKNOWN_MACHINE).gpus, self.devices.get(place)
        if gpus is None or devices is None:
            return gpus
        named = list_devices(devices)
        return tuple(gpu for gpu in gpus if any(gpu.label == name or (name and gpu.uuid.startswith(name)) for name in named))


def site_of(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    """Where the job would run; `wanted` are the resources that it asks for."""
    if snapshot.cluster.reachable:
        told = any(node.id for node in snapshot.nodes or ())
        return _read_site(preset, snapshot, wanted) if told else Site((), why="Ray has not reported its nodes")
    if isinstance(preset.ray, SlurmStart):
        return Site((), why=NO_NODES)
    if preset.ray is not None:
        return _plan_site(preset.nodes, preset.ray.env, snapshot, wanted)
    lives = next(
        (f", although a Ray runs on {snapshot.index.titles.of_host(session.host)}" for session in snapshot.sessions or () if session.live),
        "",
    )
    if (job := snapshot.allocation) is not None and job.nodes and not lives:
        return replace(_plan_site([RayNode(node.name) for node in job.nodes], {}, snapshot, wanted), allocation=job.job)
    at = f" at {snapshot.cluster.address}" if snapshot.cluster.address else ""
    return Site((), why=f"no Ray dashboard answers{at}{lives}")


def _read_site(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    known_nodes = tuple(node for node in snapshot.nodes or () if node.id)
    nodes = {node.id: node for node in known_nodes if node.id and node.state == "ALIVE"}
    hosts = {node: host for node, host in snapshot.index.hosts_by_node.items() if node in nodes}
    failed = {fault.source for fault in snapshot.faults}
    why = "Ray's node list is old" if failed & {"ray.nodes", "ray.gcs"} else None
    world = Reasons(_facts(snapshot, known_nodes, old="ray.status" in failed)).world
    known = {name for node in nodes.values() for name in node.resources}
    if not why and (not world.known or any(mangle(name) in known for name in wanted if mangle(name) != name and name not in known)):
        why = "Ray has not reported its nodes' resources yet"
    odd = [name for node in nodes.values() for name in sorted(wanted) if name in node.resources and node.resources[name].total is None]
    if not why and odd:
        why = f"Ray does not report how much {odd[0]} there is"
    devices = {ray.node: ray.visible for host in hosts.values() for ray in host.rays or () if ray.node in hosts and ray.visible is not None}
    more = "the autoscaler may add nodes" if snapshot.growing else _absent(preset, nodes.values())
    return Site(world.places, nodes, _machines(nodes, snapshot), hosts, more=more, devices=devices, why=why)


def _machines(nodes: Mapping[str, Node], snapshot: Snapshot) -> Mapping[str, Machine]:
    return {place: snapshot.index.machine(node) for place, node in nodes.items()}


def _absent(preset: Preset, nodes: Iterable[Node]) -> str | None:
    """Hosts that the preset counts among its cluster, and that Ray does not have."""
    known = tuple(nodes)
    absent = [start.host for start in preset.nodes if _node(start, known) is None]
    if not absent or len(absent) == len(preset.nodes):
        return None
    return f"{join_first(absent)} of the preset {'has' if len(absent) == 1 else 'have'} not joined"


def _facts(snapshot: Snapshot, known_nodes: tuple[Node, ...], *, old: bool) -> WaitFacts:
    """What Ray said, in the words of who judges it."""
    nodes = NodeFacts(nodes=known_nodes, workers=(), holders=(), growing=snapshot.growing)
    status = StatusFacts(usage=None, demand=None)
    asked = None if old else snapshot.taken
    return WaitFacts(nodes, status, snapshot.actors or (), snapshot.placement_groups, None, snapshot.jobs or (), asked)


def _plan_site(starts: Sequence[RayNode], env: Mapping[str, str], snapshot: Snapshot, wanted: Collection[str]) -> Site:
    nodes = {start.host: node for start in starts if (node := _node(start, snapshot.nodes or ()))}
    hosts = {start.host: host for start in starts if (host := find_host(start, snapshot.hosts.values()))}
    machines, places = _machines(nodes, snapshot), []
    for start in starts:
        host = hosts.get(start.host)
        total = _resources(start, env.get(DEVICES), host)
        if lacking := [name for name in sorted(wanted) if name not in total and name in AUTOMATIC]:
            why = f"the {lacking[0]} resource of {start.host} is unknown: no flag of its `ray start` sets it, and the host is not probed"
            return Site((), nodes, machines, hosts, planned=True, why=why)
        labels = {str(key): str(value) for key, value in _map(start.flags.get("labels")).items()}
        places.append(Place(start.host, start.host, total, dict.fromkeys(total, 0), labels))
    seen = env.get(DEVICES)
    devices = {} if seen is None or "$" in seen else {place.id: seen for place in places}
    return Site(tuple(places), nodes, machines, hosts, planned=True, devices=devices)


def _resources(start: RayNode, devices: str | None, host: Host | None) -> dict[str, int]:
    """No more GPUs than there are; what is not known is left out."""
    flags = start.flags
    gpus, cpus = flags.get("num_gpus"), flags.get("num_cpus")
    there = len(host.gpus) if host is not None and host.gpus is not None else None
    seen = None if devices is None or "$" in devices else len(list_devices(devices))
    counts = [int(number) for number in (gpus, there, seen) if number is not None]
    given = {
        **_map(flags.get("resources")),
        "GPU": min(counts) if counts else None,
        "CPU": cpus if cpus is not None else host.cpus if host else None,
        "memory": flags.get("memory"),
        "object_store_memory": flags.get("object_store_memory"),
    }
    return {name: scale_amount(amount) for name, amount in given.items() if isinstance(amount, (int, float)) and isfinite(amount)}


def list_devices(devices: str) -> list[str]:
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


def find_host(start: RayNode, hosts: Iterable[Host]) -> Host | None:
    """The probed host that the preset means; `None`: it is not probed."""
    names = _names(start)
    return next((host for host in hosts if names & {host.name, *host.addresses}), None)
