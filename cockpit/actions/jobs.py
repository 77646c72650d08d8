"""Defines the actions of Ray's job API: stop a job and wait for its end, and delete a finished job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from cockpit.actions.action import Action, Impact, Nouns, plan_one
from cockpit.actions.losses import left_by_job, lost_with_job
from cockpit.actions.plan import RAY, ActionTarget, Plan, Receipt, Target
from cockpit.model import Job, Snapshot
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import age

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext, OnProgress
    from cockpit.monitor.monitor import ClusterMonitor

MAX_NAMED_JOBS = 8
Outcome = tuple[str, tuple[str, ...]]
"""The result for a job, and sentences about what it leaves behind."""


class JobAction(Action):
    """The base class of these actions: the target is one job, as Ray lists it at that moment."""

    operand = "id"
    takes = Job
    noun = "a job"
    nouns: ClassVar[Nouns] = {"job": ("job", "jobs")}
    is_for_followed = True

    @abstractmethod
    async def carry_out(self, target: Target, monitor: ClusterMonitor) -> Outcome:
        """Do it if the job is the same: same id, same start. Raises `NotMeantError` if it is another, and `SourceError`."""

    async def find_job(self, requested: ActionTarget, context: ActionContext) -> tuple[Job, Target]:
        """Return the job, and the job as a target. Raises `SourceError` if Ray does not list it."""
        jobs = await context.monitor.jobs()
        job = next((job for job in jobs if requested.id in (job.id, job.job)), None)
        if job is None:
            running = ", ".join([job.id for job in jobs if job.running][:MAX_NAMED_JOBS])
            raise SourceError(f"Ray has no job {requested.id}; {f'running: {running}' if running else 'none is running'}")
        why = tuple(text.strip().splitlines()[0] for text in (job.entrypoint, job.message) if text and text.strip())
        target = Target("job", RAY, why, id=job.id, job=job.job, state=job.status, started=job.started, reason=self.why_not(job))
        return job, target

    async def perform(self, plan: Plan, context: ActionContext, on_progress: OnProgress) -> Receipt:
        from cockpit.sources.probes.requests import Progress  # deferred, as in `action.py`; by now it is imported anyway

        (target,) = plan.targets
        on_progress(RAY, Progress(f"{plan.title} {target.id}"))
        try:
            outcome, notes = await self.carry_out(target, context.monitor)
        except NotMeantError as error:
            return plan.receipt(refused=(replace(target, reason=str(error)),))
        except SourceError as error:
            return plan.receipt(failed=(replace(target, error=str(error)),))
        return plan.receipt(done=(replace(target, outcome=outcome),), notes=notes)


class StopJob(JobAction):
    """Stops a job. A job that has already ended is no failure."""

    id = "stop-job"
    keys = "J"
    title = "Stop job"
    help = "Stop a job and wait until it has ended"

    def why_not(self, row: Job) -> str | None:
        return None if row.running else f"Job {row.id} has already ended ({row.status})"

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        job, target = await self.find_job(requested, context)
        if not job.running:
            return Plan(self.id, self.title, notes=(f"job {job.id} has already ended ({job.status})",), hosts=(RAY,))
        return plan_one(self, target, left_by_job(context.snapshot, job.id))

    async def carry_out(self, target: Target, monitor: ClusterMonitor) -> Outcome:
        name = target.id or ""
        ended = await monitor.choice.followed_ray().job_actions().stop_job(name, target.started)
        outcome = f"had already ended ({ended.job.status})" if ended.already else f"{ended.job.status} after {age(ended.took)}"
        return outcome, left_by_job(monitor.poller.snapshot, name)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        (target, *_) = plan.targets
        return Impact(lost_with_job(snapshot, target.id or ""), target.id)


class DeleteJob(JobAction):
    """Deletes a finished job from Ray's list."""

    id = "delete-job"
    keys = "X"
    title = "Delete job"
    help = "Delete a finished job from Ray's list"

    def why_not(self, row: Job) -> str | None:
        return f"Job {row.id} is still running: stop it first" if row.running else None

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        _, target = await self.find_job(requested, context)
        return plan_one(self, target, ())

    async def carry_out(self, target: Target, monitor: ClusterMonitor) -> Outcome:
        await monitor.choice.followed_ray().job_actions().delete_job(target.id or "", target.started)
        return "deleted from Ray's list", ()

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        return Impact()
