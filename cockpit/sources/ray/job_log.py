"""The log of a submitted job's driver: where it lies, whether the job is over, and how an old Ray's is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

from cockpit.sources.ray import wire
from cockpit.sources.ray.http import Dashboard, RefusalError
from cockpit.sources.ray.logs import STREAMS_SINCE, LogFile, LogLines, LogStream, last_lines
from cockpit.sources.source import SourceError

MAX_POLLED_BYTES = 32 * 2**20
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


class JobLog:
    """The log of one submitted job."""

    def __init__(self, dashboard: Dashboard, job: str, lines: int) -> None:
        self._dashboard = dashboard
        self._path = f"/api/jobs/{quote(job, safe='', errors='replace')}"
        self._job = job
        self._lines = lines
        self._over = False

    async def follow(self, version: tuple[int, ...]) -> AsyncIterator[list[str]]:
        """Batches of raw lines until the job is over and its log is read; beginning with the last `lines` of them."""
        job = await self._wait_for_node()
        if job is None:
            return
        async for batch in self._stream(job) if version >= STREAMS_SINCE else self._poll():
            yield batch

    async def _ask(self) -> wire.Job:
        job = await self._dashboard.json(self._path, wire.Job, timeout=8.0, endpoint="/api/jobs/{id}")
        self._over = job.status in OVER
        return job

    async def _wait_for_node(self) -> wire.Job | None:
        """The job, once its driver has a node; `None` when it was over before."""
        while True:
            job = await self._ask()
            if job.type == "DRIVER" or job.submission_id is None:
                raise SourceError(
                    f"{self._job} was started by hand, not submitted: its output went to where it was started, Ray has no log of it"
                )
            if job.driver_node_id:
                return job
            if self._over:
                return None
            await asyncio.sleep(1.0)

    def _stream(self, job: wire.Job) -> AsyncIterator[list[str]]:
        file = LogFile(job.driver_node_id or "", f"job-driver-{job.submission_id}.log", f"the log of {self._job}")
        stream = LogStream(self._dashboard, file, self._lines, self._look)
        stream.over = self._over
        return stream.batches()

    async def _look(self) -> bool:
        """Whether the job is over. When nobody can say, the log is still followed; when the job is gone, it is over."""
        try:
            await self._ask()
        except RefusalError as error:
            self._over = error.status == 404
        except SourceError:
            pass
        return self._over

    async def _poll(self) -> AsyncIterator[list[str]]:
        """The whole log again and again, for a Ray whose streams can't be read."""
        read = LogLines()
        while True:
            over = self._over
            logs = await self._dashboard.json(f"{self._path}/logs", wire.JobLogs, timeout=20.0, endpoint="/api/jobs/{id}/logs")
            data = logs.logs.encode("utf-8", "replace")
            if len(data) > MAX_POLLED_BYTES:
                raise SourceError(
                    f"the log of {self._job} is larger than {MAX_POLLED_BYTES >> 20} MB, too large to follow with this old Ray"
                )
            new = data[read.size :]
            if read.size == 0:
                new = last_lines(new, self._lines)
                read.size = len(data) - len(new)
            if batch := read.feed(new):
                yield batch
            if over:
                break
            await asyncio.sleep(1.0 + len(data) / 2**20)
            await self._ask()
        if last := read.last():
            yield last
