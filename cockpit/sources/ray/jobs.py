"""The writing half of Ray's job API: a job is stopped and waited for, a finished one deleted. Built only where cockpit may act."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import Final, Literal

from cockpit.model import Job, Value
from cockpit.sources.ray import wire
from cockpit.sources.ray.actors import parse_job
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError, NoAnswerError
from cockpit.sources.ray.submit import Submissions, job_path
from cockpit.sources.source import NotMeantError, SourceError

STOP_TIMEOUT_S = 30.0
"""Seconds until a job that was told to stop is over. Ray's own grace between SIGTERM and SIGKILL is 3 s (RAY_JOB_STOP_WAIT_TIME_S)."""
DELETE_TIMEOUT_S = 5.0
"""Seconds in which a deleted job that is listed again is deleted anew: Ray looks once a second after a job that it does not know to be
over, finds nothing, and writes it down once more, as failed and without a start (`_monitor_job_internal`, job_manager.py, 2.60)."""
_READ_TIMEOUT_S = 8.0
_WRITE_TIMEOUT_S = 15.0
_MISLEADING_ID: Final = r"[/?#%\\\x00-\x1f\x7f\ud800-\udfff]|\A\.{0,2}\Z"
"""Ray's dashboard puts the id into an address of its agent as it is: `a?b` would delete job `a` there (job_head.py, 2.9 to 2.60)."""


class Ended(Value, frozen=True):
    """A job that is over."""

    job: Job
    took: float
    """Seconds until it was."""
    already: bool = False
    """It had ended by itself before it was told to."""


class _Stopped(wire.Snake, frozen=True):
    stopped: bool | None = None


class JobActs:
    """What may be done to jobs. `started` is the planned job's: an id may have been given again."""

    def __init__(self, dashboard: Dashboard, *, pause: float = 0.5) -> None:
        self._dashboard = dashboard
        self._pause = pause
        self.submissions = Submissions(dashboard)
        """What starts jobs."""

    async def stop_job(self, name: str, started: float | None, patience: float = STOP_TIMEOUT_S) -> Ended:
        """Returns when it is over. Raises `NotMeantError`, and `SourceError` when it has not ended, or that can't be known."""
        began = time.monotonic()
        job = await self._same(name, started)
        if not job.running:
            return Ended(job=job, took=0.0, already=True)
        told = await self._write("POST", name, "/stop", _Stopped)
        job = await self._until_over(name, started, began + patience)
        if job.running:
            nothing = "" if told.stopped else ", and Ray reports that there was nothing to stop"
            raise SourceError(f"job {name} is still {job.status} after {patience:g} s{nothing}")
        return Ended(job=job, took=time.monotonic() - began, already=not told.stopped)

    async def delete_job(self, name: str, started: float | None) -> Job:
        """What it was. Raises `NotMeantError`, and `SourceError` when it is still listed, or that can't be known."""
        job = await self._same(name, started)
        if job.running:
            raise NotMeantError(f"job {name} is not over ({job.status}): stop it first")
        await self._write("DELETE", name, "", wire.Snake)
        until = time.monotonic() + DELETE_TIMEOUT_S
        while (left := await self._look(name)) is not None:
            if left.running or left.started not in (started, None) or time.monotonic() > until:
                raise SourceError(f"Ray still lists job {name}, although it was deleted")
            await asyncio.sleep(self._pause)
            with suppress(NotMeantError):
                await self._write("DELETE", name, "", wire.Snake)
        return job

    async def _same(self, name: str, started: float | None) -> Job:
        """The job as it is now, if it is still the one that was planned and Ray can be told of it."""
        if re.search(_MISLEADING_ID, name):
            raise NotMeantError(f"the id of job {name[:100]!r} contains characters that Ray may take for another job's id")
        entry = await self.submissions.entry(name)
        job = parse_job(entry) if entry is not None else None
        if entry is None or job is None:
            raise NotMeantError(f"Ray no longer lists job {name}")
        if job.submission is None:
            info = entry.driver_info or wire.DriverInfo()
            driver = f"process {info.pid or '–'} on {info.node_ip_address or '–'}"
            raise NotMeantError(f"job {name} was not submitted to Ray, so Ray can't do that; its driver is {driver}: kill it there")
        if job.id != name or job.started != started:
            raise NotMeantError(f"job {name} is now a different job than the planned one")
        return job

    async def _until_over(self, name: str, started: float | None, until: float) -> Job:
        """The job when it is over, or as it is at last. Silence in between is waited out."""
        trouble: SourceError | None = None
        job: Job | None = None
        while (job is None and trouble is None) or time.monotonic() < until:  # asked once at least, however late it is
            await asyncio.sleep(self._pause)
            try:
                job = await self._look(name, min(_READ_TIMEOUT_S, max(until - time.monotonic(), 0.1)))
            except NoAnswerError as error:
                trouble = error
                continue
            if job is None or job.started != started:
                raise SourceError(f"job {name} was told to stop, but Ray no longer lists it")
            if not job.running:
                return job
        if job is None:
            raise SourceError(f"job {name} was told to stop; whether it stopped is unknown: {trouble}")
        return job

    async def _look(self, name: str, timeout: float = _READ_TIMEOUT_S) -> Job | None:
        entry = await self.submissions.entry(name, timeout)
        return parse_job(entry) if entry is not None else None

    async def _write(self, method: Literal["POST", "DELETE"], name: str, end: str, shape: type[wire.T]) -> wire.T:
        try:
            return await self._dashboard.write(method, f"{job_path(name)}{end}", shape, timeout=_WRITE_TIMEOUT_S)
        except DashboardRefusedError as error:
            if error.status == 404:
                raise NotMeantError(f"Ray no longer lists job {name}") from None
            raise
        except NoAnswerError as error:
            raise NoAnswerError(f"{error}; whether Ray did it is unknown") from None
