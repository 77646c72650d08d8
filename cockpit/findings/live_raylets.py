"""The raylets of the followed cluster that probes see now, each with its node and host."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cockpit.findings.facts import Facts
from cockpit.model import Host, Node, RayProcess


class LiveRaylet(msgspec.Struct, frozen=True):
    """A living node, the host that it runs on, and its raylet there."""

    node: Node
    host: Host
    raylet: RayProcess


def live_raylets(facts: Facts) -> Iterator[LiveRaylet]:
    """Only what is known to be true now: of no host whose facts are old, and nothing while Ray's list of nodes can't be believed."""
    if facts.has_fault("ray.nodes"):
        return
    alive = {node.id: node for node in facts.living_nodes}
    for host in facts.fresh_hosts:
        if any(fault.source == "rays" for fault in host.faults):
            continue
        for raylet in host.rays or ():
            if raylet.role == "raylet" and raylet.node in alive:
                yield LiveRaylet(alive[raylet.node], host, raylet)


def is_spread(facts: Facts) -> bool:
    """Whether the cluster has living nodes on several hosts: nodes on one host have one address."""
    return len({node.ip for node in facts.living_nodes if node.ip}) > 1
