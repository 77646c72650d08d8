"""Runs the last steps of the runbook: checks whether the preset's job fits, launches it, and waits for the first progress."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cockpit.actions.action_context import OnProgress
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.recover.step_state import StepError
from cockpit.actions.table import find_action
from cockpit.check.preset import sample_and_check
from cockpit.findings.failures import reason_in_log
from cockpit.model import Actor
from cockpit.monitor.failure_reader import MAX_LOG_LINES
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset, RayStart
from cockpit.secrets import redact
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.text import count, gpus_words, plural

PROGRESS_TIMEOUT_S: Final = 900.0
"""For the first progress. Ray itself gives up a driver that has not started after the same time."""
POLL_INTERVAL_S: Final = 0.5
USAGE_TIMEOUT_S: Final = 20.0
"""For Ray's report of the resources in use, before a job is checked."""
REFRESH_INTERVAL_S: Final = 1.0
"""Between two refreshes while a job starts; a poller by itself asks for actors every five seconds."""
SETTLE_S: Final = 2.0
"""A job must run so long after its first line, because that line may begin a traceback."""
RAY_LINE: Final = re.compile(
    r"Running entrypoint for job |\d{4}-\d\d-\d\d [\d:,]+\s+(?:INFO|WARNING) (?:worker|job_manager|packaging)\.py:\d+ -- "
)
"""Beginnings of the lines that Ray itself writes into a job's log before the job does anything (2.9 to 2.60)."""
MAX_LINES: Final = 3
"""Of a check or a log, in an error."""


class JobSteps:
    """The runbook's steps for a preset's job on the followed cluster."""

    def __init__(self, monitor: ClusterMonitor, executor: ActionExecutor, preset: Preset) -> None:
        self._monitor, self._executor, self._preset = monitor, executor, preset
        self.id: str | None = None
        """The job's id, after its launch."""
        self._own_lines: list[str] = []
        """The last lines of the job's log, without Ray's own."""
        self._all_lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._first_own_line_at: float | None = None

    async def too_large(self, gpus: float | None) -> str | None:
        """Return why the job can never run on this number of GPUs, or `None` if it might (also when a number is unknown)."""
        asked = (await sample_and_check(self._monitor, self._preset)).budget.amount("GPU")
        if asked is None or gpus is None or asked <= gpus:
            return None
        ray = self._preset.ray
        where = f"the nodes of Slurm job {ray.slurm}" if isinstance(ray, RayStart) and ray.slurm else "the preset's hosts"
        return f"the job asks for {gpus_words(asked)}, but {where} have {count(gpus)}: it can never fit"

    async def check(self) -> tuple[str, ...]:
        """Return the doubts about the job. Raises `StepError` if it does not fit now."""
        # A Ray that has just started first reports its resources, and some seconds later their use.
        deadline = time.monotonic() + USAGE_TIMEOUT_S
        while time.monotonic() < deadline:
            alive = [node for node in self._monitor.poller.snapshot.nodes or () if node.state == "ALIVE"]
            if alive and all(has.used is not None for node in alive for has in node.resources.values()):
                break
            self._monitor.refresh()
            await asyncio.sleep(POLL_INTERVAL_S)

        checked = await sample_and_check(self._monitor, self._preset)
        if checked.verdict in ("never", "later"):
            worst = [line for line in checked.lines if line.level == checked.verdict]
            when = "does not fit now" if checked.verdict == "later" else "can never fit"
            when = "can't run as written" if checked.has_mistake_in_command else when
            reasons = "; ".join(line.text + (f" ({line.change})" if line.change else "") for line in worst[:MAX_LINES])
            raise StepError(f"{self._preset.name} {when}: {reasons}")
        return tuple(line.text for line in checked.lines if line.level in ("doubt", "unknown")) or ("it fits",)

    async def launch(self, on_progress: OnProgress, show: Callable[[Plan | Receipt], None]) -> tuple[str, ...]:
        """Submit the job once. Raises `StepError` if it was not submitted."""
        plan = await self._executor.plan(find_action("launch"), ActionTarget(rows=(self._preset,)), on_progress)
        show(plan)
        if plan.empty:
            raise StepError("; ".join(str(target.reason) for target in plan.refused) or "nothing to launch")
        if plan.word is not None:
            raise StepError(f"the job is already launched, so it was not submitted again: {'; '.join(plan.notes[:MAX_LINES])}")
        show(receipt := await self._executor.perform(plan, on_progress))
        wrong = [str(target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        if wrong:
            raise StepError("; ".join(wrong))
        self.id = receipt.done[0].id
        return tuple(f"{target.id}: {target.outcome}" for target in receipt.done)

    async def follow(self, on_progress: OnProgress) -> tuple[str, ...]:
        """Wait until the job runs and has written a line or has actors. Raises `StepError` if it ends before that, or after the timeout."""
        job = self.id
        if job is None:  # an earlier recovery has launched it
            mine = [job for job in await self._monitor.jobs() if job.preset == self._preset.name]
            if not mine:
                raise StepError(f"no job of {self._preset.name} to follow")
            job = max(mine, key=lambda job: job.started or 0.0).id
        reading = asyncio.ensure_future(self._read_log(job))
        began = refreshed = time.monotonic()
        try:
            while time.monotonic() - began < PROGRESS_TIMEOUT_S:
                state = None
                with suppress(SourceError):  # Ray does not answer
                    state = next((one for one in await self._monitor.jobs() if job in (one.id, one.submission)), None)
                if state is not None and state.status in ("FAILED", "STOPPED"):
                    # Ray's reason without the log lines that it repeats, and the last line of the log.
                    first, *log = [line.strip() for line in (state.message or "").splitlines() if line.strip()] or ["Ray gives no reason"]
                    reason = first.partition(", last available logs")[0] + _last_line(self._own_lines or log)
                    if state.status == "FAILED":
                        entrypoint = state.entrypoint or ""
                        in_log = await asyncio.to_thread(reason_in_log, [*self._all_lines], entrypoint)  # long lines take a second
                        reason = in_log or reason_in_log(log, entrypoint) or reason
                    raise StepError(f"job {job} is {state.status}: {reason}", "launch")

                # The actors that are known to live; a new one becomes known some seconds later.
                actors: list[Actor] = []
                if state is not None and state.job:
                    known = self._monitor.poller.snapshot.actors or ()
                    actors = [one for one in known if one.state == "ALIVE" and not one.internal and one.job == state.job]
                gpus = sum(actor.needs.get("GPU", 0.0) for actor in actors)
                with_actors = f", {plural(len(actors), 'actor')} with {gpus_words(gpus)}" if actors else ""
                text = f"{state.status if state else 'submitted'}{with_actors}{_last_line(self._own_lines)}"
                on_progress("job", Progress(text))

                keeps_writing = self._first_own_line_at is not None and time.monotonic() - self._first_own_line_at > SETTLE_S
                if state is not None and (state.status == "SUCCEEDED" or (state.status == "RUNNING" and (keeps_writing or actors))):
                    return (f"job {job} is {text}",)
                if time.monotonic() - refreshed > REFRESH_INTERVAL_S:
                    refreshed = time.monotonic()
                    self._monitor.poller.refresh()
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            reading.cancel()
        raise StepError(f"job {job} showed no progress within {PROGRESS_TIMEOUT_S:.0f} s{_last_line(self._own_lines)}")

    async def _read_log(self, job: str) -> None:
        """Read the job's log from its beginning, and keep the job's own lines."""
        # Ray's lines, and the entrypoint that Ray repeats, don't show that the job works.
        entrypoint = self._preset.job.entrypoint.splitlines() if self._preset.job else []
        repeated = {line.strip() for line in entrypoint}
        while True:
            with suppress(SourceError):  # a job that was just submitted has no log yet
                async for batch in self._monitor.follow_log(job):
                    lines = [line.strip() for line in batch]
                    own = [line for line in lines if line and line not in repeated and not RAY_LINE.match(line)]
                    if own and self._first_own_line_at is None:
                        self._first_own_line_at = time.monotonic()
                    self._own_lines = [*self._own_lines, *own][-MAX_LINES:]
                    self._all_lines.extend(batch)
                return
            await self._monitor.poller.change(1.0)


def _last_line(lines: list[str]) -> str:
    return f"; last log line: {redact(lines[-1])[:200]}" if lines else ""
