"""Hosts that somebody counts on, and that are in no cluster, or in another one."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.waiting import listed
from cockpit.model import Finding, Node, Remedy
from cockpit.text import plural

MOST = 20
"""Hosts that the evidence names."""


def missing_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts of the config on which no node of this cluster lives, nor has lived."""
    snapshot = facts.snapshot
    if not snapshot.cluster.reachable or facts.fault("ray.nodes") or not facts.alive:
        return
    lone = [node for node in snapshot.nodes or () if node.id is None and not _here(facts, node)]
    missing = [node for node in lone if facts.lasts("node-missing", node.host) >= facts.limits.node_missing]
    if missing:
        yield _finding(facts, missing)


def _here(facts: Facts, node: Node) -> bool:
    """A cluster elsewhere can be watched from a laptop that has a Ray of its own."""
    host = facts.snapshot.hosts.get(node.host)
    return host is not None and host.local


def _finding(facts: Facts, missing: list[Node]) -> Finding:
    one, waits = len(missing) == 1, _waits(facts)
    names = listed([node.title for node in missing], len(missing))
    return Finding(
        code="node-missing",
        level="warning" if waits else "info",
        subject="cluster",
        text=f"{names}{_but(facts, missing[0]) if one else ''} {'is' if one else 'are'} not in this cluster"
        f"{', in which something waits for what its nodes can not hold' if waits else ''}",
        evidence=(
            *(f"{node.title}: {_shows(facts, node)}" for node in missing[:MOST]),
            f"`ray list nodes` lists {plural(len(facts.alive), 'living node')}, and none of {'it' if one else 'them'}",
        ),
        remedy=Remedy(
            "if it belongs to it: `ray start --address=…` there; if Ray knows it by another name, give its address under `hosts`"
        ),
        about=tuple(node.key for node in missing),
    )


def _waits(facts: Facts) -> bool:
    """Whether something is too large for the nodes that are there."""
    groups, actors = facts.snapshot.placement_groups or (), facts.snapshot.actors or ()
    return any(group.wait == "never" for group in groups) or any(actor.wait == "never" for actor in actors)


def _but(facts: Facts, node: Node) -> str:
    others = _sessions(facts, node)
    return f" runs a raylet of another cluster ({others[0]}) and" if others else ""


def _shows(facts: Facts, node: Node) -> str:
    """What a probe sees there."""
    host = facts.snapshot.hosts.get(node.host)
    if host is None or host.rays is None:
        return "no probe has looked at it"
    others = _sessions(facts, node)
    return f"its raylet is of {', '.join(others)}" if others else "no raylet runs there"


def _sessions(facts: Facts, node: Node) -> list[str]:
    host = facts.snapshot.hosts.get(node.host)
    return [ray.session for ray in (host.rays if host else None) or () if ray.role == "raylet" and ray.session]
