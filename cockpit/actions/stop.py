"""Defines the action that stops one Ray session on all its hosts or on some, or every Ray on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from cockpit.actions import losses
from cockpit.actions.action import Flag, Impact, Nouns, session_word
from cockpit.actions.on_hosts import FORCE, GRACE, HostAction, without_none
from cockpit.actions.plan import ActionTarget, Plan, Unreached
from cockpit.model import Session, Snapshot

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress


class Stop(HostAction):
    """Stops the named session, or the followed one; never a session only because it lives on a host."""

    id = "stop"
    keys = "S"
    title = "Stop Ray"
    help = "Stop one Ray session on all its hosts, or on some"
    flags = (
        Flag("session", "--session", "name", "Which Ray session, if several are running.", "NAME"),
        Flag("everything", "--everything", "switch", "Every Ray on the hosts, with `ray stop`."),
        FORCE,
        GRACE,
    )
    nouns: ClassVar[Nouns] = {"process": ("process", "processes")}
    also_takes = Session
    why_not_in_pods = (
        "KubeRay runs this Ray cluster and would start it again: delete the pod of a node (`cockpit delete-pod NODE`), "
        "or suspend or delete the RayCluster with kubectl"
    )
    is_for_followed = True
    allows_ray = False  # it would end the tunnel
    grace_s = 16.0  # Ray's own (scripts.py, `ray stop --grace-period`)

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        more = {"slurm": list(requested.slurm_ids)} if requested.slurm_ids else {}
        return without_none(
            act="stop", session=requested.session, everything=requested.everything, force=requested.force, grace=requested.grace, **more
        )

    def combine_into_target(self, rows: Sequence[Session]) -> ActionTarget | str:
        """Allow rows of one session, on any number of hosts."""
        names = tuple(dict.fromkeys(row.name for row in rows))
        return (
            ActionTarget(session=names[0])
            if len(names) == 1
            else f"{self.title}: one at a time, but rows of {len(names)} sessions are tagged"
        )

    def with_session(self, requested: ActionTarget, context: ActionContext) -> ActionTarget:
        return replace(requested, session=context.session(requested), slurm_ids=tuple(sorted(context.snapshot.slurm_ids)))

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        """Plan for one session. Raise `UnclearSessionError` if the hosts have several, because a person must choose."""
        plan = await super().plan(requested, context, on_progress)
        sessions = set() if requested.everything else {target.session for target in plan.targets if target.session}
        if len(sessions) > 1:
            raise context.unclear_session(sessions)
        return plan

    def with_unknown_hosts(self, plan: Plan, unknown: str, context: ActionContext) -> Plan:
        """Count unknown hosts as not reached, because Ray would not be stopped there. Their work is unknown too."""
        if not plan.targets:
            return super().with_unknown_hosts(plan, unknown, context)
        has_ray = any(target.kind == "ray" for target in plan.targets)
        more = ("there may be more work in this Ray session: its dashboard has not answered",) if has_ray else ()
        return replace(plan, losses=(*plan.losses, *more), unreached=(*plan.unreached, Unreached("other hosts", unknown)))

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        """Return all work in the session. The work of a Ray that is not followed is unknown here."""
        hosts = {target.host for target in plan.targets}
        if snapshot.cluster.session not in {target.session for target in plan.targets}:
            hosts = set()
        ends = losses.lost_with_session(snapshot, hosts | {addresses[host] for host in hosts if host in addresses})
        if any(target.beyond for target in plan.targets):
            return Impact(ends, "everything")
        at_work = ends or plan.losses or any(target.part in ("driver", "child") for target in plan.targets)
        name = next((target.session for target in plan.targets if target.session), snapshot.cluster.session)
        return Impact(ends, session_word(name or "stop") if at_work else None)
