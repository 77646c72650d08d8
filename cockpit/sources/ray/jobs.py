"""Stops and deletes jobs through Ray's job API, and waits until Ray has done it. Not built with `--readonly`."""

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
"""The time for a job to end after a stop. Ray itself waits 3 s between SIGTERM and SIGKILL (RAY_JOB_STOP_WAIT_TIME_S)."""
DELETE_TIMEOUT_S = 5.0
"""The time in which a deleted job that is listed again is deleted again. Ray checks once a second each job that it believes to run; it does
not find the deleted one and stores it again, as failed and without a start time (`_monitor_job_internal`, job_manager.py, 2.60)."""
_READ_TIMEOUT_S = 8.0
_WRITE_TIMEOUT_S = 15.0
_MISLEADING_ID: Final = r"[/?#%\\\x00-\x1f\x7f\ud800-\udfff]|\A\.{0,2}\Z"
"""Characters that change the meaning of a URL: Ray's dashboard does not quote the id in its request to the agent, so `a?b` would delete
job `a` (job_head.py, 2.9 to 2.60)."""


class Ended(Value, frozen=True):
    """A job that has ended."""

    job: Job
    took: float
    """The seconds from the request to the end."""
    already: bool = False
    """It had ended before the stop."""


class _Stopped(wire.Snake, frozen=True):
    stopped: bool | None = None


class JobActions:
    """The actions on jobs. Each takes the start time of the planned job, since its id may belong to a new job by now."""

    def __init__(self, dashboard: Dashboard, *, pause: float = 0.5) -> None:
        self._dashboard = dashboard
        self._pause = pause
        self.submissions = Submissions(dashboard)
        """The requests that start jobs."""

    async def stop_job(self, name: str, started: float | None, patience: float = STOP_TIMEOUT_S) -> Ended:
        """Stop a job and wait until it has ended. Raises `NotMeantError`; `SourceError` if it has not ended or that is unknown."""
        began = time.monotonic()
        job = await self._planned_job(name, started)
        if not job.running:
            return Ended(job=job, took=0.0, already=True)
        answer = await self._write("POST", name, "/stop", _Stopped)
        job = await self._wait_for_end(name, started, began + patience)
        if job.running:
            nothing = "" if answer.stopped else ", and Ray reports that there was nothing to stop"
            raise SourceError(f"job {name} is still {job.status} after {patience:g} s{nothing}")
        return Ended(job=job, took=time.monotonic() - began, already=not answer.stopped)

    async def delete_job(self, name: str, started: float | None) -> Job:
        """Delete an ended job and return it. Raises `NotMeantError`; `SourceError` if it is still listed or that is unknown."""
        job = await self._planned_job(name, started)
        if job.running:
            raise NotMeantError(f"job {name} is not over ({job.status}): stop it first")
        await self._write("DELETE", name, "", wire.Snake)
        deadline = time.monotonic() + DELETE_TIMEOUT_S
        while (left := await self._read(name)) is not None:
            if left.running or left.started not in (started, None) or time.monotonic() > deadline:
                raise SourceError(f"Ray still lists job {name}, although it was deleted")
            await asyncio.sleep(self._pause)
            with suppress(NotMeantError):
                await self._write("DELETE", name, "", wire.Snake)
        return job

    async def _planned_job(self, name: str, started: float | None) -> Job:
        """The current state of the planned job. Raises `NotMeantError` if the id means another job now, or can't be sent safely."""
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

    async def _wait_for_end(self, name: str, started: float | None, deadline: float) -> Job:
        """The job once it has ended, or its last state at the deadline. Requests without an answer are repeated."""
        last_error: SourceError | None = None
        job: Job | None = None
        while (job is None and last_error is None) or time.monotonic() < deadline:  # at least one request, however late it is
            await asyncio.sleep(self._pause)
            try:
                job = await self._read(name, min(_READ_TIMEOUT_S, max(deadline - time.monotonic(), 0.1)))
            except NoAnswerError as error:
                last_error = error
                continue
            if job is None or job.started != started:
                raise SourceError(f"job {name} was told to stop, but Ray no longer lists it")
            if not job.running:
                return job
        if job is None:
            raise SourceError(f"job {name} was told to stop; whether it stopped is unknown: {last_error}")
        return job

    async def _read(self, name: str, timeout: float = _READ_TIMEOUT_S) -> Job | None:
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
