"""Plans and deeds of the acts that Ray's job API carries out: a job is stopped and waited for, a finished one deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from cockpit.actions.losses import left_by_job
from cockpit.actions.plan import Plan, Receipt, Target
from cockpit.actions.table import Act, Aim, find_act
from cockpit.actions.words import RAY
from cockpit.lookout import Lookout
from cockpit.model import Job
from cockpit.sources.errand import Progress
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import age

Hear = Callable[[str, Progress], None]


async def plan_job(lookout: Lookout, act: Act, aim: Aim) -> Plan:
    """What would be stopped or deleted, as Ray knows it now. Raises `SourceError`."""
    jobs = await lookout.jobs()
    job = next((job for job in jobs if aim.id in (job.id, job.job)), None)
    if job is None:
        raise NotMeantError(f"Ray knows no job {aim.id}")
    if act.verb == "stop_job" and not job.running:
        return Plan(act.id, act.title, notes=(f"job {job.id} is over already ({job.status})",), hosts=(RAY,))
    why_not = act.why_not(job)
    target = _target(job, why_not)
    left = left_by_job(lookout.poller.snapshot, job.id) if act.verb == "stop_job" else ()
    targets, refused = ((), (target,)) if why_not else ((target,), ())
    return Plan(act.id, act.title, targets=targets, refused=refused, notes=left, hosts=(RAY,))


def _target(job: Job, why_not: str | None) -> Target:
    why = tuple(text.strip().splitlines()[0] for text in (job.entrypoint, job.message) if text and text.strip())
    return Target("job", RAY, why, id=job.id, job=job.job, state=job.status, started=job.started, reason=why_not)


async def perform_job(lookout: Lookout, plan: Plan, hear: Hear) -> Receipt:
    """Done only to the same job: same id, same start."""
    (target,) = plan.targets
    hear(RAY, Progress(f"{plan.title} {target.id}"))
    changed = partial(replace, target)
    try:
        outcome, notes = await _done(lookout, find_act(plan.act).verb, target)
    except NotMeantError as error:
        return Receipt(plan.act, plan.title, refused=(changed(reason=str(error)),), hosts=plan.hosts)
    except SourceError as error:
        return Receipt(plan.act, plan.title, failed=(changed(error=str(error)),), hosts=plan.hosts)
    return Receipt(plan.act, plan.title, done=(changed(outcome=outcome),), notes=notes, hosts=plan.hosts)


async def _done(lookout: Lookout, verb: str, target: Target) -> tuple[str, tuple[str, ...]]:
    """What became of it, and what it has left behind."""
    name = target.id or ""
    if verb == "delete_job":
        await lookout.job_acts().delete_job(name, target.started)
        return "deleted from Ray's list", ()
    ended = await lookout.job_acts().stop_job(name, target.started)
    outcome = f"had ended by itself ({ended.job.status})" if ended.already else f"{ended.job.status} after {age(ended.took)}"
    return outcome, left_by_job(lookout.poller.snapshot, name)
