"""The raylets of the followed cluster that probes see now, each with its node and host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.model import Host, Node, RayProcess


class LiveRaylet(msgspec.Struct, frozen=True):
    """A living node, the host that it runs on, and its raylet there."""

    node: Node
    host: Host
    raylet: RayProcess


def live_raylets(facts: Facts) -> Iterator[LiveRaylet]:
    """One for each node: only what is known to be true now.

    Nothing is told of a host whose facts are old, and nothing while Ray's list of nodes can't be believed. Any user can start a process
    that looks like the raylet of a node: see `_real_raylet`.
    """
    if facts.has_fault("ray.nodes"):
        return
    alive = {node.id: node for node in facts.living_nodes}
    claims: dict[str | None, list[LiveRaylet]] = {}
    for host in facts.fresh_hosts:
        if any(fault.source == "rays" for fault in host.faults):
            continue
        for raylet in host.rays or ():
            if raylet.role == "raylet" and raylet.node in alive:
                claims.setdefault(raylet.node, []).append(LiveRaylet(alive[raylet.node], host, raylet))
    yield from filter(None, map(_real_raylet, claims.values()))


def _real_raylet(claims: Sequence[LiveRaylet]) -> LiveRaylet | None:
    """The raylet of a node, of the processes that claim to be it; `None` where that can't be told.

    A process of root's or our own is preferred (only of these a probe reads the flags), then one on a host that has the node's address.
    """
    several = [live for live in claims if live.raylet.start is not None] or claims
    several = [live for live in several if live.node.ip in live.host.addresses] or several
    processes = {(live.host.machine or live.host.name, live.raylet.pid) for live in several}
    return several[0] if len(processes) == 1 else None


def is_spread(facts: Facts) -> bool:
    """Whether the cluster has living nodes on several hosts: nodes on one host have one address."""
    return len({node.ip for node in facts.living_nodes if node.ip}) > 1
