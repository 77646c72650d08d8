"""The logs of jobs and the files in the logs folders of nodes, through Ray's log API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated

from msgspec import Meta

from cockpit.sources.connections import Params
from cockpit.sources.ray import wire
from cockpit.sources.ray.http import Dashboard
from cockpit.sources.ray.job_log import JobLog
from cockpit.sources.ray.logs import STREAMS_SINCE, LogFile, LogStream, without_error_mark
from cockpit.sources.source import SourceError

LOG_LINES = 5000
AGENT_TIMEOUT_S = 6.0
"""For Ray's agent on a node to answer: one that hangs is given up, and the host's own probe is asked."""


class LogNames(wire.Snake, frozen=True):
    """`/api/v0/logs`: names of files, by what Ray takes them for."""

    result: Mapping[str, Annotated[tuple[str, ...], Meta(max_length=wire.MOST_LISTED)]] | None = None


class LogFiles:
    """Reads them as this version of Ray has them. Every failure is a `SourceError`."""

    def __init__(self, dashboard: Dashboard, version: tuple[int, ...]) -> None:
        self._dashboard, self._version = dashboard, version

    def follow_job(self, job: str, lines: int) -> AsyncIterator[list[str]]:
        """The log of a job's driver in batches of raw lines, from the last `lines` (all: -1) until the job is over and all is read."""
        return JobLog(self._dashboard, job, lines).follow(self._version)

    async def names(self, node: str, glob: str) -> tuple[str, ...]:
        """What the node's agent lists in its logs folder: hostile, to be matched against names that Ray gives."""
        params: Params = {"node_id": node, "glob": glob, "timeout": int(AGENT_TIMEOUT_S)}
        data = await self._dashboard.data("/api/v0/logs", LogNames, timeout=AGENT_TIMEOUT_S, endpoint=f"/api/v0/logs {node}", params=params)
        if data.result is None:
            raise SourceError(f"Ray at {self._dashboard.shown} lists no logs of node {node[:8]}")
        return tuple(name for names in data.result.values() for name in names)

    async def read_end(self, node: str, name: str, lines: int) -> list[str]:
        """The last so many lines as they are now."""
        self._refuse_old()
        params: Params = {"node_id": node, "filename": name, "lines": lines, "format": "text", "timeout": int(AGENT_TIMEOUT_S)}
        path = "/api/v0/logs/file"
        body = await self._dashboard.get(path, timeout=2 * AGENT_TIMEOUT_S, endpoint=f"{path} {node}", params=params)
        return without_error_mark(body, self._dashboard.shown).decode("utf-8", "replace").splitlines()

    async def follow(self, node: str, name: str, lines: int, is_over: Callable[[], Awaitable[bool]]) -> AsyncIterator[list[str]]:
        """A file that has just been listed, in batches of raw lines from the last `lines` on, until `is_over`, and all is read."""
        self._refuse_old()
        stream = LogStream(self._dashboard, LogFile(node, name, name, is_listed=True), lines, is_over)
        stream.over = await is_over()
        async for batch in stream.batches():
            yield batch

    def _refuse_old(self) -> None:
        if self._version < STREAMS_SINCE:
            since = ".".join(map(str, STREAMS_SINCE))
            raise SourceError(f"Ray at {self._dashboard.shown} is older than {since}: it sends no log without marks of its own in it")
