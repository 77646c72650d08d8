"""A preset's job is planned, and submitted once.

Which races end in one job:

* The same plan carried out twice. Each plan has a key, which goes into the job's metadata, and before anything is submitted Ray is asked
  for a job with this key. Within one cockpit the executor lets through one act at a time.
* A second launch while the first is pending or runs, or began a moment ago (`DOUBLE_PRESS_S`), by whomever: the plan says so, and asks for
  the preset's name to be typed. What was launched after the plan was made is found when it is carried out: then nothing is submitted.
* Two operators in the same moment, neither of whom can see the other's job yet. Both make the same id: the preset's template with the
  minute of *Ray's* clock, as it stood in the very answer that showed no other job, and, where jobs of that name are over, the next
  number. Ray takes an id once, atomically; who is refused finds the other's job there, and says so. Whoever looks in the last
  `MINUTE_END_GUARD_S` of a minute waits for the next and looks again. So of two who looked in different minutes the later one sees the job
  of the earlier one, unless Ray took longer than that to write it down: after such a slow answer there is one more look, and what it finds
  is reported.

A job that was launched from no preset is launched again in the same way; then the first such job stands for the preset.

Not covered: presets of different names, or of the same name with different templates, are different jobs to Ray, and here too.

Secrets live in `Launches` alone, from plan to deed; a plan, a receipt and the log of acts hold the preset's own text, in which they are
names.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import ParamSpec

import msgspec
from msgspec.structs import replace

from cockpit.acts.act import Act
from cockpit.acts.launch.package import Package
from cockpit.acts.launch.submission import (
    Order,
    check_uploaded,
    content_of,
    name_for,
    order_of,
    order_of_job,
    pack_working_dir,
    secret_hider,
)
from cockpit.acts.plan import RAY, Aim, Plan, Receipt, Target
from cockpit.acts.world import Hear
from cockpit.check.preset import look_and_check
from cockpit.check.result import CheckOutcome
from cockpit.check.text import verdict
from cockpit.config.document import InputError
from cockpit.model import Job
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset
from cockpit.secrets import redact
from cockpit.sources.probes.requests import Progress
from cockpit.sources.ray.submit import CONTENT, KEY, LaunchOrigin, ListedSubmission, Submission, SubmissionList, Submissions
from cockpit.sources.ray.wire import PRESET
from cockpit.sources.source import NotMeantError, SourceError, run_in_thread
from cockpit.text import age, plural, size

DOUBLE_PRESS_S = 10.0
"""In which a second launch is taken for a second press of the key, even where the first has already failed."""
MINUTE_END_GUARD_S = 5.0
"""No launch in the last seconds of a minute. Ray records a submission within tenths of a second; its first within 0.6 (2.60)."""
MINUTE_S = 60.0
MAX_LAST_LOOKS, MAX_TAKEN_IDS = 3, 20
"""So often a dashboard is asked whose time is always the end of a minute, and as many ids are tried that it says are taken."""
PROGRESS_INTERVAL_S = 0.5
"""Between two reports of how far a folder is packed or uploaded."""
MAX_SKIPPED = 10
"""Lines about files that can't be packed."""
P = ParamSpec("P")


class Ready(msgspec.Struct, frozen=True):
    """What a plan is carried out with; secrets are in it."""

    order: Order
    key: str
    submission: Submission
    package: Package | None
    seen: frozenset[str]
    """Jobs of the same origin that whoever agrees to the plan has been told of."""
    force: bool

    @property
    def content(self) -> str:
        """The same for the same job and folder."""
        return content_of(self.order.shown, self.package)


class Launches:
    """Makes plans of launches, and carries out the last of them."""

    def __init__(self, monitor: ClusterMonitor) -> None:
        self._monitor = monitor
        self._ready: Ready | None = None

    async def plan(self, act: Act, aim: Aim, hear: Hear = lambda *_: None) -> Plan:
        """What would be submitted; nothing is changed. Raises `SourceError`."""
        (row,) = aim.rows
        try:
            return await self._plan(act, await self._order(row), hear, force=aim.force)
        except InputError as error:
            raise NotMeantError(str(error)) from None

    async def _order(self, row: Preset | Job) -> Order:
        if isinstance(row, Job):
            return await order_of_job(self._submissions, row)
        return await run_in_thread(partial(order_of, row, os.environ), row.path)

    async def _plan(self, act: Act, order: Order, hear: Hear, *, force: bool) -> Plan:
        checked = await look_and_check(self._monitor, order.preset)
        fit = tuple(_doubts(order, checked))
        never = checked.verdict == "never" and not force
        if never and order.origin.mark == PRESET:
            reason = f"{fit[0]} (cockpit launch --force submits it anyway)"
            refused = Target("job", RAY, _command(order), name=order.preset.name, reason=reason)
            return Plan(act.id, act.title, refused=(refused,), notes=fit[1:], hosts=(RAY,))
        look = await self._submissions.look()
        package = await pack_working_dir(
            order.job, throttle(lambda done, of: hear(RAY, Progress(f"{done} of {plural(of, 'file')} packed", done, of)))
        )
        others = _others(order.origin, look)
        submission = await run_in_thread(partial(order.submission, package), order.preset.path)
        ready = Ready(order, secrets.token_hex(8), submission, package, frozenset(other.id for other in others), force)
        self._keep(ready)
        target = _target(ready, _command(order), look)
        told = (*(_describe(other, look) for other in others), *fit, *_changes(ready, look), *_folder_lines(order, package), *order.notes)
        if "{time}" in order.template:
            told += (f"the job's id contains the minute of its launch; if launched now: {target.id}",)
        return Plan(
            act.id,
            act.title,
            targets=(target,),
            notes=told,
            hosts=(RAY,),
            # What can never fit has run once, if it was made of a job: whoever types its name knows better.
            word=order.preset.name if never or (others and not force) else None,
            requests={RAY: {"key": ready.key}},
        )

    async def perform(self, plan: Plan, hear: Hear = lambda *_: None) -> Receipt:
        """Once, whoever else does the same."""
        (target,) = plan.targets
        try:
            done, notes = await self._submit(self._check_latest(plan), target, hear)
        except (NotMeantError, InputError) as error:
            return plan.receipt(refused=(replace(target, reason=str(error)),))
        except SourceError as error:
            return plan.receipt(failed=(replace(target, error=str(error)),))
        return plan.receipt(done=(done,), notes=notes)

    def _check_latest(self, plan: Plan) -> Ready:
        if self._ready is None or plan.requests[RAY].get("key") != self._ready.key:
            raise NotMeantError("a later plan has replaced this one: nothing was submitted; make the plan again")
        return self._ready

    async def _submit(self, ready: Ready, target: Target, hear: Hear) -> tuple[Target, tuple[str, ...]]:
        sent = await self._upload(ready.package, hear) if ready.package else ""
        await check_uploaded(self._submissions, ready.order.uploaded)
        hear(RAY, Progress("submitting"))
        look = await self._last_look(ready)
        if mine := next((job for job in look.jobs if job.key == ready.key), None):
            return replace(target, id=mine.id, outcome="already submitted by this plan"), ()
        self._refuse_twin(ready, look)
        began = time.monotonic()
        job, ours = await self._submit_once(ready, look)
        if not ours:
            _check_same(ready, job)
            outcome = f"not submitted a second time: {job.user or 'somebody else'} launched the same job at the same moment, as {job.id}"
            return replace(target, id=job.id, outcome=outcome), ()
        late = await self._find_twins(ready, job) if time.monotonic() - began > MINUTE_END_GUARD_S else ()
        return replace(target, id=job.id, outcome=f"submitted{sent}"), late

    async def _submit_once(self, ready: Ready, look: SubmissionList) -> tuple[ListedSubmission, bool]:
        """The job, and whether it is ours. An id that a job of another kind has taken is left to it."""
        taken = set(look.names)
        for _ in range(MAX_TAKEN_IDS):
            name = name_for(ready.order.template, look.moment or time.time(), taken)
            metadata = {**ready.submission.metadata, KEY: ready.key, CONTENT: ready.content}
            submission = replace(ready.submission, submission_id=name, metadata=metadata)
            job, ours = await self._submissions.submit(submission, secret_hider(ready.order.hidden))
            if ours or job.origin == ready.order.origin:
                return job, ours
            taken.add(name)
        raise NotMeantError(f"Ray reports that {MAX_TAKEN_IDS} ids for this job are taken, up to {name}: nothing was submitted")

    async def _last_look(self, ready: Ready) -> SubmissionList:
        """The last look before the deed; where the id tells the minute, away from its end."""
        for _ in range(MAX_LAST_LOOKS):
            look = await self._submissions.look()
            left = MINUTE_S - (look.moment or 0.0) % MINUTE_S
            if "{time}" not in ready.order.template or left > MINUTE_END_GUARD_S:
                return look
            await asyncio.sleep(left)
        raise NotMeantError("the clock of Ray's dashboard does not advance, and the job's id contains the time: nothing was submitted")

    def _refuse_twin(self, ready: Ready, look: SubmissionList) -> None:
        new = [job for job in _others(ready.order.origin, look) if job.id not in ready.seen]
        if new and not ready.force:
            raise NotMeantError(f"{_describe(new[0], look)}: launched after this plan was made, so nothing was submitted")

    async def _find_twins(self, ready: Ready, job: ListedSubmission) -> tuple[str, ...]:
        look = await self._submissions.look()
        twins = [other for other in _others(ready.order.origin, look) if other.id not in {job.id, *ready.seen}]
        slow = "Ray was slow to answer, and a second job was launched"
        return tuple(f"{slow}: {_describe(twin, look)}; stop one of the two (`J`)" for twin in twins)

    async def _upload(self, package: Package, hear: Hear) -> str:
        if await self._submissions.has(package.name):
            return f"; its package of {size(package.size)} was already uploaded"

        def tell(sent: int) -> None:
            hear(RAY, Progress(f"{size(sent)} of {size(package.size)} uploaded", sent, package.size))

        await self._submissions.upload(package.name, package.pieces(), package.size, throttle(tell))
        return f"; {size(package.size)} uploaded"

    @property
    def _submissions(self) -> Submissions:
        """Whoever answers there is given the preset's secrets. Raises `NotMeantError`."""
        if (reason := self._monitor.choice.why_not_trusted()) is not None:
            address = self._monitor.poller.snapshot.cluster.address
            raise NotMeantError(f"nothing is sent to the Ray at {address}: {reason}; if it is the right Ray, name it with --address")
        return self._monitor.choice.followed_ray().job_acts().submissions

    def _keep(self, ready: Ready) -> None:
        """One at a time: a package may be large."""
        if self._ready is not None and self._ready.package is not None:
            self._ready.package.data.close()
        self._ready = ready


def throttle(tell: Callable[P, None]) -> Callable[P, None]:
    """So often that a person can follow."""
    last = 0.0

    def tell_seldom(*args: P.args, **more: P.kwargs) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= PROGRESS_INTERVAL_S:
            last = now
            tell(*args, **more)

    return tell_seldom


def _check_same(ready: Ready, job: ListedSubmission) -> None:
    """A job of this origin is there, and not what was planned."""
    if job.content != ready.content:
        who = job.user or "somebody else"
        raise NotMeantError(f"{who} launched another version of {ready.order.origin} at the same moment as {job.id}: nothing was submitted")


def _command(order: Order) -> tuple[str, ...]:
    """On one line, as everybody may see it."""
    return (" ".join(order.shown.entrypoint.split()),)


def _doubts(order: Order, checked: CheckOutcome) -> Iterator[str]:
    """Whether it fits, and every line that speaks against it, with what would help."""
    worst = checked.reason
    told = verdict(order.preset.name, checked)
    yield f"{told} → {_remedy(order, worst.change)}" if worst and worst.change else told
    for line in checked.lines:
        if line.level != "fine" and line is not worst:
            yield f"{line.text} → {_remedy(order, line.change)}" if line.change else line.text


def _remedy(order: Order, change: str) -> str:
    """What would help; a job that was made of another one has no preset yet."""
    return change if order.origin.mark == PRESET else change.replace("in the preset", "in a preset (w saves the job as one)")


def _others(origin: LaunchOrigin, look: SubmissionList) -> list[ListedSubmission]:
    """Jobs of this origin that make another one doubtful, the latest first. What has failed at once by itself is no second press."""
    moment = look.moment or time.time()
    mine = [job for job in look.jobs if job.origin == origin]
    alive = [job for job in mine if job.running or (moment - (job.started or 0.0) < DOUBLE_PRESS_S and not job.first)]
    return sorted(alive, key=lambda job: -(job.started or 0.0))


def _describe(job: ListedSubmission, look: SubmissionList) -> str:
    since = f"launched {age((look.moment or time.time()) - job.started)} ago" if job.started is not None else "launched"
    which = "" if job.first else " of this preset" if job.origin.mark == PRESET else f" ({job.origin} launched again)"
    return f"job {job.id}{which} is {job.status}, {since} by {job.user or 'somebody'}"


def _changes(ready: Ready, look: SubmissionList) -> Iterator[str]:
    """Whoever relaunches what has failed should know that it isn't the same."""
    launched = [job for job in look.jobs if job.origin == ready.order.origin and job.content]
    last = max(launched, key=lambda job: job.started or 0.0, default=None)
    if last is not None and last.content != ready.content:
        what = "the preset or its working_dir" if ready.order.origin.mark == PRESET else "what Ray reports of it"
        yield f"{what} has changed since {last.id} was launched"


def _folder_lines(order: Order, package: Package | None) -> Iterator[str]:
    """What is sent along, and what isn't."""
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


def _target(ready: Ready, command: tuple[str, ...], look: SubmissionList) -> Target:
    name = name_for(ready.order.template, look.moment or time.time(), look.names)
    target = Target("job", RAY, command, id=name)
    return replace(target, size=ready.package.size, files=ready.package.contents.files) if ready.package else target
