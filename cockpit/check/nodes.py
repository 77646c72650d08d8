"""Finds the nodes that a job would run on: the nodes of the running Ray, or else those that the preset would start."""

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
from cockpit.placement import PlacementNode, scale_amount
from cockpit.presets import Preset, RayNode, SlurmStart
from cockpit.presets.allocation import NO_NODES
from cockpit.sources.ray.client import NodeFacts, StatusFacts
from cockpit.sources.ray.resources import mangle
from cockpit.text import join_first

DEVICES = "CUDA_VISIBLE_DEVICES"
AUTOMATIC = ("GPU", "CPU", "memory", "object_store_memory")
"""Ray detects the amounts of these resources itself."""
OBJECT_STORE_SHARE, MAX_OBJECT_STORE_BYTES = 0.3, 200_000_000_000
"""The default size of Ray's object store: a share of the free memory, and at most so much. A small /dev/shm makes it smaller."""


class Site(msgspec.Struct, frozen=True, dict=True):
    """The nodes for a placement, and the facts about them and their hosts. The keys are ids of nodes."""

    placement_nodes: tuple[PlacementNode, ...]
    nodes: Mapping[str, Node] = msgspec.field(default_factory=dict)
    machines: Mapping[str, Machine] = msgspec.field(default_factory=dict)
    """The machines of the nodes."""
    hosts: Mapping[str, Host] = msgspec.field(default_factory=dict)
    planned: bool = False
    """No Ray runs: the preset would start these nodes, or they belong to the allocation."""
    allocation: str | None = None
    """The Slurm job that has these nodes, if no Ray runs on them yet."""
    more: str | None = None
    """The source of more nodes: an autoscaler, or hosts of the preset that have not joined."""
    devices: Mapping[str, str] = msgspec.field(default_factory=dict)
    """CUDA_VISIBLE_DEVICES of each raylet, if it is known."""
    why: str | None = None
    """Why the placement is unknown; `None`: it is known."""

    @cached_property
    def by_id(self) -> Mapping[str, PlacementNode]:
        """The nodes of the placement by their ids."""
        return {node.id: node for node in self.placement_nodes}

    def title(self, node_id: str) -> str:
        """Return the node's name for people."""
        known = self.by_id.get(node_id)
        return known.name if known else node_id

    def raylets(self) -> Iterator[tuple[str, RayProcess]]:
        """Yield each raylet that a probe sees, with the title of its node."""
        for node_id, host in self.hosts.items():
            yield from ((self.title(node_id), ray) for ray in host.rays or () if ray.role == "raylet" and ray.node == node_id)

    def raylets_by(self, value: Callable[[RayProcess], str | None]) -> dict[str, list[str]]:
        """Return the titles of the raylets' nodes, grouped by a value of the raylet; unknown values are left out."""
        found: dict[str, list[str]] = {}
        for name, raylet in self.raylets():
            if known := value(raylet):
                found.setdefault(known, []).append(name)
        return found

    def gpus(self, node_id: str) -> tuple[Gpu, ...] | None:
        """Return the node's GPUs that Ray may assign; `None` if they are unknown."""
        gpus, devices = self.machines.get(node_id, UNKNOWN_MACHINE).gpus, self.devices.get(node_id)
        if gpus is None or devices is None:
            return gpus
        named = list_devices(devices)
        return tuple(gpu for gpu in gpus if any(gpu.label == name or (name and gpu.uuid.startswith(name)) for name in named))


def site_of(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    """Return the nodes that the job would run on. `wanted` has the resources that it asks for."""
    if snapshot.cluster.reachable:
        is_known = any(node.id for node in snapshot.nodes or ())
        return _running_site(preset, snapshot, wanted) if is_known else Site((), why="Ray has not reported its nodes")
    if isinstance(preset.ray, SlurmStart):
        return Site((), why=NO_NODES)
    if preset.ray is not None:
        return _planned_site(preset.nodes, preset.ray.env, snapshot, wanted)
    titles = snapshot.index.titles
    live = next((f", although a Ray runs on {titles.of_host(session.host)}" for session in snapshot.sessions or () if session.live), "")
    if (job := snapshot.allocation) is not None and job.nodes and not live:
        return replace(_planned_site([RayNode(node.name) for node in job.nodes], {}, snapshot, wanted), allocation=job.job)
    at = f" at {snapshot.cluster.address}" if snapshot.cluster.address else ""
    return Site((), why=f"no Ray dashboard answers{at}{live}")


def _running_site(preset: Preset, snapshot: Snapshot, wanted: Collection[str]) -> Site:
    """Return the nodes of the running Ray."""
    known_nodes = tuple(node for node in snapshot.nodes or () if node.id)
    nodes = {node.id: node for node in known_nodes if node.id and node.state == "ALIVE"}
    hosts = {node: host for node, host in snapshot.index.hosts_by_node.items() if node in nodes}
    failed = {fault.source for fault in snapshot.faults}

    # The nodes with their resources in use, as the reasons for waiting see them.
    node_facts = NodeFacts(nodes=known_nodes, workers=(), holders=(), growing=snapshot.growing)
    taken = None if "ray.status" in failed else snapshot.taken
    actors, jobs = snapshot.actors or (), snapshot.jobs or ()
    status = StatusFacts(usage=None, demand=None)
    world = Reasons(WaitFacts(node_facts, status, actors, snapshot.placement_groups, None, jobs, taken)).nodes

    # Why nothing can be said about the placement.
    why = "Ray's node list is old" if failed & {"ray.nodes", "ray.gcs"} else None
    known = {name for node in nodes.values() for name in node.resources}
    if not why and (not world.known or any(mangle(name) in known for name in wanted if mangle(name) != name and name not in known)):
        why = "Ray has not reported its nodes' resources yet"
    odd = [name for node in nodes.values() for name in sorted(wanted) if name in node.resources and node.resources[name].total is None]
    if not why and odd:
        why = f"Ray does not report how much {odd[0]} there is"

    # More nodes may come from the autoscaler, or be hosts of the preset that have not joined.
    more = "the autoscaler may add nodes" if snapshot.growing else None
    absent = [start.host for start in preset.nodes if _find_node(start, nodes.values()) is None]
    if more is None and absent and len(absent) < len(preset.nodes):
        more = f"{join_first(absent)} of the preset {'has' if len(absent) == 1 else 'have'} not joined"
    devices = {ray.node: ray.visible for host in hosts.values() for ray in host.rays or () if ray.node in hosts and ray.visible is not None}
    return Site(world.nodes, nodes, _machines(nodes, snapshot), hosts, more=more, devices=devices, why=why)


def _machines(nodes: Mapping[str, Node], snapshot: Snapshot) -> Mapping[str, Machine]:
    return {node_id: snapshot.index.machine(node) for node_id, node in nodes.items()}


def _planned_site(starts: Sequence[RayNode], env: Mapping[str, str], snapshot: Snapshot, wanted: Collection[str]) -> Site:
    """Return the nodes that would be started on these hosts."""
    nodes = {start.host: node for start in starts if (node := _find_node(start, snapshot.nodes or ()))}
    hosts = {start.host: host for start in starts if (host := find_host(start, snapshot.hosts.values()))}
    machines, planned_nodes = _machines(nodes, snapshot), []
    for start in starts:
        host = hosts.get(start.host)
        total = _planned_resources(start, env.get(DEVICES), host)
        if lacking := [name for name in sorted(wanted) if name not in total and name in AUTOMATIC]:
            why = f"the {lacking[0]} resource of {start.host} is unknown: no flag of its `ray start` sets it, and the host is not probed"
            return Site((), nodes, machines, hosts, planned=True, why=why)
        labels = {str(key): str(value) for key, value in _read_map(start.flags.get("labels")).items()}
        planned_nodes.append(PlacementNode(start.host, start.host, total, dict.fromkeys(total, 0), labels))
    visible = env.get(DEVICES)
    devices = {} if visible is None or "$" in visible else {node.id: visible for node in planned_nodes}
    return Site(tuple(planned_nodes), nodes, machines, hosts, planned=True, devices=devices)


def _planned_resources(start: RayNode, devices: str | None, host: Host | None) -> dict[str, int]:
    """Return the resources that the node would have, with no more GPUs than the host has; unknown ones are left out."""
    flags = start.flags
    gpus, cpus = flags.get("num_gpus"), flags.get("num_cpus")
    on_host = len(host.gpus) if host is not None and host.gpus is not None else None
    visible = None if devices is None or "$" in devices else len(list_devices(devices))
    counts = [int(number) for number in (gpus, on_host, visible) if number is not None]
    given = {
        **_read_map(flags.get("resources")),
        "GPU": min(counts) if counts else None,
        "CPU": cpus if cpus is not None else host.cpus if host else None,
        "memory": flags.get("memory", _default_memory(start, host)),
        "object_store_memory": flags.get("object_store_memory"),
    }
    return {name: scale_amount(amount) for name, amount in given.items() if isinstance(amount, (int, float)) and isfinite(amount)}


def _default_memory(start: RayNode, host: Host | None) -> float | None:
    """What Ray takes as `memory` without a flag: what is free, without its object store (`resource_and_label_spec.py` of Ray 2.60)."""
    memory = host.memory if host else None
    if memory is None or memory.total is None or memory.used is None:
        return None
    free = memory.total - memory.used
    given = start.flags.get("object_store_memory")
    return max(0.0, free - (given if isinstance(given, int | float) else min(OBJECT_STORE_SHARE * free, MAX_OBJECT_STORE_BYTES)))


def list_devices(devices: str) -> list[str]:
    """Return the devices that CUDA_VISIBLE_DEVICES names."""
    named = [each.strip() for each in devices.split(",")]
    return [] if named[0].lower() in NO_DEVICES else named


def _read_map(written: object) -> Mapping[str, object]:
    """Read a flag with a JSON object; anything else gives an empty one."""
    try:
        read = json.loads(written) if isinstance(written, str) else {}
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _names(start: RayNode) -> set[str]:
    return {name for name in (start.host, start.address, start.flags.get("node_ip_address")) if isinstance(name, str)}


def _find_node(start: RayNode, nodes: Iterable[Node]) -> Node | None:
    """Return the node that the preset names; one without an id, which only a probe knows, goes first."""
    names = _names(start)
    found = [node for node in nodes if names & {node.host, node.name, node.ip}]
    return next((node for node in found if node.id is None), found[0] if found else None)


def find_host(start: RayNode, hosts: Iterable[Host]) -> Host | None:
    """Return the host that the preset names; `None` if it is not probed."""
    names = _names(start)
    return next((host for host in hosts if names & {host.name, *host.addresses}), None)
