"""Joins the answers of Ray and of probes into one Snapshot.

A probe wins on everything physical, because it reads the host itself. Ray wins on the owner of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import (
    Actor,
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
    StartTrouble,
)
from cockpit.monitor.owners import join_processes, list_reported_processes, same_devices
from cockpit.monitor.pending import PendingReasons
from cockpit.monitor.pending_reasons import is_waiting
from cockpit.monitor.source_answers import Parts
from cockpit.sources.ray.client import NodeFacts, OomFacts, StatusFacts

Result = TypeVar("Result")

PROBE_OVERTAKEN_S = 30.0
"""Ray's agent is believed instead of a silent probe once its report is this many seconds newer."""


class Join:
    """Makes snapshots; what did not change between two of them stays the same object, since the screen compares by identity."""

    def __init__(self) -> None:
        self._made: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = {}
        """The last result of each step, with its arguments."""
        self._waits = PendingReasons()

    def __call__(self, parts: Parts, now: float) -> Snapshot:
        """One snapshot of all parts, as of `now`."""
        of = self._make
        cluster = of(_with_session, parts.cluster, parts.nodes, parts.hosts)
        places = of(_host_by_node, parts.nodes, parts.hosts, cluster.session)
        listed = of(_with_usage, parts.nodes, parts.status)
        reported = of(list_reported_processes, parts.nodes)
        waiting = self._waits(parts)
        return Snapshot(
            taken=now,
            cluster=cluster,
            nodes=of(_join_nodes, listed, parts.hosts, places, parts.expected, parts.kubernetes),
            growing=parts.nodes is not None and parts.nodes.growing,
            actors=of(_with_troubles, waiting.actors, parts.starts),
            actor_counts=parts.actors.counts if parts.actors else None,
            actors_complete=parts.actors.complete if parts.actors else None,
            placement_groups=waiting.groups,
            jobs=parts.jobs.jobs if parts.jobs else None,
            demand=waiting.demand,
            processes=of(join_processes, reported, parts.nodes, parts.jobs, parts.hosts, places, cluster.session),
            sessions=of(_join_sessions, parts.hosts),
            oom_kills=of(_merge_kills, parts.oom, parts.hosts, places, cluster.session),
            hosts=parts.hosts,
            engines=parts.engines,
            failures=parts.failures,
            starts=parts.starts,
            log_steps=parts.log_steps,
            listed_workers=parts.listed_workers,
            ports=parts.ports,
            nccl=parts.nccl,
            allocation=parts.allocation,
            slurm_ids=parts.slurm_ids,
            kubernetes=parts.kubernetes,
            faults=of(_join_faults, parts.faults, parts.hosts),
            as_of=parts.as_of,
        )

    def _make(self, step: Callable[..., Result], *args: Any) -> Result:
        """The result of a step; of the last time, if its arguments are the same objects."""
        before = self._made.get(step)
        if before is None or any(a is not b for a, b in zip(before[0], args, strict=True)):
            before = self._made[step] = (args, step(*args))
        result: Result = before[1]
        return result


def _with_session(cluster: Cluster, facts: NodeFacts | None, hosts: Mapping[str, Host]) -> Cluster:
    """Adds the session, which Ray 2.9 does not report: probes see the raylets of its nodes, and their session."""
    if cluster.session or facts is None:
        return cluster
    nodes = {node.id for node in facts.nodes}
    named = {ray.session for host in hosts.values() for ray in host.rays or () if ray.node in nodes and ray.session}
    return replace(cluster, session=named.pop()) if len(named) == 1 else cluster


def _with_troubles(actors: tuple[Actor, ...] | None, starts: tuple[StartTrouble, ...]) -> tuple[Actor, ...] | None:
    """Actors that don't start, with the reason that the logs of their node show: it is nearer than Ray's."""
    troubles = {key: trouble for trouble in starts for key in trouble.about}
    if actors is None or not troubles:
        return actors
    return tuple(
        replace(actor, why=troubles[actor.key].text, wait="starting") if actor.key in troubles and is_waiting(actor) else actor
        for actor in actors
    )


def _host_by_node(facts: NodeFacts | None, hosts: Mapping[str, Host], session: str | None) -> Mapping[str, str]:
    """By Ray's node id, the name of the probed host that it runs on. A dead node has one only if no living node runs there.

    Private addresses are the same everywhere. So an address alone does not join a living node to a host on which no raylet runs, or
    only raylets of other sessions.
    """
    nodes = facts.nodes if facts else ()
    by_id = ClusterIndex(nodes, hosts).hosts_by_node
    by_address = {address: host for host in hosts.values() for address in host.addresses}
    places: dict[str, str] = {}
    for node in nodes:
        seen, near = by_id.get(node.id or ""), by_address.get(node.ip)
        if node.id and seen:
            places[node.id] = seen.name
        elif node.id and near:
            sessions = [ray.session for ray in near.rays or () if ray.role == "raylet"]
            is_anothers = session is not None and bool(sessions) and None not in sessions and session not in sessions
            if node.state != "ALIVE" or near.processes is None or (near.nodes and not is_anothers):
                places[node.id] = near.name
    living = {places[node.id] for node in nodes if node.id in places and node.state == "ALIVE"}
    dead = {node.id for node in nodes if node.id in places and node.state != "ALIVE" and places[node.id] in living}
    return {node: place for node, place in places.items() if node not in dead}


def _with_usage(facts: NodeFacts | None, status: StatusFacts | None) -> tuple[Node, ...] | None:
    """Adds to Ray's nodes how much of their resources is in use; unknown, not 0, if Ray's status doesn't list a node."""
    if facts is None:
        return None
    usage_by_node = (status.usage if status else None) or {}
    nodes: list[Node] = []
    for node in facts.nodes:
        usage = usage_by_node.get(node.id or "")
        if usage:
            used = {name: Quantity(usage[name].used if name in usage else has.used, has.total) for name, has in node.resources.items()}
            nodes.append(replace(node, resources=used))
        else:
            nodes.append(node)
    return tuple(nodes)


def _join_nodes(
    listed: tuple[Node, ...] | None,
    hosts: Mapping[str, Host],
    places: Mapping[str, str],
    expected: Iterable[tuple[str, str]],
    kubernetes: RayCluster | None,
) -> tuple[Node, ...] | None:
    """Ray's nodes, then probed hosts that are no node, then hosts of the config that nothing is known of."""
    if listed is None and not hosts:
        return None
    nodes = [_on_host(node, hosts.get(places.get(node.id or "", ""))) for node in listed or ()]
    joined = {node.host for node in nodes} | set(places.values())
    for host in hosts.values():
        # A laptop from which a cluster elsewhere is watched is not part of it.
        matters = not host.local or host.gpus or host.sessions or any(process.kind != "foreign" for process in host.processes or ())
        if host.name not in joined and (listed is None or matters):
            nodes.append(_on_host(Node(None, host.name, ip=next(iter(host.addresses), "")), host))
    known = joined | {name for node in nodes for name in (node.host, node.name, node.ip) if name}
    known |= {address for host in hosts.values() for address in host.addresses}
    nodes += [Node(None, name, ip=address) for name, address in expected if name not in known and address not in known]
    pods = {pod.ip: pod.name for pod in (kubernetes.pods if kubernetes else None) or () if pod.ip}
    return tuple(replace(node, pod=pods[node.ip]) if node.ip in pods and node.state != "DEAD" else node for node in nodes)


def _on_host(node: Node, host: Host | None) -> Node:
    """The node, referring to its host if that host's probe is believed. Of the agent's report stays what only the agent can know."""
    agent = node.agent
    if host is None or host.taken is None or (agent.seen or 0) - host.taken > PROBE_OVERTAKEN_S:
        return node
    # Of a raylet in a container that the probe is not in, Ray's agent knows the memory limit; nobody knows its /dev/shm.
    apart = node.id is not None and any(ray.apart and ray.node == node.id for ray in host.rays or ())
    total, whole = agent.memory.total if agent.memory else None, host.memory.total
    is_limited = total is not None and whole is not None and total < whole
    # The GPUs that such a container was given, by uuid: the agent counts them anew. Only if the probe sees all of them.
    given = {gpu.uuid for gpu in agent.gpus or ()}
    seen = tuple(gpu.uuid for gpu in host.gpus or () if gpu.uuid in given)
    # The agent's GPUs count if it sees other devices (each raylet on a host may be given its own), or if NVML fails since in the probe.
    observed = host.observed_at("nvml")
    has_failed = observed is not None and host.taken - observed > STALE_AFTER_S
    is_agent_later = bool(agent.gpus) and agent.seen is not None and agent.seen > (observed or 0.0)
    is_same = host.gpus is not None and (not agent.gpus or same_devices(agent.gpus, host.gpus))
    own = AgentReport(
        seen=agent.seen,
        cpus=None if host.cpus else agent.cpus,
        memory=agent.memory if apart and is_limited else None,
        shm=Amount() if apart else None,
        gpus=agent.gpus if not is_same or (has_failed and is_agent_later) else None,
        given=seen if apart and len(seen) == len(given) else (),
    )
    return replace(node, agent=own, probe=host.name)


def _join_sessions(hosts: Mapping[str, Host]) -> tuple[Session, ...] | None:
    found = [host.sessions for host in hosts.values() if host.sessions is not None]
    return tuple(session for sessions in found for session in sessions) if found else None


def _merge_kills(
    facts: OomFacts | None, hosts: Mapping[str, Host], places: Mapping[str, str], session: str | None
) -> tuple[OomKill, ...] | None:
    """Out-of-memory kills, the newest first, from Ray's records, its logs and the kernel's log: each once, gaps filled from the others."""
    by_host = [host.oom_kills for host in hosts.values() if host.oom_kills is not None]
    if facts is None and not by_host:
        return None
    kills = [replace(kill, ours=True) for kill in (facts.kills if facts else ())]
    # A raylet's log names jobs and actors by ids that are unique only in its own session.
    for kill in (kill for found in by_host for kill in found):
        if kill.session is not None and session is not None:
            ours: bool | None = kill.session == session
        else:
            ours = True if kill.node in places else None
        is_id_valid = ours or kill.by == "kernel"
        kills.append(replace(kill, ours=ours) if is_id_valid else replace(kill, ours=ours, job=None, actor=None))
    merged: dict[tuple[object, ...], OomKill] = {}
    for kill in kills:
        where = kill.host or places.get(kill.node or "")
        key = (kill.by, where or kill.node, kill.pid or kill.moment)
        known, other = replace(kill, host=where), merged.get(key)
        if other is not None:
            gaps = [name for name in OomKill.__struct_fields__ if getattr(other, name) in (None, "")]
            known = replace(other, **{name: getattr(known, name) for name in gaps})
        merged[key] = known
    return tuple(sorted(merged.values(), key=lambda kill: -(kill.moment or 0.0)))


def _join_faults(faults: Mapping[tuple[str, str | None], Fault], hosts: Mapping[str, Host]) -> tuple[Fault, ...]:
    everything = [*faults.values(), *(fault for host in hosts.values() for fault in host.faults)]
    return tuple(sorted(everything, key=lambda fault: (fault.since, fault.source, fault.host or "")))
