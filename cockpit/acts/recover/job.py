"""The last steps of the runbook: whether the preset's job fits, its launch, and the first sign of progress."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from cockpit.acts.executor import ActionExecutor
from cockpit.acts.plan import Aim, Plan, Receipt
from cockpit.acts.recover.step_state import StepError
from cockpit.acts.table import find_act
from cockpit.acts.world import Hear
from cockpit.check.preset import look_and_check
from cockpit.model import Actor, Job, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset, RayStart
from cockpit.secrets import redact
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.text import count, gpus_words, plural

PROGRESS_TIMEOUT_S: Final = 900.0
"""For the first sign of progress; Ray itself gives up a driver that has not started after as long."""
POLL_INTERVAL_S: Final = 0.5
USAGE_TIMEOUT_S: Final = 20.0
"""For which a check waits until Ray reports which resources are in use."""
REFRESH_INTERVAL_S: Final = 1.0
"""Between two refreshes while a job starts; a poller by itself asks for actors every five seconds."""
SETTLE_S: Final = 2.0
"""For which a job must keep running after its first line, which may be that of a traceback."""
RAY_LINE: Final = re.compile(
    r"Running entrypoint for job |\d{4}-\d\d-\d\d [\d:,]+\s+(?:INFO|WARNING) (?:worker|job_manager|packaging)\.py:\d+ -- "
)
"""How the lines begin that Ray itself writes into a job's log, before the job has done anything (2.9 to 2.60)."""
MAX_LINES: Final = 3
"""Of a check or a log, in an error."""


class JobSteps:
    """One preset's job on the cluster that is followed."""

    def __init__(self, monitor: ClusterMonitor, executor: ActionExecutor, preset: Preset) -> None:
        self._monitor, self._executor, self._preset = monitor, executor, preset
        self.id: str | None = None
        """What Ray calls it, once it is launched."""
        self._wrote: list[str] = []
        """The last lines of its own."""
        self._began_to_write: float | None = None

    async def too_large(self, gpus: float | None) -> str | None:
        """Why it could never run on so many GPUs, whatever else is put in order; `None`: it might."""
        asked = (await look_and_check(self._monitor, self._preset)).budget.amount("GPU")
        if asked is None or gpus is None or asked <= gpus:
            return None
        ray = self._preset.ray
        where = f"the nodes of Slurm job {ray.slurm}" if isinstance(ray, RayStart) and ray.slurm else "the preset's hosts"
        return f"the job asks for {gpus_words(asked)}, but {where} have {count(gpus)}: it can never fit"

    async def check(self) -> tuple[str, ...]:
        """What is to be said of it. Raises `StepError` when it does not fit now."""
        await self._wait_for_usage()
        checked = await look_and_check(self._monitor, self._preset)
        if checked.verdict in ("never", "later"):
            worst = [line for line in checked.lines if line.level == checked.verdict]
            when = "does not fit now" if checked.verdict == "later" else "can never fit"
            when = "can't run as written" if checked.has_mistake_in_command else when
            told = "; ".join(line.text + (f" ({line.change})" if line.change else "") for line in worst[:MAX_LINES])
            raise StepError(f"{self._preset.name} {when}: {told}")
        return tuple(line.text for line in checked.lines if line.level in ("doubt", "unknown")) or ("it fits",)

    async def _wait_for_usage(self) -> None:
        """Wait for it: a Ray that has just started tells first what there is, and some seconds later what of it is handed out."""
        deadline = time.monotonic() + USAGE_TIMEOUT_S
        while not _knows_what_is_free(self._monitor.poller.snapshot) and time.monotonic() < deadline:
            self._monitor.refresh()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def launch(self, hear: Hear, show: Callable[[Plan | Receipt], None]) -> tuple[str, ...]:
        """Once. Raises `StepError` when it was not submitted."""
        act = find_act("launch")
        plan = await self._executor.plan(act, Aim(rows=(self._preset,)), hear)
        show(plan)
        if plan.empty:
            raise StepError("; ".join(str(target.reason) for target in plan.refused) or "nothing to launch")
        if plan.word is not None:
            raise StepError(f"the job is already launched, so it was not submitted again: {'; '.join(plan.notes[:MAX_LINES])}")
        show(receipt := await self._executor.perform(plan, hear))
        wrong = [str(target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        if wrong:
            raise StepError("; ".join(wrong))
        self.id = receipt.done[0].id
        return tuple(f"{target.id}: {target.outcome}" for target in receipt.done)

    async def follow(self, hear: Hear) -> tuple[str, ...]:
        """Until it runs and has written, or computes. Raises `StepError` when it ends before that, or nothing comes of it."""
        job = self.id or await self._latest()
        reading = asyncio.ensure_future(self._written(job))
        began = asked = time.monotonic()
        try:
            while time.monotonic() - began < PROGRESS_TIMEOUT_S:
                state = await self._state(job)
                if state is not None and state.status in ("FAILED", "STOPPED"):
                    raise StepError(f"job {job} is {state.status}: {self._why(state)}", "launch")
                told = f"{state.status if state else 'submitted'}{self._working_actors(state)}{_last_line(self._wrote)}"
                hear("job", Progress(told))
                if state is not None and (state.status == "SUCCEEDED" or (state.status == "RUNNING" and self._shows_progress(state))):
                    return (f"job {job} is {told}",)
                if time.monotonic() - asked > REFRESH_INTERVAL_S:
                    asked = time.monotonic()
                    self._monitor.poller.refresh()
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            reading.cancel()
        raise StepError(f"job {job} showed no progress within {PROGRESS_TIMEOUT_S:.0f} s{_last_line(self._wrote)}")

    def _shows_progress(self, job: Job) -> bool:
        wrote = self._began_to_write is not None and time.monotonic() - self._began_to_write > SETTLE_S
        return wrote or bool(self._actors(job))

    def _why(self, job: Job) -> str:
        """Ray's reason without the log that it repeats, and the last of that log."""
        first, *log = [line.strip() for line in (job.message or "").splitlines() if line.strip()] or ["Ray gives no reason"]
        return first.partition(", last available logs")[0] + _last_line(self._wrote or log)

    async def _written(self, job: str) -> None:
        """Its log, from the beginning; it has none yet when it has just been submitted."""
        while True:
            with suppress(SourceError):
                async for batch in self._monitor.follow_log(job):
                    self._hear_lines(line.strip() for line in batch)
                return
            await self._monitor.poller.change(1.0)

    def _hear_lines(self, lines: Iterable[str]) -> None:
        """Ray's own are no sign of the job's, nor is the entrypoint that Ray repeats."""
        entrypoint = self._preset.job.entrypoint.splitlines() if self._preset.job else []
        repeated = {line.strip() for line in entrypoint}
        own = [line for line in lines if line and line not in repeated and not RAY_LINE.match(line)]
        if own and self._began_to_write is None:
            self._began_to_write = time.monotonic()
        self._wrote = [*self._wrote, *own][-MAX_LINES:]

    async def _latest(self) -> str:
        """Of this preset, where an earlier recovery has launched it."""
        mine = [job for job in await self._monitor.jobs() if job.preset == self._preset.name]
        if not mine:
            raise StepError(f"no job of {self._preset.name} to follow")
        return max(mine, key=lambda job: job.started or 0.0).id

    async def _state(self, job: str) -> Job | None:
        """`None` while Ray does not know it, or does not answer."""
        try:
            return next((one for one in await self._monitor.jobs() if job in (one.id, one.submission)), None)
        except SourceError:
            return None

    def _actors(self, job: Job) -> list[Actor]:
        actors = self._monitor.poller.snapshot.actors or ()
        return [actor for actor in actors if actor.state == "ALIVE" and not actor.internal and job.job and actor.job == job.job]

    def _working_actors(self, job: Job | None) -> str:
        """Of its actors that live, as far as is known: one that has just begun is heard of later."""
        alive = self._actors(job) if job is not None else []
        gpus = sum(actor.needs.get("GPU", 0.0) for actor in alive)
        return f", {plural(len(alive), 'actor')} with {gpus_words(gpus)}" if alive else ""


def _last_line(wrote: Sequence[str]) -> str:
    return f"; last log line: {redact(wrote[-1])[:200]}" if wrote else ""


def _knows_what_is_free(snapshot: Snapshot) -> bool:
    alive = [node for node in snapshot.nodes or () if node.state == "ALIVE"]
    return bool(alive) and all(has.used is not None for node in alive for has in node.resources.values())
