"""Follows a file in the logs folder of a node over HTTP, across broken connections, without losing or repeating a line."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec

from cockpit.sources.http_client import Params
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError
from cockpit.sources.source import SourceError, wait_within

STREAM_PATH = "/api/v0/logs/stream"
STREAMS_SINCE = (2, 44)
"""In older versions every chunk of a stream begins with a mark that can't be separated from the text (2.9.3, state_head.py)."""
STREAM_INTERVAL_S = 0.5
OVERLAP_LINES = 20_000
"""The number of lines that are requested again after a cut: two seconds of a driver that writes 10,000 a second."""
NEEDLE_BYTES = 32 * 1024
"""The number of last bytes that are searched for after a cut. A log whose last 32 KB repeat one pattern can't be resumed exactly."""
WHOLE_LOG_BYTES = 16 * 2**20
"""Up to this size, a log that was read from its start is requested whole again: then bytes are counted, and nothing is searched."""
MAX_LINE_BYTES = 2**20
DRAINED_AFTER_S = 1.5
"""The seconds of silence (three of Ray's intervals) after which a log that has ended has been read."""
SILENCE_STEP_S, END_CHECK_INTERVAL_S = 0.25, 2.0
"""The steps in which silence is counted, and the interval in which `is_over` is asked during silence."""
MAX_TRIES = 6
FIND_TIMEOUT_S, FIND_IN_WHOLE_TIMEOUT_S = 5.0, 120.0
"""The time to find the place again: in the last lines, and in a whole log."""
_ERROR_MARK = b"[get_logs] Fetch log error"


class LogFile(msgspec.Struct, frozen=True):
    """A file in the logs folder of a node."""

    node: str
    """Ray's id of the node."""
    name: str
    shown: str
    """The name that is shown."""
    is_listed: bool = False
    """Ray has just listed it: if it can't be read, that is an error and not a file that does not exist yet."""


class LineDecoder:
    """Turns bytes into whole lines; counts the bytes and lines, and keeps the last bytes."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.tail = b""
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, without their newlines. A line without a newline is cut at a megabyte."""
        self.size += len(data)
        self.count += data.count(b"\n")
        self.tail = (self.tail + data)[-NEEDLE_BYTES:]
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode("utf-8", "replace") for line in whole]

    def last(self) -> list[str]:
        """The last line, if it has no newline."""
        rest, self._rest = self._rest, b""
        return [rest.decode("utf-8", "replace")] if rest else []


class Skip:
    """After a cut: skips the bytes that were read before, by their number."""

    def __init__(self, size: int) -> None:
        self._left = size

    @property
    def is_found(self) -> bool:
        """Whether all of them have been skipped."""
        return self._left == 0

    def feed(self, data: bytes) -> bytes:
        """The new part of `data`."""
        skipped = min(self._left, len(data))
        self._left -= skipped
        return data[skipped:]


class Search:
    """After a cut: skips all bytes up to and including those that were read last."""

    def __init__(self, needle: bytes) -> None:
        self._needle = needle
        self._window = b""
        self.is_found = False

    def feed(self, data: bytes) -> bytes:
        """The new part of `data`."""
        if self.is_found:
            return data
        self._window += data
        place = self._window.find(self._needle)
        if place < 0:
            self._window = self._window[-len(self._needle) :]
            return b""
        self.is_found = True
        return self._window[place + len(self._needle) :]


class LogStream:
    """Follows one file in the logs folder of a node over one connection after the other."""

    def __init__(self, dashboard: Dashboard, file: LogFile, lines: int, is_over: Callable[[], Awaitable[bool]], *, over: bool) -> None:
        """`is_over` returns whether nobody writes to the file any more, `over` its first result. Then the file is read to its end."""
        self._dashboard, self._file, self._is_over = dashboard, file, is_over
        self._first = lines
        self._read = LineDecoder()
        self._from_start = lines < 0
        self._over = over

    async def batches(self) -> AsyncIterator[list[str]]:
        """Batches of raw lines until the file is over and read to its end.

        Ray cuts each connection after 300 s (the proxy to a dashboard module, since 2.49).
        """
        params: Params = {"node_id": self._file.node, "filename": self._file.name, "interval": STREAM_INTERVAL_S, "format": "text"}
        failures, overlap = 0, max(OVERLAP_LINES, self._first)
        while True:
            # The number of lines to request, and the way to find the place in them.
            place: Skip | Search = Skip(0)
            lines = self._first
            if self._read.size and self._from_start and self._read.size <= WHOLE_LOG_BYTES:
                lines, place = -1, Skip(self._read.size)
            elif self._read.size:
                lines, place = overlap, Search(self._read.tail)
            connection = _Connection(self._dashboard, {"lines": lines, **params})
            patience = FIND_TIMEOUT_S if lines > 0 else FIND_IN_WHOLE_TIMEOUT_S
            async for data in self._until_cut(connection, place, patience):
                if batch := self._read.feed(data):
                    yield batch
            if connection.drained:
                break
            overlap = max(OVERLAP_LINES, self._first) if place.is_found else -1
            failures = 0 if connection.lived else failures + 1
            if isinstance(connection.error, DashboardRefusedError) and (self._over or (self._file.is_listed and not self._read.size)):
                raise connection.error
            if failures >= MAX_TRIES or (overlap == lines == -1 and connection.error is None):
                raise connection.error or SourceError(f"{self._file.shown} was replaced by another file")
            await asyncio.sleep(min(2.0**failures - 1, 8.0))
        if last := self._read.last():
            yield last

    async def _until_cut(self, connection: _Connection, place: Skip | Search, patience: float) -> AsyncIterator[bytes]:
        """The new bytes of one connection, until it ends, the log has been read, or the place has not been found in time."""
        silence, since_check, begun = 0.0, 0.0, time.monotonic()
        is_first = self._read.size == 0
        async for data in connection.pieces(SILENCE_STEP_S):
            if not place.is_found and time.monotonic() - begun > patience:
                return
            if data:
                silence = 0.0
                if new := place.feed(data):
                    yield new
                continue
            silence, since_check = silence + SILENCE_STEP_S, since_check + SILENCE_STEP_S
            # A first answer with fewer lines than requested is the whole file.
            if is_first and self._read.size:
                is_first, self._from_start = False, self._from_start or self._read.count < self._first - 1
            if not place.is_found and silence >= 2 * DRAINED_AFTER_S:
                return
            if self._over and place.is_found and silence >= DRAINED_AFTER_S:
                connection.drained = True
                return
            if not self._over and since_check >= END_CHECK_INTERVAL_S:
                since_check = 0.0
                self._over = await self._is_over()


class _Connection:
    """One stream. A task of its own reads it, because Ray sends nothing, not even headers, before there is a line."""

    def __init__(self, dashboard: Dashboard, params: Params) -> None:
        self._dashboard = dashboard
        self._params = params
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        self.error: SourceError | None = None
        self.lived = False
        self.drained = False

    async def pieces(self, step: float) -> AsyncIterator[bytes]:
        """The bytes that arrive, and an empty piece after every `step` seconds of silence. Ends with the connection."""
        task = asyncio.create_task(self._pump())
        try:
            while True:
                try:
                    data = await wait_within(step, self._queue.get())
                except asyncio.TimeoutError:
                    data = b""
                if data is None:
                    return
                yield data
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _pump(self) -> None:
        try:
            async with self._dashboard.stream("GET", STREAM_PATH, params=self._params) as answer:
                async for data in answer.aiter_raw():
                    self.lived = bool(without_error_mark(data, self._dashboard.shown))
                    await self._queue.put(data)
        except SourceError as error:
            self.error = error
        await self._queue.put(None)


def without_error_mark(data: bytes, dashboard: str) -> bytes:
    """The data. Raises `DashboardRefusedError` if they are an error message, which Ray before 2.49 sends as text."""
    if data.startswith(_ERROR_MARK):
        raise DashboardRefusedError(f"{dashboard} can't read the log: {data[len(_ERROR_MARK) : 300].decode('utf-8', 'replace')}", 500)
    return data


def last_lines(data: bytes, count: int) -> bytes:
    """The last `count` lines of `data`, as `tail -n` prints them; all if `count` is negative."""
    if count < 0:
        return data
    ends = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(count):
        ends = data.rfind(b"\n", 0, max(ends, 0))
        if ends < 0:
            return data
    return data[ends + 1 :]


def parse_version(text: str | None) -> tuple[int, ...]:
    """`(2, 44)` for `2.44.1`; an unknown version counts as a new one."""
    match = re.match(r"(\d{1,9})\.(\d{1,9})", text or "")
    return (int(match[1]), int(match[2])) if match else (999,)
