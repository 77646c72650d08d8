"""Plans the launch of a preset's job, and submits the job exactly once.

Which races end in one job:

* The same plan is performed twice. Each plan has a key, which goes into the job's metadata. Before a submission cockpit asks Ray for a job
  with this key. Within one cockpit the executor performs one action at a time.
* Anybody launches a second job while the first is pending or runs, or began a moment ago (`DOUBLE_PRESS_S`). The plan says so, and asks
  the operator to type the preset's name. If the first job was launched after the plan was made, nothing is submitted.
* Two operators launch in the same moment, and neither can see the other's job yet. Both make the same id: the preset's template with the
  minute of *Ray's* clock, taken from the very answer that showed no other job, and the next number if earlier jobs have that id. Ray
  accepts an id once, atomically; the second operator finds the first one's job under it, and sees a message. In the last
  `MINUTE_END_GUARD_S` of a minute cockpit waits for the next minute and lists the jobs again. So of two operators who listed the jobs in
  different minutes the later one sees the job of the earlier one, unless Ray needed longer than that to record it. After such a slow
  answer cockpit lists the jobs once more, and reports a second job.

A job without a preset is launched again in the same way; the first such job then stands for the preset.

Not covered: presets with different names, or with the same name and different templates, are different jobs for Ray, and here too.

Only `Launches` holds secrets, from the plan to the submission. A plan, a receipt and the log of actions hold the preset's own text, in
which secrets are names.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

from cockpit.actions.action import Action
from cockpit.actions.action_context import OnProgress
from cockpit.actions.launch.package import Package
from cockpit.actions.launch.submission import (
    Order,
    check_uploaded,
    content_of,
    name_for,
    order_of,
    order_of_job,
    pack_working_dir,
    secret_hider,
)
from cockpit.actions.plan import RAY, ActionTarget, Plan, Receipt, Target
from cockpit.check.preset import sample_and_check
from cockpit.check.result import CheckOutcome
from cockpit.check.result_text import verdict
from cockpit.config.document import InputError
from cockpit.model import Job
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.secrets import redact
from cockpit.sources.probes.requests import Progress
from cockpit.sources.ray.submit import CONTENT, KEY, LaunchOrigin, ListedSubmission, Submission, SubmissionList, Submissions
from cockpit.sources.ray.wire import PRESET
from cockpit.sources.source import NotMeantError, SourceError, run_in_thread
from cockpit.text import age, plural, size

DOUBLE_PRESS_S = 10.0
"""A second launch within this time counts as a second press of the key, also if the first job has failed already."""
MINUTE_END_GUARD_S = 5.0
"""No launch in the last seconds of a minute. Ray records a submission within tenths of a second; its first within 0.6 (2.60)."""
MINUTE_S = 60.0
MAX_LAST_LOOKS, MAX_TAKEN_IDS = 3, 20
"""Limits for a broken dashboard: its clock always shows the end of a minute, or every id is taken."""
PROGRESS_INTERVAL_S = 0.5
"""Between two progress reports while a folder is packed or uploaded."""
MAX_SKIPPED = 10
"""Lines about files that can't be packed."""


class Ready(msgspec.Struct, frozen=True):
    """Everything that is needed to perform one plan; it contains secrets."""

    order: Order
    key: str
    submission: Submission
    package: Package | None
    seen: frozenset[str]
    """Ids of the jobs of the same origin that the plan mentions."""
    force: bool

    @property
    def content(self) -> str:
        """A hash: equal for the same job and folder."""
        return content_of(self.order.shown, self.package)


class Launches:
    """Plans launches, and performs the latest plan."""

    def __init__(self, monitor: ClusterMonitor) -> None:
        self._monitor = monitor
        self._ready: Ready | None = None

    async def plan(self, action: Action, requested: ActionTarget, on_progress: OnProgress = lambda *_: None) -> Plan:
        """Return the planned submission; nothing is changed. Raises `SourceError`."""
        (row,) = requested.rows
        try:
            if isinstance(row, Job):
                order = await order_of_job(self._submissions, row)
            else:
                order = await run_in_thread(partial(order_of, row, os.environ), row.path)
            return await self._plan_order(action, order, on_progress, force=requested.force)
        except InputError as error:
            raise NotMeantError(str(error)) from None

    async def _plan_order(self, action: Action, order: Order, on_progress: OnProgress, *, force: bool) -> Plan:
        checked = await sample_and_check(self._monitor, order.preset)
        command = (" ".join(order.shown.entrypoint.split()),)
        doubts = tuple(_doubts(order, checked))
        never = checked.verdict == "never" and not force
        if never and order.origin.mark == PRESET:
            reason = f"{doubts[0]} (cockpit launch --force submits it anyway)"
            refused = Target("job", RAY, command, name=order.preset.name, reason=reason)
            return Plan(action.id, action.title, refused=(refused,), notes=doubts[1:], hosts=(RAY,))

        listed = await self._submissions.read()
        package = await pack_working_dir(
            order.job, throttle(lambda done, of: on_progress(RAY, Progress(f"{done} of {plural(of, 'file')} packed", done, of)))
        )
        others = _others(order.origin, listed)
        submission = await run_in_thread(partial(order.submission, package), order.preset.path)

        # Keep everything for the submission. Only the latest plan is kept, because a package may be large.
        if self._ready is not None and self._ready.package is not None:
            self._ready.package.data.close()
        ready = Ready(order, secrets.token_hex(8), submission, package, frozenset(other.id for other in others), force)
        self._ready = ready

        target = Target("job", RAY, command, id=name_for(order.template, listed.moment or time.time(), listed.names))
        if package is not None:
            target = replace(target, size=package.size, files=package.contents.files)
        notes = [_describe(other, listed) for other in others]
        notes += doubts
        # An operator who relaunches a failed job should know whether it differs from the last one.
        launched = [job for job in listed.jobs if job.origin == order.origin and job.content]
        last = max(launched, key=lambda job: job.started or 0.0, default=None)
        if last is not None and last.content != ready.content:
            what = "the preset or its working_dir" if order.origin.mark == PRESET else "what Ray reports of it"
            notes.append(f"{what} has changed since {last.id} was launched")
        notes += [*_folder_lines(order, package), *order.notes]
        if "{time}" in order.template:
            notes.append(f"the job's id contains the minute of its launch; if launched now: {target.id}")
        return Plan(
            action.id,
            action.title,
            targets=(target,),
            notes=tuple(notes),
            hosts=(RAY,),
            # A job that Ray has run before may be launched against the check: the operator types its name.
            word=order.preset.name if never or (others and not force) else None,
            requests={RAY: {"key": ready.key}},
        )

    async def perform(self, plan: Plan, on_progress: OnProgress = lambda *_: None) -> Receipt:
        """Submit the planned job once, even if others launch it at the same moment."""
        (target,) = plan.targets
        if self._ready is None or plan.requests[RAY].get("key") != self._ready.key:
            reason = "a later plan has replaced this one: nothing was submitted; make the plan again"
            return plan.receipt(refused=(replace(target, reason=reason),))
        try:
            done, notes = await self._submit(self._ready, target, on_progress)
        except (NotMeantError, InputError) as error:
            return plan.receipt(refused=(replace(target, reason=str(error)),))
        except SourceError as error:
            return plan.receipt(failed=(replace(target, error=str(error)),))
        return plan.receipt(done=(done,), notes=notes)

    async def _submit(self, ready: Ready, target: Target, on_progress: OnProgress) -> tuple[Target, tuple[str, ...]]:
        """Return the submitted job as a target, and notes. Raises `NotMeantError`, `InputError`, `SourceError`."""
        uploaded, package = "", ready.package
        if package is not None and await self._submissions.has(package.name):
            uploaded = f"; its package of {size(package.size)} was already uploaded"
        elif package is not None:
            total = package.size
            report = throttle(lambda sent: on_progress(RAY, Progress(f"{size(sent)} of {size(total)} uploaded", sent, total)))
            await self._submissions.upload(package.name, package.pieces(), total, report)
            uploaded = f"; {size(total)} uploaded"
        await check_uploaded(self._submissions, ready.order.uploaded)
        on_progress(RAY, Progress("submitting"))
        listed = await self._list_away_from_minute_end(ready)
        if mine := next((job for job in listed.jobs if job.key == ready.key), None):
            return replace(target, id=mine.id, outcome="already submitted by this plan"), ()
        new = [job for job in _others(ready.order.origin, listed) if job.id not in ready.seen]
        if new and not ready.force:
            raise NotMeantError(f"{_describe(new[0], listed)}: launched after this plan was made, so nothing was submitted")

        began = time.monotonic()
        job, is_ours = await self._submit_under_free_id(ready, listed)
        if not is_ours:
            if job.content != ready.content:
                who, what = job.user or "somebody else", f"another version of {ready.order.origin}"
                raise NotMeantError(f"{who} launched {what} at the same moment as {job.id}: nothing was submitted")
            outcome = f"not submitted a second time: {job.user or 'somebody else'} launched the same job at the same moment, as {job.id}"
            return replace(target, id=job.id, outcome=outcome), ()

        # While Ray was slow, another operator may have listed the jobs without this one.
        twins: list[str] = []
        if time.monotonic() - began > MINUTE_END_GUARD_S:
            listed = await self._submissions.read()
            slow = "Ray was slow to answer, and a second job was launched"
            others = (other for other in _others(ready.order.origin, listed) if other.id not in {job.id, *ready.seen})
            twins = [f"{slow}: {_describe(other, listed)}; stop one of the two (`J`)" for other in others]
        return replace(target, id=job.id, outcome=f"submitted{uploaded}"), tuple(twins)

    async def _submit_under_free_id(self, ready: Ready, listed: SubmissionList) -> tuple[ListedSubmission, bool]:
        """Return the job, and whether it is ours. If a job of another origin has taken the id, the next id is tried."""
        taken = set(listed.names)
        for _ in range(MAX_TAKEN_IDS):
            name = name_for(ready.order.template, listed.moment or time.time(), taken)
            metadata = {**ready.submission.metadata, KEY: ready.key, CONTENT: ready.content}
            submission = replace(ready.submission, submission_id=name, metadata=metadata)
            job, is_ours = await self._submissions.submit(submission, secret_hider(ready.order.hidden))
            if is_ours or job.origin == ready.order.origin:
                return job, is_ours
            taken.add(name)
        raise NotMeantError(f"Ray reports that {MAX_TAKEN_IDS} ids for this job are taken, up to {name}: nothing was submitted")

    async def _list_away_from_minute_end(self, ready: Ready) -> SubmissionList:
        """List the jobs just before the submission; if the id contains the minute, not in its last seconds."""
        for _ in range(MAX_LAST_LOOKS):
            listed = await self._submissions.read()
            left = MINUTE_S - (listed.moment or 0.0) % MINUTE_S
            if "{time}" not in ready.order.template or left > MINUTE_END_GUARD_S:
                return listed
            await asyncio.sleep(left)
        raise NotMeantError("the clock of Ray's dashboard does not advance, and the job's id contains the time: nothing was submitted")

    @property
    def _submissions(self) -> Submissions:
        """The dashboard that gets the preset's secrets. Raises `NotMeantError` if it is not trusted."""
        if (reason := self._monitor.choice.why_not_trusted()) is not None:
            address = self._monitor.poller.snapshot.cluster.address
            raise NotMeantError(f"nothing is sent to the Ray at {address}: {reason}; if it is the right Ray, name it with --address")
        return self._monitor.choice.followed_ray().job_actions().submissions


def throttle(report: Callable[..., None]) -> Callable[..., None]:
    """Return `report` limited to one call per `PROGRESS_INTERVAL_S`; calls in between are dropped."""
    last = 0.0

    def report_seldom(*progress: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= PROGRESS_INTERVAL_S:
            last = now
            report(*progress)

    return report_seldom


def _doubts(order: Order, checked: CheckOutcome) -> Iterator[str]:
    """The verdict, and every line that is not fine, each with the change that would help."""

    def with_change(text: str, change: str | None) -> str:
        # A job without a preset must be saved as one before it can be changed.
        if change and order.origin.mark != PRESET:
            change = change.replace("in the preset", "in a preset (w saves the job as one)")
        return f"{text} → {change}" if change else text

    worst = checked.reason
    yield with_change(verdict(order.preset.name, checked), worst.change if worst else None)
    for line in checked.lines:
        if line.level != "fine" and line is not worst:
            yield with_change(line.text, line.change)


def _others(origin: LaunchOrigin, listed: SubmissionList) -> list[ListedSubmission]:
    """Return the jobs of this origin that are alive or just launched, the latest first.

    An original job that has failed at once is no second press of the key.
    """
    moment = listed.moment or time.time()
    same = [job for job in listed.jobs if job.origin == origin]
    recent = [job for job in same if job.running or (moment - (job.started or 0.0) < DOUBLE_PRESS_S and not job.first)]
    return sorted(recent, key=lambda job: -(job.started or 0.0))


def _describe(job: ListedSubmission, listed: SubmissionList) -> str:
    since = f"launched {age((listed.moment or time.time()) - job.started)} ago" if job.started is not None else "launched"
    which = "" if job.first else " of this preset" if job.origin.mark == PRESET else f" ({job.origin} launched again)"
    return f"job {job.id}{which} is {job.status}, {since} by {job.user or 'somebody'}"


def _folder_lines(order: Order, package: Package | None) -> Iterator[str]:
    """Notes about the folder that is uploaded, and its files that are left out."""
    if package is None:
        if order.job.working_dir is not None and order.job.working_dir not in order.uploaded:
            yield f"Ray fetches working_dir {redact(order.job.working_dir)} itself"
        return
    contents = package.contents
    largest = ", ".join(f"{each.name} {size(each.size)}" for each in contents.largest)
    yield (
        f"working_dir {contents.folder}: {plural(contents.files, 'file')}, {size(contents.size)}, packed {size(package.size)}"
        f"{f'; largest: {largest}' if largest else ''}"
    )
    yield from contents.skipped[:MAX_SKIPPED]
    if len(contents.skipped) > MAX_SKIPPED:
        yield f"{plural(len(contents.skipped) - MAX_SKIPPED, 'more file was', 'more files were')} left out"
