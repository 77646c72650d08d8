"""A check: a title, its detectors, and the facts they need; `missing` says which of these a snapshot lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cockpit.findings.tracker import Detector
from cockpit.model import Host, Node, Snapshot
from cockpit.text import plural

MAX_HOSTS_NAMED = 4
"""Hosts that are named; the rest is counted."""


class Lack(NamedTuple):
    """What a source has not told."""

    words: str
    whole: bool = True
    """Nothing at all of it is known."""


Need = Callable[[Snapshot], Lack | None]
"""What of a source is missing in a snapshot; `None`: nothing."""


class Check(NamedTuple):
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
        return any(_is_silent(need, snapshot) for need in self.needs) or (
            not self.needs and all(_is_silent(need, snapshot) for need in self.helps)
        )


def _is_silent(need: Need, snapshot: Snapshot) -> bool:
    lack = need(snapshot)
    return lack is not None and lack.whole


def dashboard(snapshot: Snapshot) -> Lack | None:
    """Ray's dashboard."""
    return None if snapshot.cluster.reachable else Lack("Ray's dashboard does not answer")


def nodes(snapshot: Snapshot) -> Lack | None:
    """Ray's list of nodes; those without an id are hosts of the config."""
    return None if any(node.id for node in snapshot.nodes or ()) else Lack("Ray has not listed its nodes")


def actors(snapshot: Snapshot) -> Lack | None:
    """Ray's list of actors."""
    return Lack("Ray has not listed its actors") if snapshot.actors is None else None


def groups(snapshot: Snapshot) -> Lack | None:
    """Ray's list of placement groups."""
    return Lack("Ray has not listed its placement groups") if snapshot.placement_groups is None else None


def jobs(snapshot: Snapshot) -> Lack | None:
    """Ray's list of jobs."""
    return Lack("Ray has not listed its jobs") if snapshot.jobs is None else None


def resources(snapshot: Snapshot) -> Lack | None:
    """What the autoscaler's monitor has counted."""
    return Lack("the autoscaler's monitor has not reported resource usage") if snapshot.demand is None else None


def is_in_slurm(snapshot: Snapshot) -> bool:
    """Whether cockpit was told of a job of Slurm's."""
    return snapshot.allocation is not None or any(fault.source == "slurm" for fault in snapshot.faults)


def allocation(snapshot: Snapshot) -> Lack | None:
    """What Slurm says of its job."""
    return None if snapshot.allocation else Lack("Slurm has not answered")


def is_in_kubernetes(snapshot: Snapshot) -> bool:
    """Whether cockpit was told of a RayCluster of KubeRay's."""
    return snapshot.kubernetes is not None or any(fault.source == "kubernetes" for fault in snapshot.faults)


def raycluster(snapshot: Snapshot) -> Lack | None:
    """The RayCluster itself."""
    return _lack_in_kubernetes(snapshot, "raycluster")


def pods(snapshot: Snapshot) -> Lack | None:
    """Its pods."""
    return _lack_in_kubernetes(snapshot, "pods")


def rayjobs(snapshot: Snapshot) -> Lack | None:
    """The RayJobs on it."""
    return _lack_in_kubernetes(snapshot, "rayjobs")


def _lack_in_kubernetes(snapshot: Snapshot, part: str) -> Lack | None:
    cluster = snapshot.kubernetes
    if cluster is None:
        return Lack("Kubernetes has not answered")
    return Lack(cluster.lacks[part]) if part in cluster.lacks else None


def hosts(snapshot: Snapshot) -> Lack | None:
    """The process table of every host."""
    return _missing_hosts(snapshot, lambda host: host.processes is not None, "no process list from")


def gpus(snapshot: Snapshot) -> Lack | None:
    """NVML on every host, as a probe sees it."""
    return _missing_hosts(snapshot, lambda host: host.gpus is not None, "no NVML data from")


def xids(snapshot: Snapshot) -> Lack | None:
    """Xids of every GPU, as the kernel's log or NVML's events tell them."""
    return _missing_hosts(snapshot, lambda host: all(gpu.xids is not None for gpu in host.gpus or ()), "Xids can't be read on")


def listed_gpus(snapshot: Snapshot) -> Lack | None:
    """The GPUs of every node, as a probe or Ray's agent sees them."""
    living = _living_nodes(snapshot)
    blind = [node for node in living if node.gpus is None]
    return _blind_nodes("no source lists the GPUs of", blind, living) if blind or not living else None


def _missing_hosts(snapshot: Snapshot, seen: Callable[[Host], bool], words: str) -> Lack | None:
    known = {node for host in snapshot.hosts.values() if seen(host) for node in host.nodes}
    living = _living_nodes(snapshot)
    blind = [node for node in living if node.id not in known]
    if not living and any(map(seen, snapshot.hosts.values())):
        return None
    return _blind_nodes(words, blind, living) if blind or not living else None


def _living_nodes(snapshot: Snapshot) -> list[Node]:
    return [node for node in snapshot.nodes or () if node.state == "ALIVE" and node.id]


def _blind_nodes(words: str, blind: Sequence[Node], living: Sequence[Node]) -> Lack:
    return Lack(f"{words} {_host_names([node.title for node in blind]) or 'any host'}", whole=len(blind) == len(living))


def _host_names(titles: Sequence[str]) -> str:
    more = f" and {plural(len(titles) - MAX_HOSTS_NAMED, 'more host')}" if len(titles) > MAX_HOSTS_NAMED else ""
    return ", ".join(titles[:MAX_HOSTS_NAMED]) + more
