"""Reads the logs of jobs and the files in the logs folders of nodes through Ray's log API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta

from cockpit.sources.http_client import Params
from cockpit.sources.ray import wire
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError
from cockpit.sources.ray.logs import STREAMS_SINCE, LineDecoder, LogFile, LogStream, last_lines, without_error_mark
from cockpit.sources.source import SourceError

MAX_POLLED_BYTES = 32 * 2**20
ENDED_STATUSES = ("SUCCEEDED", "FAILED", "STOPPED")

LOG_LINES = 5000
AGENT_TIMEOUT_S = 6.0
"""The time that Ray's agent on a node has for an answer. After that, the probe of the host is asked."""


class LogNames(wire.Snake, frozen=True):
    """`/api/v0/logs`: the names of files by Ray's categories."""

    result: Mapping[str, Annotated[tuple[str, ...], Meta(max_length=wire.MAX_DECODED_ENTRIES)]] | None = None


class LogFiles:
    """Reads logs as this version of Ray serves them. Every failure is a `SourceError`."""

    def __init__(self, dashboard: Dashboard, version: tuple[int, ...]) -> None:
        self._dashboard, self._version = dashboard, version

    async def follow_job(self, job: str, lines: int) -> AsyncIterator[list[str]]:
        """The log of a job's driver in batches of raw lines, from the last `lines` (-1: all) until the job has ended and all is read."""
        path = f"/api/jobs/{quote(job, safe='', errors='replace')}"
        while True:
            entry = await self._read_job(path)
            if entry.type == "DRIVER" or entry.submission_id is None:
                raise SourceError(
                    f"{job} was started by hand, not submitted: its output went to its terminal or file, and Ray has no log of it"
                )
            # The log exists once the driver has a node; a job that ended before has none.
            if entry.driver_node_id:
                break
            if entry.status in ENDED_STATUSES:
                return
            await asyncio.sleep(1.0)

        async def has_ended() -> bool:
            """Whether the job has ended, or Ray no longer lists it. As long as that is unknown, the log is followed."""
            try:
                return (await self._read_job(path)).status in ENDED_STATUSES
            except DashboardRefusedError as error:
                return error.status == 404
            except SourceError:
                return False

        if self._version >= STREAMS_SINCE:
            file = LogFile(entry.driver_node_id, f"job-driver-{entry.submission_id}.log", f"the log of {job}")
            batches = LogStream(self._dashboard, file, lines, has_ended, over=entry.status in ENDED_STATUSES).batches()
        else:
            batches = self._poll_job(path, job, lines)
        async for batch in batches:
            yield batch

    async def _read_job(self, path: str) -> wire.Job:
        return await self._dashboard.json(path, wire.Job, timeout=8.0, endpoint="/api/jobs/{id}")

    async def _poll_job(self, path: str, job: str, lines: int) -> AsyncIterator[list[str]]:
        """Read the whole log of a job repeatedly, from a Ray whose streams can't be read."""
        read, has_ended = LineDecoder(), False
        while not has_ended:
            has_ended = (await self._read_job(path)).status in ENDED_STATUSES
            logs = await self._dashboard.json(f"{path}/logs", wire.JobLogs, timeout=20.0, endpoint="/api/jobs/{id}/logs")
            data = logs.logs.encode("utf-8", "replace")
            if len(data) > MAX_POLLED_BYTES:
                raise SourceError(f"the log of {job} is larger than {MAX_POLLED_BYTES >> 20} MB, too large to follow with this old Ray")
            new = data[read.size :]
            if read.size == 0:
                new = last_lines(new, lines)
                read.size = len(data) - len(new)
            if batch := read.feed(new):
                yield batch
            if not has_ended:
                await asyncio.sleep(1.0 + len(data) / 2**20)
        if last := read.last():
            yield last

    async def names(self, node: str, glob: str) -> tuple[str, ...]:
        """The names of files in a node's logs folder. They are hostile: match them against the names that Ray gives (`log_names`)."""
        params: Params = {"node_id": node, "glob": glob, "timeout": int(AGENT_TIMEOUT_S)}
        data = await self._dashboard.data("/api/v0/logs", LogNames, timeout=AGENT_TIMEOUT_S, endpoint=f"/api/v0/logs {node}", params=params)
        if data.result is None:
            raise SourceError(f"Ray at {self._dashboard.shown} lists no logs of node {node[:8]}")
        return tuple(name for names in data.result.values() for name in names)

    async def read_end(self, node: str, name: str, lines: int, most_bytes: int) -> list[str]:
        """The last `lines` lines of a file, as far as they are in its last `most_bytes`."""
        self._refuse_old()
        is_cut = False

        def keep_end(body: bytearray) -> None:
            nonlocal is_cut
            if len(body) > 2 * most_bytes:
                is_cut = True
                del body[:-most_bytes]

        params: Params = {"node_id": node, "filename": name, "lines": lines, "format": "text", "timeout": int(AGENT_TIMEOUT_S)}
        path = "/api/v0/logs/file"
        body = await self._dashboard.get(path, timeout=2 * AGENT_TIMEOUT_S, endpoint=f"{path} {node}", params=params, take=keep_end)
        if not is_cut:
            without_error_mark(body, self._dashboard.shown)
        found = body[-most_bytes:].decode("utf-8", "replace").split("\n")
        # Another server may send more lines than it was asked for.
        return (found[:-1] if not found[-1] else found)[-lines:]

    async def follow(self, node: str, name: str, lines: int, is_over: Callable[[], Awaitable[bool]]) -> AsyncIterator[list[str]]:
        """A file that was just listed, in batches of raw lines, from its last `lines` until `is_over` is true and all is read."""
        self._refuse_old()
        stream = LogStream(self._dashboard, LogFile(node, name, name, is_listed=True), lines, is_over, over=await is_over())
        async for batch in stream.batches():
            yield batch

    def _refuse_old(self) -> None:
        if self._version < STREAMS_SINCE:
            since = ".".join(map(str, STREAMS_SINCE))
            raise SourceError(f"Ray at {self._dashboard.shown} is older than {since}: it adds marks of its own to the logs that it sends")
