"""What only who follows a Ray knows of a probe's targets: whose they are, what people call their jobs, which GPUs Ray says they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from cockpit.acts.plan import Plan, Target
from cockpit.model import Process, Snapshot, describe_owner

_RAYS_ID: Final = re.compile(r"\b(?:job [0-9a-f]{8}|actor [0-9a-f]{32})\b")


def owners_of(targets: Sequence[Target], snapshot: Snapshot) -> list[str | None]:
    """Of each target in words, where it is another Ray, or can't be told; `None`: the followed cluster, or nobody of Ray's."""
    known = {(process.host, process.pid, process.ticks): process for process in snapshot.processes or ()}
    return [_owner(target, known.get((target.host, target.pid or 0, target.ticks)), snapshot.cluster.session) for target in targets]


def with_owners(plan: Plan, snapshot: Snapshot) -> Plan:
    """The plan in which each process of another Ray says first whose it is."""
    return replace(plan, targets=_name_owners(plan.targets, snapshot), refused=_name_owners(plan.refused, snapshot))


def with_names(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    """Of the followed cluster, sentences call jobs and actors as people do: a probe knows Ray's own ids alone."""
    names = {f"job {job.job}": f"job {job.id}" for job in snapshot.jobs or () if job.job}
    names |= {f"actor {actor.id}": f"actor {actor.name or actor.class_}" for actor in snapshot.actors or () if actor.name or actor.class_}

    def name_ids(text: str | None) -> str | None:
        return text and _RAYS_ID.sub(lambda found: names.get(found[0], found[0]), text)

    def name_ids_in(target: Target) -> Target:
        if target.session is None or target.session != snapshot.cluster.session:
            return target
        why = tuple(name_ids(reason) or "" for reason in target.why)
        return replace(target, why=why, reason=name_ids(target.reason), error=name_ids(target.error), outcome=name_ids(target.outcome))

    return tuple(map(name_ids_in, targets))


def with_gpus(plan: Plan, snapshot: Snapshot) -> Plan:
    """What Ray's agents count: of several raylets on a host each may have been given GPUs that its probe doesn't see."""
    held = {(process.host, process.pid, process.ticks): process.gpus for process in snapshot.processes or ()}
    targets = (replace(one, gpus=one.gpus or held.get((one.host, one.pid or 0, one.ticks), ())) for one in plan.targets)
    return replace(plan, targets=tuple(targets))


def _owner(target: Target, process: Process | None, followed: str | None) -> str | None:
    if process is not None and (process.ours or process.job or process.other_owner):
        return process.other_owner
    if target.session is None or followed is None:
        return describe_owner(target.job, target.session, another=False) if target.job else None
    return None if target.session == followed else describe_owner(target.job, target.session, another=True)


def _name_owners(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    pairs = zip(targets, owners_of(targets, snapshot), strict=True)
    return tuple(target if owner is None else replace(target, why=(owner, *target.why)) for target, owner in pairs)
