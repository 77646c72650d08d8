"""Defines the actions on a live Ray, done with Ray's own stubs in its own Python: kill an actor, remove a placement group, drain a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from cockpit.actions import losses
from cockpit.actions.action import Impact, Nouns
from cockpit.actions.on_hosts import HostAction, without_none
from cockpit.actions.plan import ActionTarget, Plan, Target
from cockpit.model import Actor, Node, PlacementGroup, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import plural

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress

ENDED_STATES = ("DEAD", "REMOVED", "DRAINING")
MAX_AT_ONCE = 100
"""Targets in one request: the program that asks Ray about them has a few seconds for all of them."""


class RayAction(HostAction):
    """The base class of these actions: one host with a live raylet of the cluster performs them."""

    verb: ClassVar[str]
    """Its name in the probe."""
    operand = "ray_id"
    id_digits: ClassVar[tuple[int, ...]] = (32, 36)  # of actors and of placement groups: the probe says which of them it is
    max_rows = MAX_AT_ONCE
    is_for_followed = True

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        return without_none(act="ray", verb=self.verb, ids=[row.id for row in requested.rows] or [requested.id], session=requested.session)

    def with_session(self, requested: ActionTarget, context: ActionContext) -> ActionTarget:
        return replace(requested, session=context.session(requested))

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        """Raise `SourceError` also if Ray knows nothing with the id that was typed."""
        plan = await super().plan(requested, context, on_progress)
        unknown = [target for target in plan.refused if target.what in self.nouns and target.state is None]
        if unknown and not requested.rows:
            raise SourceError(unknown[0].reason or "")
        return plan

    def is_requested(self, refused: Target, plan: Plan) -> bool:
        """A refused target that has ended needs no action."""
        return refused.state not in ENDED_STATES

    def hosts(self, requested: ActionTarget, context: ActionContext) -> tuple[str, ...]:
        return (context.ray_host(),)

    def unknown_hosts(self, requested: ActionTarget, context: ActionContext) -> str | None:
        """Return `None`: only the GCS is asked, so other hosts don't matter."""
        return None


class KillActor(RayAction):
    """Kills actors of any job."""

    id = "kill-actor"
    keys = "K,f9"
    title = "Kill actor"
    help = "Kill an actor through Ray; it is not restarted"
    verb = "kill_actor"
    takes = Actor
    noun = "an actor"
    nouns: ClassVar[Nouns] = {"actor": ("actor", "actors")}

    def why_not(self, row: Actor) -> str | None:
        return "That actor is dead" if row.state == "DEAD" else None

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        ends = tuple(dict.fromkeys(line for target in plan.targets for line in losses.lost_with_actor(snapshot, target.id or "")))
        (target, *others) = plan.targets
        return Impact(ends, f"{len(plan.targets)} actors" if others else target.name or target.class_ or (target.id or "")[:8])


class RemovePlacementGroup(RayAction):
    """Removes placement groups, with the actors and tasks in them."""

    id = "remove-placement-group"
    keys = "X"
    title = "Remove group"
    help = "Remove a placement group, its actors and tasks"
    verb = "remove_placement_group"
    takes = PlacementGroup
    noun = "a placement group"
    nouns: ClassVar[Nouns] = {"placement_group": ("placement group", "placement groups")}

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """A used group needs its name as the word, several need their number, a leaked group needs none."""
        ends = {target: losses.lost_with_group(snapshot, target.id or "") for target in plan.targets}
        used = [target for target, lines in ends.items() if lines and not target.leaked]
        all_ends = tuple(dict.fromkeys(line for lines in ends.values() for line in lines))
        if not used or len(plan.targets) > 1:
            return Impact(all_ends, f"{len(plan.targets)} groups" if used else None)
        return Impact(all_ends, used[0].name or (used[0].id or "")[:8])


class DrainNode(RayAction):
    """Drains nodes. This can't be undone, so it always needs a word, even if nothing runs there."""

    id = "drain-node"
    keys = "D"
    title = "Drain node"
    help = "Drain a node: no new work; Ray stops when idle"
    why_word = "This can't be undone: the node takes no new work."
    verb = "drain_node"
    takes = Node
    noun = "a node"
    nouns: ClassVar[Nouns] = {"node": ("node", "nodes")}
    id_digits = (56,)

    def why_not(self, row: Node) -> str | None:
        if row.id is None or row.state == "DEAD":
            return f"No live Ray on {row.title}"
        return f"{row.title} is the head node, which can't be drained; S stops this Ray session" if row.head else None

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        ends, names = [], [target.name or (target.id or "")[:8] for target in plan.targets]
        for target, name in zip(plan.targets, names, strict=True):
            ends.append(f"node {name} takes no new work, and its Ray stops when nothing runs there; this can't be undone")
            if snapshot.actors is None:
                ends.append(f"the actors on {name} are unknown")
            alive = [actor for actor in snapshot.actors or () if actor.node == target.id and actor.state == "ALIVE"]
            if alive:
                ending = "continues until its job ends it" if len(alive) == 1 else "continue until their jobs end them"
                ends.append(f"{plural(len(alive), 'actor')} on {name} {ending}")
        return Impact(tuple(ends), f"{len(names)} nodes" if len(names) > 1 else names[0])
