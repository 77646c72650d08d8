"""What Ray says and what probes say of the same things, made into one Snapshot.

Ray knows owners, probes know what is really there. A probe on a host wins on everything physical; Ray wins on who a process belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import (
    AgentReport,
    Amount,
    Cluster,
    ClusterIndex,
    Fault,
    Host,
    Node,
    OomKill,
    Quantity,
    RayCluster,
    Session,
    Snapshot,
)
from cockpit.monitor.owners import processes_of, reported_by, same_devices
from cockpit.monitor.parts import Parts
from cockpit.monitor.pending import PendingReasons
from cockpit.sources.ray.client import NodeFacts, OomFacts, StatusFacts

Result = TypeVar("Result")

PROBE_OVERTAKEN_S = 30.0
"""Seconds by which Ray's agent must be ahead of a probe that has fallen silent, to be believed instead of it."""


class _ResultCache:
    """Remembers one result, by the identity of what it was made of: most joins change one part of many."""

    def __init__(self) -> None:
        self._made: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = {}

    def of(self, make: Callable[..., Result], *args: Any) -> Result:
        before = self._made.get(make)
        if before is None or len(before[0]) != len(args) or any(a is not b for a, b in zip(before[0], args, strict=True)):
            before = self._made[make] = (args, make(*args))
        result: Result = before[1]
        return result


class Join:
    """Makes snapshots; keeps what did not change between two of them."""

    def __init__(self) -> None:
        self._cache = _ResultCache()
        self._waits = PendingReasons()
        self._node_usage = _NodeUsage()

    def __call__(self, parts: Parts, now: float) -> Snapshot:
        """One value out of all parts, as of `now`."""
        of = self._cache.of
        cluster = of(_with_session, parts.cluster, parts.nodes, parts.hosts)
        places = of(_host_by_node, parts.nodes, parts.hosts, cluster.session)
        nodes = of(_nodes, of(self._node_usage, parts.nodes, parts.status), parts.hosts, places, parts.expected)
        nodes = of(_in_pods, nodes, parts.kubernetes)
        reported = of(reported_by, parts.nodes)
        waiting = self._waits(parts)
        processes = of(processes_of, reported, parts.nodes, parts.jobs, parts.hosts, places, cluster.session)
        return Snapshot(
            taken=now,
            cluster=cluster,
            nodes=nodes,
            growing=parts.nodes is not None and parts.nodes.growing,
            actors=waiting.actors,
            actor_counts=parts.actors.counts if parts.actors else None,
            actors_complete=parts.actors.complete if parts.actors else None,
            placement_groups=waiting.groups,
            jobs=parts.jobs.jobs if parts.jobs else None,
            demand=waiting.demand,
            processes=processes,
            sessions=of(_sessions, parts.hosts),
            oom_kills=of(_merge_kills, parts.oom, parts.hosts, places, cluster.session),
            hosts=parts.hosts,
            ports=parts.ports,
            allocation=parts.allocation,
            slurm_ids=parts.slurm_ids,
            kubernetes=parts.kubernetes,
            faults=of(_faults, parts.faults, parts.hosts),
            as_of=parts.as_of,
        )


def _with_session(cluster: Cluster, facts: NodeFacts | None, hosts: Mapping[str, Host]) -> Cluster:
    """With its session, which Ray 2.9 doesn't tell: that of the raylets which probes see to be its nodes."""
    if cluster.session or facts is None:
        return cluster
    nodes = {node.id for node in facts.nodes}
    named = {ray.session for host in hosts.values() for ray in host.rays or () if ray.node in nodes and ray.session}
    return replace(cluster, session=named.pop()) if len(named) == 1 else cluster


def _host_by_node(facts: NodeFacts | None, hosts: Mapping[str, Host], session: str | None) -> Mapping[str, str]:
    """Ray's node id -> the probed host it runs on. A dead node only where no living one has taken its place.

    An address alone makes no living node of a host on which no raylet runs, or only another Ray's: private addresses are alike everywhere.
    """
    nodes = facts.nodes if facts else ()
    by_id = ClusterIndex(nodes, hosts).hosts_by_node
    by_address = {address: host for host in hosts.values() for address in host.addresses}
    places: dict[str, str] = {}
    for node in nodes:
        seen, near = by_id.get(node.id or ""), by_address.get(node.ip)
        if node.id and seen:
            places[node.id] = seen.name
        elif node.id and near and (node.state != "ALIVE" or near.processes is None or (near.nodes and not _is_others(near, session))):
            places[node.id] = near.name
    living = {places[node.id] for node in nodes if node.id in places and node.state == "ALIVE"}
    dead = {node.id for node in nodes if node.id in places and node.state != "ALIVE" and places[node.id] in living}
    return {node: place for node, place in places.items() if node not in dead}


def _is_others(host: Host, session: str | None) -> bool:
    """Whether every raylet there is known to be of another session."""
    named = [ray.session for ray in host.rays or () if ray.role == "raylet"]
    return session is not None and bool(named) and None not in named and session not in named


def _nodes(
    listed: tuple[Node, ...] | None, hosts: Mapping[str, Host], places: Mapping[str, str], expected: Iterable[tuple[str, str]]
) -> tuple[Node, ...] | None:
    if listed is None and not hosts:
        return None
    known = [_on_host(node, hosts.get(places.get(node.id or "", ""))) for node in listed or ()]
    named = {node.host for node in known} | set(places.values())
    bare = [host for host in hosts.values() if host.name not in named and (listed is None or _matters(host))]
    alone = [_on_host(Node(None, host.name, ip=next(iter(host.addresses), "")), host) for host in bare]
    named |= {node.host for node in alone} | {name for node in known for name in (node.name, node.ip) if name}
    named |= {address for host in hosts.values() for address in host.addresses}
    unheard = [Node(None, name, ip=address) for name, address in expected if name not in named and address not in named]
    return tuple(known + alone + unheard)


def _in_pods(nodes: tuple[Node, ...] | None, cluster: RayCluster | None) -> tuple[Node, ...] | None:
    """The nodes, with the names of the pods that they are."""
    pods = {pod.ip: pod.name for pod in (cluster.pods if cluster else None) or () if pod.ip}
    if nodes is None or not pods:
        return nodes
    return tuple(replace(node, pod=pods[node.ip]) if node.ip in pods and node.state != "DEAD" else node for node in nodes)


class _NodeUsage:
    """Nodes with what Ray has handed out of them; unknown, not nothing, where the monitor hasn't said. Made anew where that changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Node, Mapping[str, Quantity], Node]] = {}

    def __call__(self, facts: NodeFacts | None, status: StatusFacts | None) -> tuple[Node, ...] | None:
        if facts is None:
            return None
        before, self._made = self._made, {}
        usage = (status.usage if status else None) or {}
        return tuple([self._node(node, usage.get(node.id or ""), before.get(node.key)) for node in facts.nodes])

    def _node(self, node: Node, usage: Mapping[str, Quantity] | None, before: tuple[Node, Mapping[str, Quantity], Node] | None) -> Node:
        if not usage:
            return node
        if before is None or before[0] is not node or before[1] != usage:
            handed = {name: Quantity(usage[name].used if name in usage else has.used, has.total) for name, has in node.resources.items()}
            before = (node, usage, replace(node, resources=handed))
        self._made[node.key] = before
        return before[2]


def _on_host(node: Node, host: Host | None) -> Node:
    """The node, referring to the host whose probe is believed about its machine, and with what its agent alone can tell there.

    Of a raylet in a container that the probe is not in, Ray's agent knows a memory limit, and nobody the /dev/shm.
    """
    agent = node.agent
    if host is None or host.taken is None or (agent.seen or 0) - host.taken > PROBE_OVERTAKEN_S:
        return node
    apart = node.id is not None and any(ray.apart and ray.node == node.id for ray in host.rays or ())
    given = _given_gpus(agent, host) if apart else ()
    own = AgentReport(
        seen=agent.seen,
        cpus=None if host.cpus else agent.cpus,
        memory=agent.memory if apart and _is_limited(agent, host) else None,
        shm=Amount() if apart else None,
        gpus=agent.gpus if _is_agent_believed_of_gpus(agent, host) else None,
        given=given,
    )
    return replace(node, agent=own, probe=host.name)


def _is_limited(agent: AgentReport, host: Host) -> bool:
    return (
        agent.memory is not None
        and agent.memory.total is not None
        and host.memory.total is not None
        and agent.memory.total < host.memory.total
    )


def _given_gpus(agent: AgentReport, host: Host) -> tuple[str, ...]:
    """Uuids of the GPUs that a container was given, as Ray's agent in there sees them by another number; none unless its probe sees all."""
    given = {gpu.uuid for gpu in agent.gpus or ()}
    found = [gpu.uuid for gpu in host.gpus or () if gpu.uuid in given]
    return tuple(found) if len(found) == len(given) else ()


def _is_agent_believed_of_gpus(agent: AgentReport, host: Host) -> bool:
    """Where it sees other devices (several raylets on one host can be given different ones), and where it has looked since NVML failed."""
    observed = host.observed_at("nvml")
    has_failed = host.taken is not None and observed is not None and host.taken - observed > STALE_AFTER_S
    is_agent_later = bool(agent.gpus) and agent.seen is not None and agent.seen > (observed or 0.0)
    is_same = host.gpus is not None and (not agent.gpus or same_devices(agent.gpus, host.gpus))
    return not is_same or (has_failed and is_agent_later)


def _matters(host: Host) -> bool:
    """A cluster elsewhere can be watched from a laptop, and then the laptop is no part of the picture."""
    return not host.local or bool(host.gpus) or bool(host.sessions) or any(process.kind != "foreign" for process in host.processes or ())


def _sessions(hosts: Mapping[str, Host]) -> tuple[Session, ...] | None:
    found = [host.sessions for host in hosts.values() if host.sessions is not None]
    return tuple(session for sessions in found for session in sessions) if found else None


def _merge_kills(
    facts: OomFacts | None, hosts: Mapping[str, Host], places: Mapping[str, str], session: str | None
) -> tuple[OomKill, ...] | None:
    """What Ray's records, its logs and the kernel's tell, the newest first: each kill once, what one doesn't say added by the other."""
    told = [host.oom_kills for host in hosts.values() if host.oom_kills is not None]
    if facts is None and not told:
        return None
    found: dict[tuple[object, ...], OomKill] = {}
    read = [_with_owner(kill, session, places) for kills in told for kill in kills]
    for kill in (*(replace(kill, ours=True) for kill in (facts.kills if facts else ())), *read):
        where = kill.host or places.get(kill.node or "")
        known = replace(kill, host=where)
        key = (kill.by, where or kill.node, kill.pid or kill.moment)
        found[key] = _fill_gaps(found[key], known) if key in found else known
    return tuple(sorted(found.values(), key=lambda kill: -(kill.moment or 0.0)))


def _with_owner(kill: OomKill, session: str | None, places: Mapping[str, str]) -> OomKill:
    """A raylet's log tells of jobs and actors by ids that count in its own session alone."""
    known = kill.session is not None and session is not None
    ours = kill.session == session if known else True if kill.node in places else None
    return replace(kill, ours=ours) if ours or kill.by == "kernel" else replace(kill, ours=ours, job=None, actor=None)


def _fill_gaps(kill: OomKill, other: OomKill) -> OomKill:
    unsaid = [name for name in OomKill.__struct_fields__ if getattr(kill, name) in (None, "")]
    return replace(kill, **{name: getattr(other, name) for name in unsaid})


def _faults(faults: Mapping[tuple[str, str | None], Fault], hosts: Mapping[str, Host]) -> tuple[Fault, ...]:
    everything = [*faults.values(), *(fault for host in hosts.values() for fault in host.faults)]
    return tuple(sorted(everything, key=lambda fault: (fault.since, fault.source, fault.host or "")))
