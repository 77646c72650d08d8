"""A node of a live Ray is drained: Ray places nothing new there, and ends there as soon as nothing runs on it any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from cockpit.acts.act import Impact, Nouns
from cockpit.acts.in_ray import RayAct
from cockpit.acts.plan import Plan, Target
from cockpit.model import Node, Snapshot
from cockpit.text import plural


class DrainNode(RayAct):
    """It can't be taken back, so that a word is asked for also where nothing runs."""

    id = "drain-node"
    keys = "D"
    title = "Drain node"
    help = "Drain a node: no new work, then its Ray stops"
    verb = "drain_node"
    takes = Node
    noun = "a node"
    nouns: ClassVar[Nouns] = {"node": ("node", "nodes")}
    id_digits = (56,)

    def why_not(self, row: Node) -> str | None:
        """There may be no Ray on it; and a cluster can't do without its head."""
        if row.id is None or row.state == "DEAD":
            return f"No live Ray on {row.title}"
        return f"{row.title} is the head node, which can't be drained; S stops all of Ray" if row.head else None

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:  # noqa: ARG002 as its sisters
        """One is named, several are counted."""
        ends = tuple(line for target in plan.targets for line in _ends(target, snapshot))
        (target, *others) = plan.targets
        return Impact(ends, f"{len(plan.targets)} nodes" if others else target.name or (target.id or "")[:8])


def _ends(target: Target, snapshot: Snapshot) -> Iterator[str]:
    name = target.name or (target.id or "")[:8]
    yield f"node {name} takes no new work, and its Ray stops when nothing runs there; this can't be undone"
    if snapshot.actors is None:
        yield f"which actors run on {name} is not known"
    alive = [actor for actor in snapshot.actors or () if actor.node == target.id and actor.state == "ALIVE"]
    if alive:
        yield f"{plural(len(alive), 'actor')} on {name} {'continues' if len(alive) == 1 else 'continue'} until their jobs end them"
