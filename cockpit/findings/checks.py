"""A check: a title, its detectors, and the facts they need; `missing` says which of these a snapshot lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cockpit.findings.sources import Detector
from cockpit.model import Host, Node, Snapshot
from cockpit.text import plural

MAX_HOSTS_NAMED = 4


class MissingFact(msgspec.Struct, frozen=True):
    """What a source has not told."""

    words: str
    whole: bool = True
    """Nothing at all of it is known."""


Need = Callable[[Snapshot], MissingFact | None]
"""What of a source is missing in a snapshot; `None`: nothing."""


class Check(msgspec.Struct, frozen=True):
    """One subject of the doctor's, looked at by one or more detectors."""

    title: str
    detectors: tuple[Detector, ...]
    needs: tuple[Need, ...] = ()
    """Without any one of these nothing is checked."""
    helps: tuple[Need, ...] = ()
    """With these more is checked; where it `needs` none, one of them at least must have told something."""
    watches: str | None = None
    """What of it no single look can find."""
    at_once: bool = True
    """Whether a single look finds the rest; else there is no rest."""
    concerns: Callable[[Snapshot], bool] = lambda _: True
    """Whether there is at all what it looks at; else nobody is told of it."""

    def missing(self, snapshot: Snapshot) -> tuple[str, ...]:
        """What could not be looked at, each thing once."""
        return tuple(dict.fromkeys(lack.words for need in (*self.needs, *self.helps) if (lack := need(snapshot))))

    def is_blind(self, snapshot: Snapshot) -> bool:
        """Whether too little is known to check anything."""
        if not self.needs:
            return all(_is_silent(need, snapshot) for need in self.helps)
        return any(_is_silent(need, snapshot) for need in self.needs)


def _is_silent(need: Need, snapshot: Snapshot) -> bool:
    lack = need(snapshot)
    return lack is not None and lack.whole


def _unless(words: str, is_told: Callable[[Snapshot], object]) -> Need:
    return lambda snapshot: None if is_told(snapshot) else MissingFact(words)


def _on_each_host(words: str, is_seen: Callable[[Host], bool]) -> Need:
    """What a probe tells of each host on which a node lives."""

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
    """The GPUs of every node, as a probe or Ray's agent sees them."""
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
"""Those without an id are hosts of the config."""
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


def is_in_slurm(snapshot: Snapshot) -> bool:
    """Whether cockpit was told of a Slurm job."""
    return snapshot.allocation is not None or any(fault.source == "slurm" for fault in snapshot.faults)


def is_in_kubernetes(snapshot: Snapshot) -> bool:
    """Whether cockpit was told of a RayCluster of KubeRay's."""
    return snapshot.kubernetes is not None or any(fault.source == "kubernetes" for fault in snapshot.faults)
