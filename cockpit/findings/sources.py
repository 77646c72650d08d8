"""Dates every source, knows the sources of a finding, and removes facts that are too old from a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Amount, Finding, Host, Node, Process, Quantity, Snapshot

if TYPE_CHECKING:
    from cockpit.findings.facts import Facts

Detector = Callable[["Facts"], Iterable[Finding]]
"""A pure function of the facts. It claims nothing about unknown facts."""
Decorated = TypeVar("Decorated", bound=Callable[..., Iterable[Finding]])

_LISTS: Mapping[str, tuple[str, ...]] = {
    "ray.actors": ("actors", "actor_counts", "actors_complete"),
    "ray.placement_groups": ("placement_groups",),
    "ray.jobs": ("jobs",),
    "ray.status": ("demand",),
    "ray.engines": ("engines",),
    "slurm": ("allocation",),
    "kubernetes": ("kubernetes",),
}
"""The fields of a snapshot that one answer fills."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "nvml": ("gpus", "driver"),
    "processes": ("processes", "memory_users", "cpu"),
    "memory": ("memory",),
    "sessions": ("sessions",),
    "disks": ("disks", "filled"),
    "shm": ("shm", "shm_users"),
    "rays": ("rays",),
    "temps": ("temps", "pointers"),
    "logs": ("oom_kills", "wrote"),
    "stuck": ("stuck",),
    "rdma": ("rdma_ports",),
}
"""The fields of a host that one source of its probe fills."""
_FIGURES = (("memory", ("memory", "shared")), ("shm", ("shm",)), ("disks", ("disks",)), ("nvml", ("gpus",)), ("processes", ("cpu",)))
"""The fields of Ray's agent that replace one source of a probe."""
RAY_FRESH_FOR_S = 60.0
"""Seconds for which an answer of the dashboard may support a claim while it does not fail: a large cluster is asked every 30 s, and an
answer may take 25 s. An answer of a failing source supports a claim for `STALE_AFTER_S` only."""
FRESH_FOR_S: Mapping[str, float] = {
    **dict.fromkeys(("nvml", "processes", "memory"), STALE_AFTER_S),
    **dict.fromkeys(("sessions", "disks", "shm", "rays", "temps", "logs", "stuck"), 45.0),
    "rdma": 200.0,
    "ray.engines": 200.0,
    "slurm": 200.0,
    "kubernetes": 120.0,
}
"""Seconds for which the facts of a source may support a claim: at least three times the interval of its samples."""
ON_A_MACHINE = frozenset(_FIELDS)
"""Sources of each machine: its probe's sources, named as in the probe's faults. Without a probe Ray's agent replaces them."""
DECLARED_SOURCES: dict[Callable[..., object], frozenset[str]] = {}
"""The sources that each detector has declared."""


def rests_on(*sources: str) -> Callable[[Decorated], Decorated]:
    """Declares the sources of a detector's facts, such as `ray.jobs`, `nvml`, `slurm`.

    The tracker begins, changes and ends its findings only when all of these sources have new facts. A detector of failing sources rests on
    none: the silence of a source is known now.
    """

    def declare(detector: Decorated) -> Decorated:
        DECLARED_SOURCES[detector] = frozenset(sources)
        return detector

    return declare


MAX_PACE_S = 300.0
"""Longest plausible time in seconds between two answers of a source, as a probe reports it."""


class SourceTime(msgspec.Struct, frozen=True):
    """The time at which the facts of a source were true."""

    key: str
    """Its identity: two nodes may have the same title."""
    source: str
    """Its name for people: `ray.jobs`, or `w1 nvml`."""
    at: float | None
    """`None`: unknown."""
    is_old: bool
    """Too old for any claim about now."""


class SourceTimes:
    """The times of all sources of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._now, self.index = snapshot, snapshot.taken, snapshot.index
        self._failing = {source for fault in snapshot.faults if fault.host is None for source in (fault.source, *fault.sources)}
        self._gcs_lost = min((fault.since for fault in snapshot.faults if fault.source == "ray.gcs"), default=None)

    def of_ray(self, source: str) -> SourceTime:
        """The time of a source of the dashboard, of Slurm or of Kubernetes. Without the GCS the dashboard repeats old facts."""
        at = self._snapshot.as_of.get(source)
        if at is not None and self._gcs_lost is not None and source.startswith("ray."):
            at = min(at, self._gcs_lost)
        fresh_for = STALE_AFTER_S if source in self._failing else FRESH_FOR_S.get(source, RAY_FRESH_FOR_S)
        return SourceTime(source, source, at, at is not None and self._now - at > fresh_for)

    def of_host(self, host: Host, source: str) -> SourceTime:
        """The time of a source of a host's probe."""
        at = host.observed_at(source)
        fresh_for = max(FRESH_FOR_S[source], 3 * min(host.paces.get(source, 0.0), MAX_PACE_S))
        is_old = host.taken is None or (at is not None and self._now - at > fresh_for)
        return SourceTime(f"{host.name} {source}", f"{host.name} {source}", at, is_old)

    def old_sources(self, host: Host) -> frozenset[str]:
        """Sources of a host's probe whose facts are too old for any claim about now."""
        if host.taken is None:
            return ON_A_MACHINE
        taken, seen, now = host.taken, host.observed, self._now
        if now - taken <= STALE_AFTER_S and not seen:
            return frozenset()
        old = [source for source in ON_A_MACHINE if now - min(taken, seen.get(source, taken)) > FRESH_FOR_S[source]]
        return frozenset([source for source in old if not host.paces or self.of_host(host, source).is_old])

    def host_of(self, node: Node) -> Host | None:
        """The host whose probe is the source of a node's figures; `None`: Ray's agent is."""
        return self._snapshot.hosts.get(node.probe or "")

    def is_agent_old(self, node: Node) -> bool:
        """Whether the figures of a node without a probe are too old for any claim about now."""
        seen = node.agent.seen
        return seen is not None and isfinite(seen) and self._now - seen > STALE_AFTER_S

    def of_agent(self, node: Node) -> SourceTime:
        """The time of the figures of Ray's agent on a node without a probe."""
        at = node.agent.seen if node.agent.seen is not None and isfinite(node.agent.seen) else None
        return SourceTime(node.key, f"{node.title} agent", at, self.is_agent_old(node))

    def of_finding(self, finding: Finding, sources: frozenset[str]) -> tuple[SourceTime, ...]:
        """The times of these sources, for a probe's source on each machine that the finding is about.

        These machines are probed hosts, and nodes without a probe. If the finding is about none, it is the host of cockpit.
        """
        apart = [self.of_ray(source) for source in sorted(sources - ON_A_MACHINE)]
        near = sorted(sources & ON_A_MACHINE)
        if not near:
            return tuple(apart)
        names: set[str] = set()
        nodes: dict[str, Node] = {}
        for key in finding.about or [f"node:{finding.subject.partition(' ')[0]}"]:
            kind, _, rest = key.partition(":")
            if kind in ("process", "session"):
                names.add(rest.partition(":")[0])
            elif kind == "job":
                names |= self._hosts_of_jobs.get(rest, frozenset())
            elif node := self._nodes.get(self._actor_nodes.get(rest, "") if kind == "actor" else rest.partition(":")[0]):
                nodes[node.key] = node
            elif kind == "node":
                names.add(rest.partition(":")[0])
        for node in list(nodes.values()):
            if (host := self.host_of(node)) is not None:
                names.add(host.name)
                del nodes[node.key]
        hosts = [self._snapshot.hosts[name] for name in sorted(names) if name in self._snapshot.hosts]
        nodes.update({node.key: node for node in self._nodes.values() if node.host in names and node.host not in self._snapshot.hosts})
        if not hosts and not nodes:
            hosts = [host for host in self._snapshot.hosts.values() if host.local]
        return (*apart, *(self.of_host(host, source) for host in hosts for source in near), *map(self.of_agent, nodes.values()))

    def fact_times(self, finding: Finding, sources: frozenset[str]) -> dict[str, float]:
        """By key of each source: when its facts were true. Sources of an unknown time are left out."""
        return {each.key: each.at for each in self.of_finding(finding, sources) if each.at is not None}

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        """Nodes by Ray's id, or by the name of the host if it has none; without dead nodes, which have no new facts."""
        return {node.id or node.host: node for node in self._snapshot.nodes or () if node.state != "DEAD"}

    @cached_property
    def _actor_nodes(self) -> Mapping[str, str]:
        """Ray's node ids by actor id."""
        return {actor.id: actor.node for actor in self._snapshot.actors or () if actor.node}

    @cached_property
    def _hosts_of_jobs(self) -> Mapping[str, set[str]]:
        """Names of the hosts with processes of a job, by job id."""
        ids = {job.job: job.id for job in self._snapshot.jobs or () if job.job}
        found: dict[str, set[str]] = {}
        for process in self._snapshot.processes or ():
            if process.job:
                found.setdefault(ids.get(process.job, process.job), set()).add(process.host)
        return found


def without_old_facts(snapshot: Snapshot, times: SourceTimes) -> Snapshot:
    """The snapshot for detectors: facts that are too old for a claim about now become unknown, fresh values stay the same objects.

    Names, addresses and ids stay: they identify things and claim nothing about their state.
    """
    lists = {source for source in (*_LISTS, "ray.nodes", "ray.status") if times.of_ray(source).is_old}
    old = {host.name: sources for host in snapshot.hosts.values() if (sources := times.old_sources(host))}
    changes: dict[str, object] = {field: None for source in lists for field in _LISTS.get(source, ())}
    nodes = snapshot.nodes and tuple([_fresh_node(node, times, lists, old) for node in snapshot.nodes])
    if nodes and any(one is not other for one, other in zip(nodes, snapshot.nodes or (), strict=True)):
        changes["nodes"] = nodes
    if old:
        hosts, unknown = dict(snapshot.hosts), Host("")
        for name, sources in old.items():
            fields: dict[str, object] = {field: getattr(unknown, field) for source in sources for field in _FIELDS[source]}
            listed = hosts[name].processes
            if "nvml" in sources and "processes" not in sources and listed is not None:
                fields["processes"] = tuple(replace(process, gpus=()) if process.gpus else process for process in listed)
            hosts[name] = replace(hosts[name], **fields)
        changes["hosts"] = hosts
        changes["sessions"] = snapshot.sessions and tuple(session for host in hosts.values() for session in host.sessions or ())
    if changes and snapshot.processes is not None:
        # Processes whose list is fresh enough; without their GPUs if those figures are old.
        silent = {node.id for node in snapshot.nodes or () if node.id and times.host_of(node) is None and times.is_agent_old(node)}
        processes: list[Process] = []
        for process in snapshot.processes:
            sources = old.get(process.host, frozenset())
            if "processes" not in sources and process.node not in silent:
                processes.append(replace(process, gpus=()) if process.gpus and "nvml" in sources else process)
        changes["processes"] = tuple(processes)
    return replace(snapshot, **changes) if changes else snapshot


def _fresh_node(node: Node, times: SourceTimes, lists: set[str], old: Mapping[str, frozenset[str]]) -> Node:
    """The node without old figures. If Ray's node list is old, only nodes whose raylet a probe sees are known to be alive."""
    host = times.host_of(node)
    sources = old.get(host.name, frozenset()) if host else ON_A_MACHINE if times.is_agent_old(node) else frozenset()
    unknown = {field: None for source, fields in _FIGURES if source in sources for field in fields}
    changes: dict[str, object] = {}
    if any(getattr(node.agent, field) is not None for field in unknown):
        changes["agent"] = replace(node.agent, **unknown)
    if "ray.nodes" in lists and node.id is not None:
        raylet = times.index.hosts_by_node.get(node.id)
        is_seen_alive = raylet is not None and "rays" not in old.get(raylet.name, ())
        changes["state"] = "ALIVE" if is_seen_alive and node.state == "ALIVE" else "UNKNOWN"
        changes["object_store"] = Amount()
    if not lists.isdisjoint(("ray.nodes", "ray.status")):
        changes["resources"] = {name: Quantity(None, has.total) for name, has in node.resources.items()}
    return replace(node, **changes) if changes else node
