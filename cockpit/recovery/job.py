"""The last steps of the runbook: whether the preset's job fits, its launch, and the first sign that it gets on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from cockpit.actions.plan import Plan, Receipt
from cockpit.actions.table import Aim, find_act
from cockpit.check.look import look_and_check
from cockpit.door import Door
from cockpit.lookout import Lookout
from cockpit.model import Job, Snapshot
from cockpit.presets import Preset
from cockpit.recovery.step import StepError
from cockpit.sources.errand import Progress
from cockpit.sources.source import SourceError
from cockpit.text import redact

Hear = Callable[[str, Progress], None]
SIGN: Final = 900.0
"""Seconds until the first sign of progress; Ray itself gives up a driver that has not started after so many."""
EVERY: Final = 0.5
FEW: Final = 3
"""Lines of a check that are told."""


class JobSteps:
    """One preset's job on the cluster that is followed."""

    def __init__(self, lookout: Lookout, door: Door, preset: Preset) -> None:
        self._lookout, self._door, self._preset = lookout, door, preset
        self.id: str | None = None
        """What Ray calls it, once it is launched."""

    async def too_large(self, gpus: float | None) -> str | None:
        """Why it could never run on so many GPUs, whatever else is put in order; `None`: it might."""
        asked = (await look_and_check(self._lookout, self._preset)).budget.amount("GPU")
        if asked is None or gpus is None or asked <= gpus:
            return None
        return f"the job asks for {asked:g} GPUs, and the preset's hosts have {gpus:g}: it could never run there"

    async def check(self) -> tuple[str, ...]:
        """What is to be said of it. Raises `StepError` when it doesn't fit now."""
        checked = await look_and_check(self._lookout, self._preset)
        if checked.verdict in ("never", "later"):
            worst = [line for line in checked.lines if line.level == checked.verdict]
            when = "can never fit" if checked.verdict == "never" else "doesn't fit now"
            told = "; ".join(line.text + (f" ({line.change})" if line.change else "") for line in worst[:FEW])
            raise StepError(f"{self._preset.name} {when}: {told}")
        return tuple(line.text for line in checked.lines if line.level in ("doubt", "unknown")) or ("it fits",)

    async def launch(self, hear: Hear, show: Callable[[Plan], None]) -> Receipt:
        """Once. Raises `StepError` when it was not submitted."""
        act = find_act("launch")
        plan = await self._door.plan(act, Aim(rows=(self._preset,)), hear)
        show(plan)
        if plan.empty:
            raise StepError("; ".join(str(target.reason) for target in plan.refused) or "there is nothing to launch")
        if plan.word is not None:
            raise StepError(f"it was launched already, and not a second time: {'; '.join(plan.notes[:FEW])}")
        receipt = await self._door.perform(plan, hear)
        wrong = [str(target.error or target.reason) for target in (*receipt.failed, *receipt.refused)]
        if wrong:
            raise StepError("; ".join(wrong))
        self.id = receipt.done[0].id
        return receipt

    async def follow(self, hear: Hear) -> tuple[str, ...]:
        """Until it runs and has written, or computes. Raises `StepError` when it ends before that, or nothing comes of it."""
        job = self.id or await self._latest()
        wrote: list[str] = []
        reading = asyncio.ensure_future(self._written(job, wrote))
        began = time.monotonic()
        try:
            while time.monotonic() - began < SIGN:
                state = await self._state(job)
                if state is not None and state.status in ("FAILED", "STOPPED"):
                    raise StepError(f"job {job} is {state.status}: {state.message or 'Ray says no more'}{_last(wrote)}")
                told = f"{state.status if state else 'submitted'}: {_work(self._lookout.poller.snapshot)}{_last(wrote)}"
                hear("job", Progress(told))
                if state is not None and (state.status == "SUCCEEDED" or (state.status == "RUNNING" and (wrote or self._computes(state)))):
                    return (f"job {job} is {told}",)
                await asyncio.sleep(EVERY)
        finally:
            reading.cancel()
        raise StepError(f"job {job} has shown no sign of progress within {SIGN:.0f} s{_last(wrote)}")

    async def _written(self, job: str, wrote: list[str]) -> None:
        """Its log, from the beginning; it has none yet when it has just been submitted."""
        while not await self._read_log(job, wrote):
            await self._lookout.poller.change(1.0)

    async def _read_log(self, job: str, wrote: list[str]) -> bool:
        try:
            async for batch in self._lookout.follow_log(job):
                wrote += [line for line in batch if line.strip()]
                del wrote[:-FEW]
        except SourceError:
            return False
        return True

    async def _latest(self) -> str:
        """Of this preset, where an earlier recovery has launched it."""
        mine = [job for job in await self._lookout.jobs() if job.preset == self._preset.name]
        if not mine:
            raise StepError(f"no job of {self._preset.name} is there to be followed")
        return max(mine, key=lambda job: job.started or 0.0).id

    async def _state(self, job: str) -> Job | None:
        """`None` while Ray doesn't know it, or doesn't answer."""
        try:
            return next((one for one in await self._lookout.jobs() if job in (one.id, one.submission)), None)
        except SourceError:
            return None

    def _computes(self, job: Job) -> bool:
        return any(actor.state == "ALIVE" and job.job and actor.job == job.job for actor in self._lookout.poller.snapshot.actors or ())


def _work(snapshot: Snapshot) -> str:
    """How many of its GPUs Ray has given out; all that its actors on the way will get are not among them yet."""
    used = [node.resources["GPU"].used for node in snapshot.nodes or () if "GPU" in node.resources and node.state == "ALIVE"]
    known = [amount for amount in used if amount is not None]
    return f"{sum(known):g} GPUs given out" if known else "how many GPUs are given out is not known yet"


def _last(wrote: list[str]) -> str:
    return f"; it wrote: {redact(wrote[-1])[:200]}" if wrote else ""
