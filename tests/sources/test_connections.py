from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress

import h11
import httpx
import pytest

from cockpit.sources import connections
from cockpit.sources.connections import ConnectError, ConnectionLostError, Connections
from tests.fakes.transport import MockTransport


async def asked(address, *args, **more):
    """The request as it goes out."""
    seen = []

    def answer(request):
        seen.append(request)
        return httpx.Response(200, text="well")

    async with Connections(address, MockTransport(answer)).ask(*args, **more) as told:
        assert [told.status, b"".join([piece async for piece in told.body])] == [200, b"well"]
    return seen[0]


@pytest.mark.parametrize(
    ("address", "path", "params", "url"),
    [
        ("http://head:8265", "/nodes", {"view": "summary", "_": 1}, "http://head:8265/nodes?view=summary&_=1"),
        ("http://gate/ray", "/api/jobs/a%2Fb", {}, "http://gate/ray/api/jobs/a%2Fb"),
        ("http://[::1]:8265", "/nodes", {"glob": "a b*"}, "http://[::1]:8265/nodes?glob=a%20b%2A"),
        ("https://api:443", "/apis/x?limit=5", {}, "https://api/apis/x?limit=5"),
        ("http://head:8265", "/api/jobs/\u6f22\r\n x", {}, "http://head:8265/api/jobs/%E6%BC%A2%0D%0A%20x"),
    ],
)
async def test_what_is_asked_for(address, path, params, url):
    assert str((await asked(address, "GET", path, params, {})).url) == url


async def test_headers_are_those_of_the_address_and_of_whoever_asks():
    request = await asked("http://me:s%40me@head:8265", "GET", "/nodes", {}, {})
    assert request.headers["host"] == "head:8265"
    assert request.headers["accept-encoding"] == "identity"
    assert "authorization" not in request.headers
    request = await asked("http://head:8265", "GET", "/nodes", {}, {"Authorization": "Bearer t"})
    assert request.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("method", "content", "length"), [("GET", b"", None), ("DELETE", b"", None), ("POST", b"", "0"), ("POST", b"{}", "2")]
)
async def test_the_length_of_a_body_is_told(method, content, length):
    request = await asked("http://head:8265", method, "/api/jobs/", {}, {}, content)
    assert request.headers.get("content-length") == length
    assert request.read() == content


@pytest.mark.parametrize("address", ["head:8265", "ftp://head", "http://", "http://head:port", "http://\ud800"])
async def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=r".+"):
        await asked(address, "GET", "/nodes", {}, {})


class Server:
    """Answers each request as it is told to, over real sockets; counts the connections."""

    def __init__(self, *answers):
        self.answers, self.heads, self.writers, self.connections, self.ended = list(answers), [], [], 0, 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.made = Connections(f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}")
        return self

    async def __aexit__(self, *_):
        await self.made.close()
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

    async def read(self, method="GET", content=b""):
        async with self.made.ask(method, "/nodes", {}, {}, content) as answer:
            return answer.status, b"".join([piece async for piece in answer.body])


async def steps(number):
    """Let both ends do what they can."""
    for _ in range(number):
        await asyncio.sleep(0)


WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"


async def test_a_connection_carries_one_exchange_after_another():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with Server(WELL, chunked, early + WELL) as server:
        assert [await server.read() for _ in range(3)] == [(200, b"well")] * 3
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer", [WELL.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), WELL.replace(b"1.1", b"1.0"), WELL + b"HTTP/1.1 408 Slow\r\n\r\n"]
)
async def test_a_connection_that_can_not_be_used_again_is_not(answer):
    async with Server(answer, WELL) as server:
        assert [await server.read(), await server.read()] == [(200, b"well")] * 2
        assert server.connections == 2


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"], ids=["silently", "with an answer"])
async def test_an_idle_connection_that_the_server_ends_is_not_used_again(said):
    async with Server(WELL, WELL) as server:
        await server.read()
        server.writers[0].write(said)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        await steps(3)
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_an_idle_connection_is_not_kept_for_ever(monkeypatch):
    async with Server(WELL, WELL) as server:
        await server.read()
        monkeypatch.setattr(connections, "KEEPALIVE_S", 0.0)
        await server.read()
        assert server.connections == 2


async def test_an_answer_that_is_not_wanted_to_its_end_is_let_go_of():
    async with Server(WELL, WELL) as server:
        with pytest.raises(ZeroDivisionError):
            async with server.made.ask("GET", "/", {}, {}):
                raise ZeroDivisionError
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_what_is_said_before_a_request_keeps_it_back():
    def refuse():
        raise ZeroDivisionError

    async with Server(WELL) as server:
        with pytest.raises(ZeroDivisionError):
            async with server.made.ask("GET", "/", {}, {}, before_send=refuse):
                pass
        assert await server.read() == (200, b"well")
        assert (len(server.heads), server.connections) == (1, 2)


async def test_a_body_goes_out_in_pieces():
    async def pieces():
        for _ in range(40):
            yield bytes(1 << 16)

    came = []

    async def count(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        came.append(len(await reader.readexactly(40 << 16)))
        writer.write(WELL)

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    made = Connections(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with made.ask("PUT", "/api/packages/x", {}, {"Content-Length": str(40 << 16)}, pieces()) as answer:
        assert (answer.status, came) == (200, [40 << 16])
    await made.close()
    server.close()


async def test_who_refuses_a_body_before_its_end_is_heard_and_sent_no_more(capfd):
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    sent = []

    async def pieces():
        for number in range(300):
            sent.append(number)
            yield bytes(1 << 10)

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    made = Connections(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with made.ask("PUT", "/api/packages/x", {}, {"Content-Length": str(300 << 10)}, pieces()) as answer:
        assert answer.status == 413
    assert len(sent) < 100
    assert capfd.readouterr().err == ""
    await made.close()
    server.close()


async def test_others_have_their_turn_while_an_answer_comes_in_tiny_pieces():
    tiny = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    async with Server(tiny) as server:
        reading = asyncio.ensure_future(server.read())
        turns = 0
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        assert reading.result() == (200, b"x" * 20_000)
        assert turns > 20_000 / connections._EVENTS_PER_STEP


async def cost_of_refusing(raw):
    """Seconds of CPU for an answer that is none."""
    async with Server(raw) as server:
        asking = asyncio.ensure_future(server.read())
        while not server.heads:
            await asyncio.sleep(0)
        began = time.process_time()
        with pytest.raises(h11.RemoteProtocolError):
            await asking
        return time.process_time() - began


@pytest.mark.parametrize(
    ("before", "run", "after"),
    [
        (b"HTTP/1.1 200 OK\r\nx:", b"%s" * 16_000, b"\0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nx:", b"\r\n %s" * 16_000, b"\0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"%s" * 40_000, b"\nx\r\n"),
    ],
    ids=["head", "folds", "chunk"],
)
async def test_blanks_are_refused_about_as_fast_as_letters(before, run, after):
    """Else 100 kB of them, from whoever holds the port, take a minute."""
    blanks, letters = [await cost_of_refusing(before + run.replace(b"%s", each) + after) for each in (b" ", b"x")]
    assert blanks < 50 * letters


async def test_what_comes_after_an_answer_that_was_read_late_is_nobodys_answer():
    size = 1 << 20
    async with Server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size), WELL) as server:
        async with server.made.ask("GET", "/nodes", {}, {}) as answer:
            await steps(100)
            async for _ in answer.body:
                await steps(3)
        server.writers[0].write(WELL.replace(b"well", b"evil"))
        await steps(3)
        assert await server.read() == (200, b"well")
        assert server.connections == 2


async def test_no_connection_stays_open_however_early_it_is_given_up():
    async with Server(*[WELL] * 40) as server:
        for number in range(40):
            asking = asyncio.ensure_future(server.read())
            await steps(number)
            asking.cancel()
            await asyncio.wait([asking])
        await server.made.close()
        await steps(20)
        assert server.ended == server.connections


async def test_a_large_answer_that_nobody_reads_yet_stays_where_it_is():
    size = 32 << 20
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    async with Server(whole) as server, server.made.ask("GET", "/nodes", {}, {}) as answer:
        await steps(100)
        assert server.writers[0].transport.get_write_buffer_size() > size / 2
        assert sum([len(piece) async for piece in answer.body]) == size


@pytest.mark.parametrize(("said", "error"), [(b"", h11.RemoteProtocolError), (b"SSH-2.0\r\n\r\n", h11.RemoteProtocolError)])
async def test_what_does_not_speak_http_is_an_error_of_the_other_end(said, error):
    async with Server(said) as server:
        asking = asyncio.ensure_future(server.read())
        while not server.heads:
            await asyncio.sleep(0)
        server.writers[0].close()
        with pytest.raises(error):
            await asking


async def test_a_connection_that_breaks_is_lost():
    async with Server(WELL[:-2]) as server, server.made.ask("GET", "/nodes", {}, {}) as answer:
        server.writers[0].transport.abort()
        with pytest.raises((ConnectionLostError, h11.RemoteProtocolError)):
            [piece async for piece in answer.body]


async def test_where_nothing_listens_the_system_says_why():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError) as caught:
            async with Connections(f"http://127.0.0.1:{taken.getsockname()[1]}").ask("GET", "/", {}, {}):
                pass
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
