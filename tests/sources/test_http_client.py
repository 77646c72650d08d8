"""The behaviour of httpx that cockpit relies on: over real sockets, with good, faulty and hostile servers."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from cockpit.sources.http_client import MAX_HEAD_BYTES, READ_BYTES, load_trust, open_client, read_body


class Server:
    """Gives each request the next answer, over real sockets; counts the connections."""

    def __init__(self, *answers):
        self.answers, self.heads, self.writers, self.connections, self.ended = list(answers), [], [], 0, 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/nodes"
        self.client = open_client(None)
        return self

    async def __aexit__(self, *_):
        await self.client.aclose()
        self.server.close()
        for writer in self.writers:
            writer.close()

    async def connected(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self.answers.pop(0))
        self.ended += 1

    async def read(self, most_bytes=1 << 30):
        async with self.client.stream("GET", self.url) as answer:
            return answer.status_code, await read_body(answer, most_bytes)

    async def ask_once(self):
        """Asks, and waits until the server has received the question."""
        asking = asyncio.ensure_future(self.read())
        while not self.heads:
            await asyncio.sleep(0)
        return asking


async def steps(number):
    """Lets both ends run."""
    for _ in range(number):
        await asyncio.sleep(0)


WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answers", "connections"),
    [
        ([WELL, CHUNKED + b"2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WELL], 1),
        ([WELL.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), WELL], 2),
        ([WELL.replace(b"1.1", b"1.0"), WELL], 2),
    ],
)
async def test_a_connection_is_reused_if_both_sides_allow_it(answers, connections):
    async with Server(*answers) as server:
        assert [await server.read() for _ in answers] == [(200, b"well")] * len(answers)
        assert server.connections == connections


@pytest.mark.parametrize("ending", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"], ids=["silently", "with an answer"])
async def test_an_idle_connection_that_the_server_closes_is_not_reused(ending):
    async with Server(WELL, WELL) as server:
        await server.read()
        server.writers[0].write(ending)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        await steps(3)
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_an_abandoned_answer_closes_its_connection():
    async with Server(WELL, WELL) as server:
        with pytest.raises(ZeroDivisionError):
            async with server.client.stream("GET", server.url):
                raise ZeroDivisionError
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_bytes_after_an_answer_are_no_answer_to_the_next_request():
    size = 1 << 20
    async with Server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size), WELL) as server:
        async with server.client.stream("GET", server.url) as answer:
            await steps(100)
            async for _ in answer.aiter_raw():
                await steps(3)
        server.writers[0].write(WELL.replace(b"well", b"evil"))
        await steps(3)
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_a_cancelled_request_leaves_no_connection_open():
    async with Server(*[WELL] * 60) as server:
        for number in range(60):
            asking = asyncio.ensure_future(server.read())
            await steps(number)
            asking.cancel()
            await asyncio.wait([asking])
        await server.client.aclose()
        await steps(20)
        assert server.connections > 1
        assert server.ended == server.connections


async def pieces(number):
    for _ in range(number):
        yield bytes(1 << 16)


async def put(talk, number):
    """Sends this many pieces to a server that behaves as `talk`; returns its answer."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/packages/x"
    async with server, open_client(None) as client:
        return await client.put(url, content=pieces(number), headers={"Content-Length": str(number << 16)})


async def test_a_body_is_sent_in_pieces():
    came = []

    async def count(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        came.append((b"content-length: 2621440\r\n" in head.lower(), len(await reader.readexactly(40 << 16))))
        writer.write(WELL)
        writer.close()

    assert (await put(count, 40)).text == "well"
    assert came == [(True, 40 << 16)]


async def test_a_refusal_before_the_end_of_the_body_is_read():
    """Nginx and aiohttp keep reading: closing at once would reset the connection and lose the answer."""

    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        while await reader.read(1 << 20):
            pass
        writer.close()

    assert (await put(refuse, 300)).status_code == 413


async def test_a_close_during_the_body_is_a_connection_error(capfd):
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    with pytest.raises((httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)):
        await put(refuse, 300)
    await steps(3)
    assert capfd.readouterr().err == ""


async def test_no_cookie_is_stored_and_nothing_is_compressed():
    async with Server(WELL.replace(b"OK\r\n", b"OK\r\nSet-Cookie: session=1; Path=/\r\n"), WELL) as server:
        await server.read()
        await server.read()
        heads = b"".join(server.heads).lower()
        assert b"cookie" not in heads
        assert heads.count(b"accept-encoding: identity\r\n") == 2


async def test_redirects_and_proxy_variables_are_ignored(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Server(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n") as server:
        assert await server.read() == (302, b"")
        assert len(server.heads) == 1


async def test_a_client_for_plain_http_trusts_no_certificate():
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(Path(__file__).parents[1] / "notify" / "self_signed.pem")
    calls = []
    server = await asyncio.start_server(lambda *_: calls.append("a client that trusts it"), "127.0.0.1", 0, ssl=own)
    async with server, open_client(None) as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert not calls


def test_certificates_come_from_the_system_httpx_or_the_environment(monkeypatch):
    assert load_trust().cert_store_stats()["x509_ca"] > 50
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(OSError, match="No such file"):
        load_trust()


# Costs that a hostile server can cause


async def cost_of_refusing(*raw):
    """Seconds of CPU for an invalid answer that arrives in these parts."""
    async with Server(raw[0]) as server:
        asking = await server.ask_once()
        for part in raw[1:]:
            await steps(10)
            server.writers[0].write(part)
        began = time.process_time()
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
        return time.process_time() - began


HEAD = b"HTTP/1.1 200 OK\r\nx:"


@pytest.mark.parametrize("before", [HEAD, CHUNKED + b"1;", CHUNKED + b"0\r\nx:"], ids=["head", "chunk", "trailer"])
async def test_a_head_that_is_too_long_is_refused_before_it_is_parsed(before):
    """h11 would need a minute for the 100 kB of blanks in it, and would block everything else."""
    assert await cost_of_refusing(before + b" " * (1 << 20)) < 0.5


@pytest.mark.parametrize("fold", [b" ", b"\r\n "], ids=["one line", "folded"])
async def test_the_longest_accepted_head_is_parsed_quickly(fold):
    """The largest head, in the two parts that are the most expensive: 0.1 s on the author's machine."""
    blanks = fold * ((MAX_HEAD_BYTES + READ_BYTES - len(HEAD) - 8) // len(fold))
    whole = HEAD + blanks + b"\0\r\n\r\n"
    assert await cost_of_refusing(whole[:MAX_HEAD_BYTES], whole[MAX_HEAD_BYTES:]) < 5


async def test_a_long_head_is_read_up_to_the_limit_and_refused_beyond_it():
    """Httpcore's own limit is 100 kB. This one works only as long as httpcore reads it from where we set it."""
    start, end = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx:", b"\r\n\r\n"
    async with Server(start + b"x" * (MAX_HEAD_BYTES - len(start + end)) + end) as server:
        assert await server.read() == (200, b"")
    async with Server(start + b"x" * (MAX_HEAD_BYTES + READ_BYTES) + end) as server:
        with pytest.raises(httpx.RemoteProtocolError, match="Receive buffer too long"):
            await server.read()


async def test_a_read_is_small_and_a_large_unread_answer_stays_in_the_socket():
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 20) + bytes(1 << 20)
    async with Server(whole) as server, server.client.stream("GET", server.url) as answer:
        assert max([len(piece) async for piece in answer.aiter_raw()]) <= READ_BYTES
    size = 32 << 20
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    async with Server(whole) as server, server.client.stream("GET", server.url) as answer:
        await steps(100)
        assert server.writers[0].transport.get_write_buffer_size() > size / 2
        assert sum([len(piece) async for piece in answer.aiter_raw()]) == size


async def test_many_headers_are_refused():
    assert await cost_of_refusing(b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 200_000) < 0.5


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n",
        b"HTTP/1.1 103 x\r\n\r\n" * 20_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000,
    ],
    ids=["chunks", "answers before the answer"],
)
async def test_other_tasks_run_while_an_answer_arrives_in_tiny_pieces(answer):
    async with Server(answer) as server:
        reading = asyncio.ensure_future(server.read())
        longest, began = 0.0, time.thread_time()
        while not reading.done():
            await asyncio.sleep(0)
            longest, began = max(longest, time.thread_time() - began), time.thread_time()
        assert reading.result() == (200, b"x" * 20_000)
        assert longest < 0.25, "64 kB of them in one read take longer"
