"""Hosts of the config that are in no cluster, or in another one."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.waiting import joined_names
from cockpit.model import Finding, Node, Remedy
from cockpit.text import plural

MAX_HOSTS_LISTED = 20
"""Hosts that the evidence names."""


def missing_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts of the config on which no node of this cluster lives, nor has lived."""
    snapshot = facts.snapshot
    if not snapshot.cluster.reachable or facts.has_fault("ray.nodes") or not facts.living_nodes:
        return
    if snapshot.allocation and snapshot.allocation.lacks:  # what else Slurm's nodes are called is not known
        return
    lone = [node for node in snapshot.nodes or () if node.id is None and not _is_local(facts, node)]
    missing = [node for node in lone if facts.seconds_lasting("node-missing", node.host) >= facts.limits.node_missing]
    if missing:
        yield _finding(facts, missing)


def _is_local(facts: Facts, node: Node) -> bool:
    """A cluster elsewhere can be watched from a laptop that has a Ray of its own."""
    host = facts.snapshot.hosts.get(node.host)
    return host is not None and host.local


def _finding(facts: Facts, missing: list[Node]) -> Finding:
    one, waits = len(missing) == 1, _has_too_large_waits(facts)
    names = joined_names([node.title for node in missing], len(missing))
    return Finding(
        code="node-missing",
        level="warning" if waits else "info",
        subject="cluster",
        text=f"{names} {'is' if one else 'are'} not in this cluster{_other_cluster_words(facts, missing[0]) if one else ''}"
        f"{'; actors or placement groups that are too large for its nodes wait' if waits else ''}",
        evidence=(
            *(f"{node.title}: {_probe_line(facts, node)}" for node in missing[:MAX_HOSTS_LISTED]),
            f"`ray list nodes` lists {plural(len(facts.living_nodes), 'living node')}, but not {'this host' if one else 'these hosts'}",
        ),
        remedy=Remedy(
            "if it belongs to this cluster: run `ray start --address=…` there; if it has another name in Ray, put its address under `hosts`"
        ),
        about=tuple(node.key for node in missing),
    )


def _has_too_large_waits(facts: Facts) -> bool:
    """Whether something is too large for the nodes that are there."""
    groups, actors = facts.snapshot.placement_groups or (), facts.snapshot.actors or ()
    return any(group.wait == "never" for group in groups) or any(actor.wait == "never" for actor in actors)


def _other_cluster_words(facts: Facts, node: Node) -> str:
    others = _raylet_sessions(facts, node)
    return f": its raylet belongs to another cluster ({others[0]})" if others else ""


def _probe_line(facts: Facts, node: Node) -> str:
    """What a probe sees there."""
    host = facts.snapshot.hosts.get(node.host)
    if host is None or host.rays is None:
        return "no probe data"
    others = _raylet_sessions(facts, node)
    return f"its raylet belongs to {', '.join(others)}" if others else "no raylet runs there"


def _raylet_sessions(facts: Facts, node: Node) -> list[str]:
    host = facts.snapshot.hosts.get(node.host)
    return [ray.session for ray in (host.rays if host else None) or () if ray.role == "raylet" and ray.session]
