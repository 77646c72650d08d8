"""Defines a check of `doctor`: its title, its detectors, the facts they need, and which of these a snapshot lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cockpit.findings.sources import Detector
from cockpit.model import Host, Node, Snapshot
from cockpit.text import plural

MAX_HOSTS_NAMED = 4


class MissingFact(msgspec.Struct, frozen=True):
    """A fact that a snapshot lacks, in words."""

    words: str
    whole: bool = True
    """Nothing of it is known; False: a part of it is."""


Need = Callable[[Snapshot], MissingFact | None]
"""Returns the part of a fact that a snapshot lacks; `None`: it lacks nothing."""


class Check(msgspec.Struct, frozen=True):
    """One subject of `doctor`, checked by one or more detectors."""

    title: str
    detectors: tuple[Detector, ...]
    needs: tuple[Need, ...] = ()
    """If any of these is wholly missing, nothing is checked."""
    helps: tuple[Need, ...] = ()
    """With these more is checked. A check without `needs` is possible only if one of them is known."""
    watches: str | None = None
    """Findings that only watching can find, in words."""
    at_once: bool = True
    """Whether a single sample can find anything."""
    concerns: Callable[[Snapshot], bool] = lambda _: True
    """Whether the subject exists in this cluster; else the check is not listed."""

    def missing(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The facts that are missing, in words, without repetitions."""
        return tuple(dict.fromkeys(lack.words for need in (*self.needs, *self.helps) if (lack := need(snapshot))))

    def is_blind(self, snapshot: Snapshot) -> bool:
        """Whether too little is known to check anything."""
        if not self.needs:
            return all(_is_wholly_missing(need, snapshot) for need in self.helps)
        return any(_is_wholly_missing(need, snapshot) for need in self.needs)


def _is_wholly_missing(need: Need, snapshot: Snapshot) -> bool:
    lack = need(snapshot)
    return lack is not None and lack.whole


def _unless(words: str, is_known: Callable[[Snapshot], object]) -> Need:
    return lambda snapshot: None if is_known(snapshot) else MissingFact(words)


def _on_each_host(words: str, is_seen: Callable[[Host], bool]) -> Need:
    """A fact that the probe of every host with a living node must report."""

    def lack(snapshot: Snapshot) -> MissingFact | None:
        known = {node for host in snapshot.hosts.values() if is_seen(host) for node in snapshot.index.node_ids_on(host)}
        living = _living_nodes(snapshot)
        if not living and any(map(is_seen, snapshot.hosts.values())):
            return None
        return _lack_of_some(words, [node for node in living if node.id not in known], living)

    return lack


def _in_kubernetes(part: str) -> Need:
    def lack(snapshot: Snapshot) -> MissingFact | None:
        if (cluster := snapshot.kubernetes) is None:
            return MissingFact("Kubernetes has not answered")
        return MissingFact(cluster.lacks[part]) if part in cluster.lacks else None

    return lack


def listed_gpus(snapshot: Snapshot) -> MissingFact | None:
    """The GPUs of every node, from a probe or from Ray's agent."""
    living = _living_nodes(snapshot)
    return _lack_of_some("no source lists the GPUs of", [node for node in living if snapshot.index.machine(node).gpus is None], living)


def _living_nodes(snapshot: Snapshot) -> list[Node]:
    return [node for node in snapshot.nodes or () if node.state == "ALIVE" and node.id]


def _lack_of_some(words: str, blind: Sequence[Node], living: Sequence[Node]) -> MissingFact | None:
    if living and not blind:
        return None
    more = f" and {plural(len(blind) - MAX_HOSTS_NAMED, 'more host')}" if len(blind) > MAX_HOSTS_NAMED else ""
    names = ", ".join(node.title for node in blind[:MAX_HOSTS_NAMED]) + more
    return MissingFact(f"{words} {names or 'any host'}", whole=len(blind) == len(living))


dashboard = _unless("Ray's dashboard does not answer", lambda snapshot: snapshot.cluster.reachable)
nodes = _unless("Ray has not listed its nodes", lambda snapshot: any(node.id for node in snapshot.nodes or ()))
"""Nodes without an id are hosts of the config."""
actors = _unless("Ray has not listed its actors", lambda snapshot: snapshot.actors is not None)
groups = _unless("Ray has not listed its placement groups", lambda snapshot: snapshot.placement_groups is not None)
jobs = _unless("Ray has not listed its jobs", lambda snapshot: snapshot.jobs is not None)
resources = _unless("the autoscaler monitor has not reported resource usage", lambda snapshot: snapshot.demand is not None)
allocation = _unless("Slurm has not answered", lambda snapshot: snapshot.allocation)


def slurm_nodes(snapshot: Snapshot) -> MissingFact | None:
    """The states of the Slurm job's nodes."""
    job = snapshot.allocation
    return MissingFact(job.lacks) if job and job.lacks else None


hosts = _on_each_host("no process list from", lambda host: host.processes is not None)
gpus = _on_each_host("no NVML data from", lambda host: host.gpus is not None)
rdma = _on_each_host("no InfiniBand or RoCE ports from", lambda host: host.rdma_ports is not None)
xids = _on_each_host("Xids can't be read on", lambda host: all(gpu.xids is not None for gpu in host.gpus or ()))
raycluster, pods, rayjobs = map(_in_kubernetes, ("raycluster", "pods", "rayjobs"))


def has_rdma(snapshot: Snapshot) -> bool:
    """Whether any probed host has an InfiniBand or RoCE device."""
    return any(host.rdma_ports for host in snapshot.hosts.values())


def has_engines(snapshot: Snapshot) -> bool:
    """Whether any inference engine is known."""
    return bool(snapshot.engines)


def is_in_slurm(snapshot: Snapshot) -> bool:
    """Whether cockpit follows a Slurm job."""
    return snapshot.allocation is not None or any(fault.source == "slurm" for fault in snapshot.faults)


def is_in_kubernetes(snapshot: Snapshot) -> bool:
    """Whether cockpit follows a RayCluster of KubeRay."""
    return snapshot.kubernetes is not None or any(fault.source == "kubernetes" for fault in snapshot.faults)
