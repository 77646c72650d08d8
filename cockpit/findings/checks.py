"""A check: a title, its detectors, and the facts they need; `missing` says which of these a snapshot lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cockpit.findings.tracker import Detector
from cockpit.model import Host, Snapshot
from cockpit.text import plural

MAX_HOSTS_NAMED = 4
"""Hosts that are named; the rest is counted."""

Need = Callable[[Snapshot], str | None]
"""What of it is missing in a snapshot, in words; `None`: nothing."""


class Check(NamedTuple):
    """One subject of the doctor's, looked at by one or more detectors."""

    title: str
    detectors: tuple[Detector, ...]
    needs: tuple[Need, ...] = ()
    watches: str | None = None
    """What of it no single look can tell."""

    def missing(self, snapshot: Snapshot) -> tuple[str, ...]:
        """What could not be looked at, each thing once."""
        return tuple(dict.fromkeys(told for need in self.needs if (told := need(snapshot)) is not None))


def dashboard(snapshot: Snapshot) -> str | None:
    """Ray's dashboard."""
    return None if snapshot.cluster.reachable else "Ray's dashboard does not answer"


def nodes(snapshot: Snapshot) -> str | None:
    """Ray's list of nodes."""
    return "Ray has not listed its nodes" if snapshot.nodes is None else None


def actors(snapshot: Snapshot) -> str | None:
    """Ray's list of actors."""
    return "Ray has not listed its actors" if snapshot.actors is None else None


def groups(snapshot: Snapshot) -> str | None:
    """Ray's list of placement groups."""
    return "Ray has not listed its placement groups" if snapshot.placement_groups is None else None


def jobs(snapshot: Snapshot) -> str | None:
    """Ray's list of jobs."""
    return "Ray has not listed its jobs" if snapshot.jobs is None else None


def resources(snapshot: Snapshot) -> str | None:
    """What the autoscaler's monitor has counted."""
    return "the autoscaler's monitor has not reported resource usage" if snapshot.demand is None else None


def hosts(snapshot: Snapshot) -> str | None:
    """The process table of every host."""
    return _missing_hosts(snapshot, lambda host: host.processes is not None, "no process list from")


def gpus(snapshot: Snapshot) -> str | None:
    """NVML on every host."""
    return _missing_hosts(snapshot, lambda host: host.gpus is not None, "no NVML data from")


def _missing_hosts(snapshot: Snapshot, seen: Callable[[Host], bool], words: str) -> str | None:
    known = {node for host in snapshot.hosts.values() if seen(host) for node in host.nodes}
    living = [node for node in snapshot.nodes or () if node.state == "ALIVE" and node.id]
    blind = [node.title for node in living if node.id not in known]
    if not living:
        return None if any(map(seen, snapshot.hosts.values())) else f"{words} any host"
    return f"{words} {_host_names(blind)}" if blind else None


def _host_names(titles: Sequence[str]) -> str:
    more = f" and {plural(len(titles) - MAX_HOSTS_NAMED, 'more host')}" if len(titles) > MAX_HOSTS_NAMED else ""
    return ", ".join(titles[:MAX_HOSTS_NAMED]) + more
