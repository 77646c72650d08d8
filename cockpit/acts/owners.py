"""Whose the processes of a plan are: a host's probe names jobs and sessions, and only who follows a Ray knows which of them are its own."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cockpit.acts.plan import Plan, Target
from cockpit.model import Process, Snapshot, describe_owner


def owners_of(targets: Sequence[Target], snapshot: Snapshot) -> list[str | None]:
    """Of each target in words, where it is another Ray, or can't be told; `None`: the followed cluster, or nobody of Ray's."""
    known = {(process.host, process.pid, process.ticks): process for process in snapshot.processes or ()}
    return [_owner(target, known.get((target.host, target.pid or 0, target.ticks)), snapshot.cluster.session) for target in targets]


def with_owners(plan: Plan, snapshot: Snapshot) -> Plan:
    """The plan in which each process of another Ray says first whose it is, and reasons call our jobs as people do."""
    return replace(plan, targets=_name_owners(plan.targets, snapshot), refused=_name_owners(plan.refused, snapshot))


def _owner(target: Target, process: Process | None, followed: str | None) -> str | None:
    if process is not None and (process.ours or process.job or process.other_owner):
        return process.other_owner
    if target.session is None or followed is None:
        return describe_owner(target.job, target.session, another=False) if target.job else None
    return None if target.session == followed else describe_owner(target.job, target.session, another=True)


def _name_owners(targets: Sequence[Target], snapshot: Snapshot) -> tuple[Target, ...]:
    pairs = zip(targets, owners_of(targets, snapshot), strict=True)
    return tuple(replace(target, why=_reasons(target, snapshot) if owner is None else (owner, *target.why)) for target, owner in pairs)


def _reasons(target: Target, snapshot: Snapshot) -> tuple[str, ...]:
    """A probe knows Ray's own id of a job alone."""
    name = next((job.id for job in snapshot.jobs or () if target.job and job.job == target.job), None)
    if name is None or target.session is None or target.session != snapshot.cluster.session:
        return target.why
    return tuple(reason.replace(f"job {target.job} ", f"job {name} ") for reason in target.why)
