"""Finds the raylets of the followed cluster that probes see now, each with its node and host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.model import Host, Node, RayProcess


class LiveRaylet(msgspec.Struct, frozen=True):
    """A living node, its host, and its raylet."""

    node: Node
    host: Host
    raylet: RayProcess


def live_raylets(facts: Facts) -> Iterator[LiveRaylet]:
    """One raylet for each node, from fresh facts only; none while Ray's node list fails.

    Any user can start a process that looks like the raylet of a node: see `_real_raylet`.
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
    """The real one of the processes that claim to be the raylet of a node; `None` if it is unclear.

    Processes of root or of our own user are preferred (a probe reads only their flags), then those on a host with the node's address.
    """
    several = [live for live in claims if live.raylet.start is not None] or claims
    several = [live for live in several if live.node.ip in live.host.addresses] or several
    processes = {(live.host.machine or live.host.name, live.raylet.pid) for live in several}
    return several[0] if len(processes) == 1 else None


def is_spread(facts: Facts) -> bool:
    """Whether the cluster has living nodes on several hosts: nodes of one host have the same address."""
    return len({node.ip for node in facts.living_nodes if node.ip}) > 1
