"""Logs across cut connections. A real server streams a growing file as Ray does, and cuts the connection on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from cockpit.sources.ray import logs
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.logs import LineDecoder, Search, last_lines, parse_version
from cockpit.sources.source import SourceError


class LogServer:
    """Serves one job with the log `written`. Each stream is cut after the next number of bytes in `cuts`, if there is one."""

    def __init__(self, version: str = "2.60.0") -> None:
        self.version = version
        self.written = b""
        self.cuts: list[int] = []
        self.status = "RUNNING"
        self.type = "SUBMISSION"
        self.node: str | None = "ab" * 28
        self.streams: list[dict[str, str]] = []
        self.lines_on_each_stream = 0
        self.ignores_the_number = False
        self.fail: tuple[int, bytes] | None = None
        self.listed: dict[str, list[str]] | None = {"worker_out": ["a.out"], "raylet": ["raylet.out"]}

    def write(self, *lines: str) -> None:
        self.written += "".join(f"{line}\n" for line in lines).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                where = urlsplit(head.split()[1].decode())
                if where.path.endswith("/stream"):
                    return await self.stream({key: value[0] for key, value in parse_qs(where.query).items()}, writer)
                self.answer(unquote(where.path), writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return None
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        job = {
            "type": self.type,
            "submission_id": "j/1" if self.type == "SUBMISSION" else None,
            "status": self.status,
            "driver_node_id": self.node,
        }
        found = {
            "/api/authentication_mode": {"authentication_mode": "disabled"},
            "/api/version": {"ray_version": self.version},
            "/api/jobs/j/1": job,
            "/api/jobs/j/1/logs": {"logs": self.written.decode()},
            "/api/v0/logs": {"result": True, "data": {"result": self.listed}},
        }.get(path)
        body = b"404: Not Found" if found is None else json.dumps(found).encode()
        if path == "/api/v0/logs/file":
            found, body = {}, self.written
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s" % (404 if found is None else 200, len(body), body))

    async def stream(self, params: dict[str, str], writer: asyncio.StreamWriter) -> None:
        self.streams.append(params)
        if self.fail:
            writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s" % (self.fail[0], len(self.fail[1]), self.fail[1]))
            return
        place = len(self.written) - len(last_lines(self.written, -1 if self.ignores_the_number else int(params["lines"])))
        cut = place + self.cuts.pop(0) if self.cuts else None
        begun = False
        while not writer.is_closing():
            if new := self.written[place:cut][:65536]:
                if not begun:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    begun = True
                writer.write(b"%x\r\n%s\r\n" % (len(new), new))
                await writer.drain()
                place += len(new)
            elif cut is not None and place >= cut:
                return
            else:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(log: LogServer) -> AsyncIterator[RayClient]:
    tasks: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(lambda *streams: tasks.add(asyncio.ensure_future(log.serve(*streams))), "127.0.0.1", 0)
    ray = RayClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token=lambda: None)
    try:
        yield ray
    finally:
        await ray.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    monkeypatch.setattr(logs, "DRAINED_AFTER_S", 0.3)
    monkeypatch.setattr(logs, "SILENCE_STEP_S", 0.05)
    monkeypatch.setattr(logs, "END_CHECK_INTERVAL_S", 0.2)


async def followed(log: LogServer, lines: int = 5000, react: Callable[[list[str]], None] = lambda _lines: None) -> list[str]:
    """All lines of the log. `react` gets the lines so far after each batch, and may change the log."""
    got: list[str] = []
    async with serving(log) as ray:
        async for batch in ray.follow_log("j/1", lines):
            got += batch
            react(got)
    return got


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


@pytest.mark.parametrize(("status", "lines"), [("SUCCEEDED", 5000), ("FAILED", 3)])
async def test_the_log_of_an_ended_job_is_read_from_its_last_lines_to_its_end(status, lines):
    log = LogServer()
    log.write(*numbered(0, 1000))
    log.written += b"no end"
    log.status = status
    assert await followed(log, lines) == [*numbered(0, 1000), "no end"][-lines:]


async def test_lines_come_as_they_are_written_until_the_job_has_ended():
    log = LogServer()
    log.write("first")

    def grow(lines: list[str]) -> None:
        if lines == ["first"]:
            log.write("second")
        else:
            log.status = "STOPPED"

    assert await followed(log, react=grow) == ["first", "second"]


async def test_a_log_without_a_line_yet_is_waited_for():
    log = LogServer()
    async with serving(log) as ray:
        batches = ray.follow_log("j/1")
        first = asyncio.ensure_future(batches.__anext__())
        while not log.streams:
            await asyncio.sleep(0.01)
        log.write("at last")
        assert await first == ["at last"]
        await batches.aclose()


@pytest.mark.parametrize("lines", [-1, 5000])
@pytest.mark.parametrize("cuts", [[7], [1, 1, 1], [64, 65, 70_000, 9], [100_000] * 3])
async def test_a_log_that_grows_loses_and_repeats_nothing_at_cuts(cuts, lines):
    await check_growth(numbered(0, 30_000), cuts, lines)


async def test_a_log_that_repeats_itself_is_resumed_by_counting_bytes_if_read_from_its_start():
    await check_growth(["tick"] * 20_020, [30_000, 45_000], -1)


async def check_growth(written: list[str], cuts: list[int], lines: int) -> None:
    """The log has 20 lines, then grows while its streams are cut, then its job ends."""
    log = LogServer()
    log.write(*written[:20])

    def grow(got: list[str]) -> None:
        if len(got) == 20:
            log.cuts = list(cuts)
            log.write(*written[20:])
        if len(got) == len(written):
            log.status = "SUCCEEDED"

    assert await followed(log, lines, grow) == written


@pytest.mark.parametrize("cuts", [[700], [40_000, 250_000, 200_000]])
async def test_a_log_read_from_its_middle_loses_and_repeats_nothing_at_cuts(cuts):
    log = LogServer()
    log.write(*numbered(0, 50_000))
    log.cuts = list(cuts)
    log.status = "SUCCEEDED"
    assert await followed(log, lines=40_000) == numbered(10_000, 50_000)
    assert len(log.streams) == len(cuts) + 1


async def test_a_log_that_grew_much_after_a_cut_is_resumed_from_the_whole_log(monkeypatch):
    monkeypatch.setattr(logs, "FIND_TIMEOUT_S", 0.3)
    log = LogServer()
    log.write(*numbered(0, 10_000))
    log.cuts = [5_000]

    def grow(_lines: list[str]) -> None:
        if log.status != "SUCCEEDED":
            log.write(*numbered(10_000, 60_000))
            log.status = "SUCCEEDED"

    assert await followed(log, 9_000, grow) == numbered(1_000, 60_000)
    assert [params["lines"] for params in log.streams] == ["9000", "20000", "-1"]


async def test_a_log_that_was_replaced_after_a_cut_is_not_mixed_with_the_first(monkeypatch):
    monkeypatch.setattr(logs, "FIND_TIMEOUT_S", 0.3)
    monkeypatch.setattr(logs, "FIND_IN_WHOLE_TIMEOUT_S", 0.3)
    log = LogServer()
    log.write(*numbered(0, 10_000))
    log.cuts = [5_000]
    got: list[str] = []

    async def follow(ray: RayClient) -> None:
        async for batch in ray.follow_log("j/1", 9_000):
            log.written = b"something else\n" * 1000
            got.extend(batch)

    async with serving(log) as ray:
        with pytest.raises(SourceError, match="the log of j/1 was replaced by another file"):
            await follow(ray)
    assert got == numbered(1_000, 1_000 + len(got))


async def test_a_driver_that_was_not_submitted_has_no_log_in_ray():
    log = LogServer()
    log.type = "DRIVER"
    with pytest.raises(SourceError, match=r"was started by hand, not submitted"):
        await followed(log)


async def test_a_job_that_never_started_has_no_lines():
    log = LogServer()
    log.status, log.node = "FAILED", None
    assert await followed(log) == []


async def test_a_job_that_ray_does_not_know_is_not_an_empty_log():
    async with serving(LogServer()) as ray:
        with pytest.raises(SourceError, match="404"):
            async for _ in ray.follow_log("other"):
                pass


async def test_a_log_on_a_dead_node_raises_rays_message(monkeypatch):
    monkeypatch.setattr(logs, "MAX_TRIES", 2)
    log = LogServer()
    log.fail = (500, b"Agent for node id: abab doesn't exist.")
    with pytest.raises(SourceError, match=r"answered HTTP 500 \(asked for a log\): Agent for node id: abab doesn't exist"):
        await followed(log)


async def test_an_error_within_a_stream_is_no_line_of_the_log(monkeypatch):
    monkeypatch.setattr(logs, "MAX_TRIES", 1)
    log = LogServer("2.44.1")
    log.written = b"[get_logs] Fetch log error: File or directory not found"
    with pytest.raises(SourceError, match="can't read the log: : File or directory not found"):
        await followed(log)


async def test_an_old_rays_log_is_polled_completely():
    log = LogServer("2.9.3")
    log.write(*numbered(0, 100))

    def grow(_lines: list[str]) -> None:
        if log.status != "SUCCEEDED":
            log.write(*numbered(100, 110))
            log.status = "SUCCEEDED"

    assert await followed(log, 10, grow) == numbered(90, 110)
    assert log.streams == []


async def test_leaving_early_ends_the_connection():
    log = LogServer()
    log.write("one")
    async with serving(log) as ray:
        before = asyncio.all_tasks()
        batches = ray.follow_log("j/1")
        assert await batches.__anext__() == ["one"]
        await batches.aclose()
        while asyncio.all_tasks() - before - {asyncio.current_task()} and not _only_servers(before):
            await asyncio.sleep(0.01)


def _only_servers(before: set[asyncio.Task[object]]) -> bool:
    return not any("_pump" in repr(task) for task in asyncio.all_tasks() - before)


def test_a_line_without_a_newline_is_cut_at_a_megabyte():
    lines = LineDecoder()
    assert lines.feed(b"x" * 2**20) == []
    assert [len(line) for line in lines.feed(b"y\nz")] == [2**20 + 1]
    assert lines.feed(b"z" * (2**20 + 1))[0].startswith("zz")
    assert lines.last() == []


def test_invalid_bytes_are_replaced_but_a_split_character_is_kept():
    lines = LineDecoder()
    assert lines.feed("tök".encode()[:2]) == []
    assert lines.feed("tök".encode()[2:] + b"\n\xff\n") == ["tök", "\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_search_finds_the_place_wherever_the_chunks_end(size):
    data = b"one two three four five"
    search = Search(b"three ")
    assert b"".join(search.feed(data[start : start + size]) for start in range(0, len(data), size)) == b"four five"


@pytest.mark.parametrize(
    ("data", "count", "left"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 9, b"a\nb\n"),
        (b"", 3, b""),
        (b"a\n", -1, b"a\n"),
        (b"\n\n\n", 1, b"\n"),
    ],
)
def test_the_last_lines_are_those_that_tail_shows(data, count, left):
    assert last_lines(data, count) == left


def test_versions_are_compared_by_number_and_an_unknown_one_counts_as_new():
    assert parse_version("2.9.3") < (2, 44) <= parse_version("2.44.1") < parse_version("2.60.0")
    assert parse_version("2.60.0") < parse_version(None) == parse_version("nightly")


# Files of a node

NODE = "cd" * 28


async def is_over() -> bool:
    return True


async def test_names_are_those_that_the_node_lists():
    log = LogServer()
    async with serving(log) as ray:
        files = await ray.log_files()
        assert await files.names(NODE, "*") == ("a.out", "raylet.out")
        log.listed = None
        with pytest.raises(SourceError, match="lists no logs of node cdcdcdcd"):
            await files.names(NODE, "*")


async def test_the_file_of_an_ended_process_is_read_to_its_end():
    log = LogServer()
    log.write(*numbered(0, 10))
    async with serving(log) as ray:
        files = await ray.log_files()
        assert [line async for batch in files.follow(NODE, "a.out", 3, is_over) for line in batch] == numbered(7, 10)
    assert [(one["node_id"], one["filename"]) for one in log.streams] == [(NODE, "a.out")]


async def test_of_the_end_of_a_file_with_a_huge_line_only_the_last_bytes_are_kept():
    log = LogServer()
    log.write("begin", "x" * 500_000, "the last line")
    async with serving(log) as ray:
        lines = await (await ray.log_files()).read_end(NODE, "a.out", 400, 10_000)
    assert lines[-1] == "the last line"
    assert sum(map(len, lines)) < 30_000
    log.written = b"first\nsecond\n"
    async with serving(log) as ray:
        assert await (await ray.log_files()).read_end(NODE, "a.out", 400, 10_000) == ["first", "second"]


async def test_of_a_server_that_sends_more_lines_than_it_was_asked_for_the_last_ones_are_kept():
    log = LogServer()
    async with serving(log) as ray:
        log.written = b"\n" * 200_000 + b"the last line\n"
        log.ignores_the_number = True
        lines = await (await ray.log_files()).read_end(NODE, "a.out", 400, 2_000_000)
    assert (len(lines), lines[-1]) == (400, "the last line")


async def test_a_file_is_followed_until_its_process_has_ended():
    log, over = LogServer(), asyncio.Event()
    log.write("first")
    got: list[str] = []

    async def has_ended() -> bool:
        return over.is_set()

    async with serving(log) as ray:
        async for batch in (await ray.log_files()).follow(NODE, "a.out", -1, has_ended):
            got += batch
            if batch == ["first"]:
                log.write("second")
            if batch == ["second"]:
                over.set()
    assert got == ["first", "second"]


async def test_a_listed_file_that_cannot_be_read_is_not_waited_for():
    log = LogServer()
    log.fail = (500, b"A file is not found at: /tmp/ray/x")

    async def never() -> bool:
        return False

    async with serving(log) as ray:
        with pytest.raises(SourceError, match="A file is not found"):
            [_ async for _ in (await ray.log_files()).follow(NODE, "a.out", 3, never)]
    assert len(log.streams) == 1


async def test_an_old_ray_which_marks_its_chunks_is_asked_for_no_file():
    async with serving(LogServer("2.9.3")) as ray:
        files = await ray.log_files()
        with pytest.raises(SourceError, match="is older than"):
            [_ async for _ in files.follow(NODE, "a.out", 3, is_over)]
        with pytest.raises(SourceError, match="is older than"):
            await files.read_end(NODE, "gcs_server.out", 3, 10_000)
