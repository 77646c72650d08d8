"""The metrics endpoint of a node is asked as Prometheus asks it, and may answer what it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from cockpit.probe.engine_metrics import MAX_BYTES
from cockpit.sources.ray import node_metrics
from cockpit.sources.ray.node_metrics import NodeMetrics, does_reading_disturb
from cockpit.sources.source import SourceError

METRICS = b'ray_vllm_num_requests_running{WorkerId="c4",engine="0",model_name="tiny"} 4.0\n'
Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return talk


@asynccontextmanager
async def serving(talk: Talk) -> AsyncIterator[tuple[int, list[bytes]]]:
    heads: list[bytes] = []
    talks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await talk(writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(lambda *streams: talks.add(asyncio.ensure_future(connected(*streams))), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for one in talks:
            one.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def read(port: int, address: str = "127.0.0.1") -> object:
    metrics = NodeMetrics()
    try:
        return await metrics.read(address, port)
    finally:
        await metrics.close()


async def refused(talk: Talk) -> str:
    async with serving(talk) as (port, _):
        with pytest.raises(SourceError) as failed:
            await read(port)
    return str(failed.value)


async def test_it_is_one_get_without_a_token():
    async with serving(answer(METRICS)) as (port, heads):
        (engine,) = await read(port)  # type: ignore[misc]
    assert (engine.worker, engine.running) == ("c4", 4)
    assert len(heads) == 1
    assert heads[0].startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"authorization" not in heads[0].lower()
    assert b"cookie" not in heads[0].lower()


async def test_redirects_are_not_followed():
    async with serving(answer(METRICS)) as (elsewhere, heads):
        text = await refused(answer(b"", b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:%d/metrics\r\n" % elsewhere))
    assert "HTTP 307" in text
    assert heads == []


async def test_a_refusal_is_said():
    assert "HTTP 401" in await refused(answer(b"token?", b"HTTP/1.1 401 Unauthorized\r\n"))


async def test_a_server_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_metrics, "READ_TIMEOUT_S", 0.3)
    assert "no whole answer within" in await refused(lambda _: asyncio.sleep(60))


async def test_an_answer_that_never_ends_is_left_while_it_comes():
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        while True:
            writer.write(b"x" * (1 << 16))
            sent += 1 << 16
            await writer.drain()

    assert "more than 4 MB" in await refused(endless)
    assert sent < 4 * MAX_BYTES


async def test_compressed_and_broken_answers_are_sentences():
    assert "compressed" in await refused(answer(b"\x1f\x8b", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"))
    assert "broke off" in await refused(answer(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nX: "))

    async def tls(writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x15\x03\x01\x00\x02\x02\x16")

    assert "does not speak HTTP" in await refused(tls)


async def test_hostile_labels_are_data():
    async with serving(answer(b'ray_vllm_num_requests_running{WorkerId="\x1b[2J",model_name="\\n\\"} 9"} 1\n' + bytes(range(256)))) as (
        port,
        _,
    ):
        (engine,) = await read(port)  # type: ignore[misc]
    assert (engine.running, engine.model) == (1, 'n"} 9')


async def test_nothing_listens():
    async with serving(answer(b"")) as (port, _):
        pass
    with pytest.raises(SourceError, match="nothing listens there"):
        await read(port)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "0.0.0.0", "224.0.0.1", "metadata.internal", "fe80::1", "", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254", "100.100.100.200", "::1%eth0",
    ],
)  # fmt: skip
async def test_addresses_that_are_no_nodes_are_never_asked(address: str):
    with pytest.raises(SourceError, match="is no"):
        await read(80, address)


async def test_what_stands_behind_an_address_leads_to_no_other_host():
    async with serving(answer(METRICS)) as (port, heads):
        for address in (f"::1%]@127.0.0.1:{port}?", f"::1%]@127.0.0.1:{port}#", f"fe80::1%]:{port}@127.0.0.1:{port}?"):
            with pytest.raises(SourceError, match="is no address"):
                await read(port, address)
    assert heads == []


@pytest.mark.parametrize(
    ("version", "disturbs"), [("2.9.3", False), ("2.50.1", False), ("2.51.0", True), ("2.56.0", True), ("2.57.0", False), (None, False)]
)
def test_rays_whose_gauges_the_reader_takes_away(version: str | None, disturbs: bool):
    assert does_reading_disturb(version) is disturbs
