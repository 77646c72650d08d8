"""When each source was last heard, which sources a finding rests on, and a snapshot without the facts that are too old for any claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""Pure: what it finds follows from the facts alone. It says nothing about what is unknown."""
Decorated = TypeVar("Decorated", bound=Callable[..., Iterable[Finding]])

RAY_FRESH_FOR_S = 60.0
"""Seconds for which an answer of the dashboard may support a claim while no fault is known: a large cluster is asked every 30 s, and an
answer may take 25 s. A source that fails supports nothing after `STALE_AFTER_S`."""
FRESH_FOR_S: Mapping[str, float] = {
    **dict.fromkeys(("nvml", "processes", "memory"), STALE_AFTER_S),
    **dict.fromkeys(("sessions", "disks", "shm", "rays", "temps", "logs", "stuck"), 45.0),
    "rdma": 200.0,
    "slurm": 200.0,
    "kubernetes": 120.0,
}
"""Seconds for which the facts of a source may support a claim: three times as long as the time between two looks, or longer."""
ON_A_MACHINE = frozenset({"nvml", "processes", "memory", "sessions", "disks", "shm", "rays", "temps", "logs", "stuck", "rdma"})
"""Sources that each machine has: those of its probe, called as in the probe's faults. Without a probe Ray's agent stands in for them."""
_MACHINE_LIMITS = tuple((source, FRESH_FOR_S[source]) for source in sorted(ON_A_MACHINE))
_RESTS_ON: dict[Callable[..., object], frozenset[str]] = {}


def rests_on(*sources: str) -> Callable[[Decorated], Decorated]:
    """Declares from which sources a detector takes its facts: `ray.jobs`, `nvml`, `slurm`.

    The tracker lets its findings begin, change and end only when all of these have been heard again. A detector of failing sources rests
    on none: that a source is silent is known now.
    """

    def declare(detector: Decorated) -> Decorated:
        _RESTS_ON[detector] = frozenset(sources)
        return detector

    return declare


def sources_of(detector: Detector) -> frozenset[str]:
    """The sources that it has declared."""
    return _RESTS_ON.get(detector, frozenset())


def is_declared(detector: Detector) -> bool:
    """Whether it has declared its sources."""
    return detector in _RESTS_ON


MAX_PACE_S = 300.0
"""Seconds from one answer of a source to the next that are believed of a probe."""


class SourceTime(msgspec.Struct, frozen=True):
    """When the facts of a source were true; `None` where that is not known."""

    key: str
    """Its identity: two nodes may have one title."""
    source: str
    """As people call it: `ray.jobs`, or `w1 nvml`."""
    at: float | None
    is_old: bool
    """Too old for any claim about now."""


class SourceTimes:
    """When each source was last heard, as one snapshot has it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._now, self.index = snapshot, snapshot.taken, snapshot.index
        self._failing = {source for fault in snapshot.faults if fault.host is None for source in (fault.source, *fault.sources)}
        self._gcs_lost = min((fault.since for fault in snapshot.faults if fault.source == "ray.gcs"), default=None)

    def of_ray(self, source: str) -> SourceTime:
        """Of the dashboard, Slurm or Kubernetes. While the GCS is lost the dashboard repeats what it knew before."""
        at = self._snapshot.as_of.get(source)
        if at is not None and self._gcs_lost is not None and source.startswith("ray."):
            at = min(at, self._gcs_lost)
        fresh_for = STALE_AFTER_S if source in self._failing else FRESH_FOR_S.get(source, RAY_FRESH_FOR_S)
        return SourceTime(source, source, at, at is not None and self._now - at > fresh_for)

    def of_host(self, host: Host, source: str) -> SourceTime:
        """Of the probe of a host."""
        at = host.observed_at(source)
        is_old = host.taken is None or (at is not None and self._now - at > _fresh_for(host, source))
        return SourceTime(f"{host.name} {source}", f"{host.name} {source}", at, is_old)

    def old_sources(self, host: Host) -> frozenset[str]:
        """Sources of its probe whose facts are too old for any claim about now."""
        if host.taken is None:
            return ON_A_MACHINE
        behind = self._now - host.taken
        if behind <= STALE_AFTER_S and not host.observed:
            return frozenset()
        seen = host.observed
        old = [source for source, most in _MACHINE_LIMITS if self._now - min(host.taken, seen.get(source, host.taken)) > most]
        return frozenset([source for source in old if not host.paces or self.of_host(host, source).is_old])

    def host_of(self, node: Node) -> Host | None:
        """The host whose probe is the source of a node's figures; `None` where Ray's agent is."""
        return self._snapshot.hosts.get(node.probe or "")

    def is_agent_old(self, node: Node) -> bool:
        """Whether the figures of a node without a probe are too old for any claim about now."""
        seen = node.agent.seen
        return seen is not None and isfinite(seen) and self._now - seen > STALE_AFTER_S

    def of_agent(self, node: Node) -> SourceTime:
        """Of Ray's agent on a node without a probe."""
        at = node.agent.seen if node.agent.seen is not None and isfinite(node.agent.seen) else None
        return SourceTime(node.key, f"{node.title} agent", at, self.is_agent_old(node))

    def of_finding(self, finding: Finding, sources: frozenset[str]) -> tuple[SourceTime, ...]:
        """Of all that it rests on: of these sources, and on each machine that it is about."""
        apart = [self.of_ray(source) for source in sorted(sources - ON_A_MACHINE)]
        near = sorted(sources & ON_A_MACHINE)
        if not near:
            return tuple(apart)
        hosts, nodes = self._machines_of(finding)
        return (*apart, *(self.of_host(host, source) for host in hosts for source in near), *map(self.of_agent, nodes))

    def heard(self, finding: Finding, sources: frozenset[str]) -> dict[str, float]:
        """By key of each source: when its facts were true, as far as that is known."""
        return {told.key: told.at for told in self.of_finding(finding, sources) if told.at is not None}

    def _machines_of(self, finding: Finding) -> tuple[list[Host], list[Node]]:
        """Probed hosts, and nodes without a probe, on which the rows are that a finding is about; without any the host of cockpit."""
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
        return hosts, list(nodes.values())

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        """By Ray's id; one without an id by the name of its host. Of a dead node nothing will be heard again."""
        return {node.id or node.host: node for node in self._snapshot.nodes or () if node.state != "DEAD"}

    @cached_property
    def _actor_nodes(self) -> Mapping[str, str]:
        """By an actor's id: Ray's id of its node."""
        return {actor.id: actor.node for actor in self._snapshot.actors or () if actor.node}

    @cached_property
    def _hosts_of_jobs(self) -> Mapping[str, set[str]]:
        """By a job's own id: the names of the hosts on which it has processes."""
        ids = {job.job: job.id for job in self._snapshot.jobs or () if job.job}
        found: dict[str, set[str]] = {}
        for process in self._snapshot.processes or ():
            if process.job:
                found.setdefault(ids.get(process.job, process.job), set()).add(process.host)
        return found


def _fresh_for(host: Host, source: str) -> float:
    return max(FRESH_FOR_S[source], 3 * min(host.paces.get(source, 0.0), MAX_PACE_S))


def without_old_facts(snapshot: Snapshot, times: SourceTimes) -> Snapshot:
    """The snapshot as a detector gets it: what is too old for a claim about now is unknown. What is fresh stays the same value.

    Names, addresses and ids stay, because they say what something is called and not how it is.
    """
    lists = {source for source in (*_LISTS, "ray.nodes", "ray.status") if times.of_ray(source).is_old}
    old = {host.name: sources for host in snapshot.hosts.values() if (sources := times.old_sources(host))}
    changes: dict[str, object] = {field: None for source in lists for field in _LISTS.get(source, ())}
    nodes = snapshot.nodes and tuple([_fresh_node(node, times, lists, old) for node in snapshot.nodes])
    if nodes and any(one is not other for one, other in zip(nodes, snapshot.nodes or (), strict=True)):
        changes["nodes"] = nodes
    if old:
        hosts = {name: _fresh_host(host, old[name]) if name in old else host for name, host in snapshot.hosts.items()}
        changes["hosts"] = hosts
        changes["sessions"] = snapshot.sessions and tuple(session for host in hosts.values() for session in host.sessions or ())
    if changes and snapshot.processes is not None:
        changes["processes"] = tuple(_fresh_processes(snapshot, times, old))
    return replace(snapshot, **changes) if changes else snapshot


_LISTS: Mapping[str, tuple[str, ...]] = {
    "ray.actors": ("actors", "actor_counts", "actors_complete"),
    "ray.placement_groups": ("placement_groups",),
    "ray.jobs": ("jobs",),
    "ray.status": ("demand",),
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


_UNKNOWN_HOST = Host("")


def _fresh_host(host: Host, old: frozenset[str]) -> Host:
    changes: dict[str, object] = {field: getattr(_UNKNOWN_HOST, field) for source in old for field in _FIELDS[source]}
    if "nvml" in old and "processes" not in old and host.processes is not None:
        changes["processes"] = tuple(replace(process, gpus=()) if process.gpus else process for process in host.processes)
    return replace(host, **changes)


_FIGURES = (("memory", ("memory", "shared")), ("shm", ("shm",)), ("disks", ("disks",)), ("nvml", ("gpus",)), ("processes", ("cpu",)))
"""What Ray's agent tells of the same as one source of a probe."""


def _fresh_node(node: Node, times: SourceTimes, lists: set[str], old: Mapping[str, frozenset[str]]) -> Node:
    """Without the figures that are old. Of a node list that is old nobody knows which nodes live, but where a probe sees the raylet."""
    host = times.host_of(node)
    sources = old.get(host.name, frozenset()) if host else ON_A_MACHINE if times.is_agent_old(node) else frozenset()
    unsaid = {field: None for source, fields in _FIGURES if source in sources for field in fields}
    changes: dict[str, object] = {}
    if any(getattr(node.agent, field) is not None for field in unsaid):
        changes["agent"] = replace(node.agent, **unsaid)
    if "ray.nodes" in lists and node.id is not None:
        raylet = times.index.hosts_by_node.get(node.id)
        is_seen_alive = raylet is not None and "rays" not in old.get(raylet.name, ())
        changes["state"] = "ALIVE" if is_seen_alive and node.state == "ALIVE" else "UNKNOWN"
        changes["object_store"] = Amount()
    if not lists.isdisjoint(("ray.nodes", "ray.status")):
        changes["resources"] = {name: Quantity(None, has.total) for name, has in node.resources.items()}
    return replace(node, **changes) if changes else node


def _fresh_processes(snapshot: Snapshot, times: SourceTimes, old: Mapping[str, frozenset[str]]) -> Iterator[Process]:
    """Processes of a host whose list is old are not there any more, for all anybody knows; nor is what they held of GPUs."""
    silent = {node.id for node in snapshot.nodes or () if node.id and times.host_of(node) is None and times.is_agent_old(node)}
    for process in snapshot.processes or ():
        sources = old.get(process.host, frozenset())
        if "processes" not in sources and process.node not in silent:
            yield replace(process, gpus=()) if process.gpus and "nvml" in sources else process
