"""The client against servers with every fault that a server can have; over real sockets."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from cockpit.sources.ray import http, wire
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError, NoAnswerError
from cockpit.sources.source import SourceError
from cockpit.trust import Peer
from cockpit.trust.sockets import Server
from tests.fakes.transport import MockTransport, refuse_certificate

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@asynccontextmanager
async def serving(talk: Talk) -> AsyncIterator[Dashboard]:
    """A dashboard client of a server that reads one request per connection and then calls `talk`."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if b"authentication_mode" in await reader.readuntil(b"\r\n\r\n"):
                body = b'{"authentication_mode": "disabled"}'
                writer.write(OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                return
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(lambda *streams: tasks.add(asyncio.ensure_future(connected(*streams))), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    dashboard = Dashboard(f"http://127.0.0.1:{port}", token=lambda: None, transport=None)
    try:
        yield dashboard
    finally:
        await dashboard.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(answer: bytes) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


async def ask(dashboard: Dashboard, timeout: float = 5.0) -> wire.Version:
    return await dashboard.json("/api/version", wire.Version, timeout=timeout)


async def failure(talk: Talk, timeout: float = 5.0) -> str:
    async with serving(talk) as dashboard:
        with pytest.raises(SourceError) as caught:
            await ask(dashboard, timeout)
        text = str(caught.value)
        assert dashboard.shown in text, "the error names the address"
        assert "\n" not in text
        return text


async def test_only_the_beginning_of_a_refusal_is_read():
    """The error shows a traceback's last line. 30 MB of traceback would block the screen for a second and need 700 MB."""
    sent = 0

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b'HTTP/1.1 500 X\r\nServer: aiohttp\r\n\r\n{"msg": "Traceback')
        while sent < 1 << 28:
            writer.write(b"\\nab" * 1000)
            sent += 4000
            await writer.drain()

    assert "answered HTTP 500 (asked for its version)" in await failure(endless)
    assert sent < 64 * http.MAX_ERROR_BYTES, "only the connection's buffers were filled"


async def test_rays_text_in_an_error_is_one_clean_line():
    body = b'{"msg": "\\u001b[2Jhi\\u202e"}'
    head = b"HTTP/1.1 500 X\r\nServer: aiohttp\r\nContent-Length: %d\r\n\r\n" % len(body)
    text = await failure(answering(head + body))
    assert "hi" in text
    assert not [char for char in text if ord(char) < 32 or char == "\u202e"]
    text = await failure(answering(b"HTTP/1.1 500 x\r\nContent-Length: 30\r\n\r\nTraceback x\n  y\nKeyError: 'a'\n\n"))
    assert text.endswith("answered HTTP 500 (asked for its version): KeyError: 'a'")


async def test_an_endless_answer_is_truncated(monkeypatch):
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 3 * 2**20)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    assert "sent more than 3 MB (asked for its version)" in await failure(talk)


async def test_an_endlessly_slow_answer_times_out():
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    assert "did not answer within 0.3 s (asked for its version)" in await failure(talk, timeout=0.3)


async def test_another_server_is_described_by_its_status_name_and_page_title():
    body = b"<html><head><TITLE>\n504 Gateway\x1b[2J\n Time-out &amp; more</TITLE></head></html>"
    head = b"Server: nginx/1.25.3\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
    text = await failure(answering(b"HTTP/1.1 504 Gateway Time-out\r\n" + head + body))
    assert text.endswith("HTTP 504 (asked for its version): an HTML page titled “504 Gateway�[2J Time-out & more”, server nginx/1.25.3")
    text = await failure(answering(b"HTTP/1.1 200 OK\r\n" + head + body))
    assert "is not a Ray dashboard: it sent an HTML page titled “504 Gateway" in text
    assert text.endswith(", server nginx/1.25.3 (asked for its version)")


OTHER_SERVERS = {
    "redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: http://sso/login\r\nContent-Length: 0\r\n\r\n",
        "not ray",
        "HTTP 302 redirects to http://sso/login",
    ),
    "page": (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", "not ray", "is not a Ray dashboard: it sent an HTML page"),
    "error page": (b"HTTP/1.1 502 Bad\r\nContent-Length: 28\r\n\r\n<html><h1>502 Bad Gateway...", "not ray", "an HTML page"),
    "refusal": (b"HTTP/1.1 400 Bad Request\r\nServer: envoy\r\nContent-Length: 2\r\n\r\n{}", "not ray", "answered HTTP 400"),
    "json": (OK + b"Content-Length: 2\r\n\r\n{}", "not ray", "does not answer like Ray: unexpected JSON"),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", "not ray", "does not speak HTTP"),
    "zeros": (b"\x00" * 1000, "not ray", "does not speak HTTP"),
    "tls": (b"\x15\x03\x03\x00\x02\x02\x46", "not ray", "does not speak HTTP; if it speaks TLS, ask it by https://"),
    "closed": (b"", "silent", "ended its answer early or does not speak HTTP"),
    "cut": (OK + b"Content-Length: 100\r\n\r\n{", "silent", "ended its answer early or does not speak HTTP"),
    "cut chunk": (OK + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"ray\r\n', "silent", "ended its answer early"),
    "long head": (b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b"x" * 20_000 + b"\r\n\r\n", "silent", "sent headers of more than 4 kB"),
    "ray's own error": (
        b"HTTP/1.1 500 x\r\nServer: Python/3.12 aiohttp/3.12.4\r\nContent-Length: 4\r\n\r\noops",
        None,
        "answered HTTP 500",
    ),
}


@pytest.mark.parametrize(("answer", "cause", "words"), OTHER_SERVERS.values(), ids=OTHER_SERVERS)
async def test_another_server_silence_and_rays_errors_have_different_causes_and_texts(answer: bytes, cause: str | None, words: str):
    async with serving(answering(answer)) as dashboard:
        with pytest.raises(SourceError) as caught:
            await ask(dashboard)
    assert caught.value.cause == cause, str(caught.value)
    assert words in str(caught.value)
    assert "(asked for its version)" in str(caught.value)


async def test_a_redirect_is_not_followed():
    where = b"http://evil.example/?token=abcdefgh"
    text = await failure(answering(b"HTTP/1.1 302 Found\r\nLocation: " + where + b"\r\nContent-Length: 0\r\n\r\n"))
    assert "redirects to http://evil.example/" in text
    assert "abcdefgh" not in text


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"identity, gzip"])
async def test_compression_that_was_not_requested_is_not_decoded(encoding):
    """A few kilobytes may be gigabytes."""
    bomb = gzip.compress(b"x" * (1 << 20))
    text = await failure(answering(OK + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (encoding, len(bomb), bomb)))
    assert text.endswith(f"sent {encoding.decode()} data that cockpit can't read (asked for its version)")


def test_no_secret_is_sent_if_the_owner_of_an_address_is_unknown():
    def fail(*_: object) -> Server:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    for given in (True, False):
        peer = Peer("http://127.0.0.1:8265", given=given, find=fail)
        with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_connection(ours.getsockname()) as client:
            assert peer.meet(client) == "the kernel can't be asked who serves port 8265: too many open files"
        assert peer.why_not_trusted() == "the kernel can't be asked who serves port 8265: too many open files"
        assert not peer.is_ours()


async def test_a_token_is_sent_only_if_nobody_else_listens():
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        asked = request.url.path == "/api/authentication_mode"
        body = {"authentication_mode": "token"} if asked else {"ray_version": "2.60.0", "session_name": "session_1"}
        return httpx.Response(200, json=body)

    users = {8265: frozenset([0])}
    peer = Peer("http://127.0.0.1:8265", given=False, find=lambda port, *_: Server(users.get(port, frozenset()), frozenset()))
    dashboard = Dashboard("http://127.0.0.1:8265", token=lambda: "s3cret", transport=MockTransport(answer), peer=peer)
    await ask(dashboard)
    assert sent[-1] == "Bearer s3cret"
    users[8265] = frozenset([666])
    sent.clear()
    with pytest.raises(DashboardRefusedError, match=r"cockpit sends none: what listens on port 8265 of this host belongs to user 666"):
        await ask(dashboard)
    assert not any(sent)
    await dashboard.close()


class TokenRay:
    """A Ray that requires a token; `heads` has the requests of each connection."""

    def __init__(self) -> None:
        self.heads: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()
        """Set when the other side has closed a connection."""

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for writer in self.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads: list[bytes] = []
        self.heads.append(heads)
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:  # until the other side closes it
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                body = b'{"authentication_mode": "token", "ray_version": "2.60.0"}'
                writer.write(OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.ended.set()

    def dashboard(self, *servers: Server) -> Dashboard:
        """A client for which the kernel gives these owners, one for each check."""
        answers = iter(servers)
        peer = Peer(f"http://127.0.0.1:{self.port}", given=True, find=lambda *_: next(answers))
        return Dashboard(f"http://127.0.0.1:{self.port}", token=lambda: "s3cret", transport=None, peer=peer)


OURS, STRANGERS = (Server(frozenset([user]), frozenset(["127.0.0.1"])) for user in (0, 666))


async def test_the_owner_is_checked_once_per_connection_and_the_token_uses_the_second():
    async with TokenRay() as ray:
        dashboard = ray.dashboard(OURS, OURS)
        for _ in range(3):
            await ask(dashboard)
        await dashboard.close()
        assert [[b"Bearer s3cret" in head for head in heads] for heads in ray.heads] == [[False], [True, True, True]]


async def test_a_connection_opened_without_a_secret_never_carries_one():
    """Its owner was seen when it was opened. A request with a secret closes a new connection to another user at once."""
    async with TokenRay() as ray:
        dashboard = ray.dashboard(OURS, STRANGERS, STRANGERS)
        for _ in range(2):
            with pytest.raises(
                DashboardRefusedError, match=r"requires a token, cockpit sends none: what listens on port .* belongs to user 666"
            ):
                await ask(dashboard)
        await asyncio.wait_for(ray.ended.wait(), 10)
        await dashboard.close()
        assert [len(heads) for heads in ray.heads] == [1, 0, 0]
        assert b"authorization" not in ray.heads[0][0].lower()


async def test_a_connection_to_an_unknown_owner_carries_no_token_even_to_a_named_address():
    """Its owner may have hidden from one reading of the kernel's tables and may accept it later."""
    async with TokenRay() as ray:
        dashboard = ray.dashboard(OURS, Server(frozenset(), frozenset(["127.0.0.1"])))
        with pytest.raises(DashboardRefusedError, match="sends none: no process that can be seen from here listens on port"):
            await ask(dashboard)
        await dashboard.close()
        assert [len(heads) for heads in ray.heads] == [1, 0]


async def refusal(address: str, transport: httpx.AsyncBaseTransport | None = None) -> SourceError:
    dashboard = Dashboard(address, token=lambda: None, transport=transport)
    with pytest.raises(SourceError) as caught:
        await ask(dashboard)
    await dashboard.close()
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "head.invalid"])
async def test_if_no_address_of_a_name_listens_the_connection_is_refused(monkeypatch, host):
    async def resolve(*_, **__):
        kind = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(socket.AF_INET, *kind, (f"127.0.0.{number}", taken.getsockname()[1])) for number in (1, 2)]

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if host == "head.invalid":
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        error = await refusal(f"http://{host}:{taken.getsockname()[1]}")
    assert isinstance(error, NoAnswerError)
    assert "can't be reached: connection refused, nothing listens there" in str(error)


async def test_tls_to_a_plain_dashboard_is_reported():
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    error = await refusal(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert re.search(r"TLS failed .* uses http://", str(error))
    assert error.cause == "not ray"
    server.close()


async def test_the_reason_for_a_failed_connection_is_reported(monkeypatch):
    unresolved = await refusal("http://no-such-host.invalid:8265")
    assert "no-such-host.invalid:8265 can't be reached: the host name can't be resolved" in str(unresolved)
    # With TLS 1.3 a server that wants our certificate says so only after the handshake, and httpx has no name for that error.
    assert "closed the connection" in str(await refusal("http://head:8265", MockTransport(refuse_certificate)))
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    assert "the TLS certificates of this host can't be read: no such file" in str(await refusal("https://127.0.0.1:1"))


@pytest.mark.parametrize("address", ["ftp://head", "http://", "http://[::1", "http://head:99999", "http://a b", "http://user:hunter22@[x"])
async def test_an_invalid_address_is_reported(address):
    assert "hunter22" not in str(await refusal(address))


@pytest.mark.parametrize(("path", "waits"), [("/nodes", (0.2, 0.4, 0.8)), ("/api/version", (0.2, 0.2, 0.2))], ids=["dear", "light"])
async def test_a_failing_path_pauses_longer_each_time_unless_it_costs_ray_nothing(path, waits):
    now = [0.0]
    asked = 0

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.read()

    async with serving(talk) as dashboard:
        dashboard._clock = lambda: now[0]
        await dashboard.find_auth()
        for wait in waits:
            with pytest.raises(NoAnswerError, match=r"within 0\.2 s"):
                await dashboard.json(path, wire.Version, timeout=0.2)
            now[0] += wait * 0.9
            with pytest.raises(NoAnswerError, match="next try in"):
                await dashboard.json(path, wire.Version, timeout=0.2)
            now[0] += wait * 0.2
        assert asked == 3


async def test_each_path_has_one_request_at_a_time():
    asked = 0
    go = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await go.wait()
        writer.write(OK + b'Content-Length: 22\r\n\r\n{"ray_version": "2.9"}')

    async with serving(talk) as dashboard:
        await dashboard.find_auth()
        both = asyncio.gather(ask(dashboard), ask(dashboard))
        while not asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert asked == 1
        go.set()
        await both
        assert asked == 2


async def test_requests_do_not_look_like_a_browsers():
    heads = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b'Content-Length: 22\r\n\r\n{"ray_version": "2.9"}')
        await writer.drain()
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK + b'Content-Length: 22\r\n\r\n{"ray_version": "2.9"}')

    async with serving(talk) as dashboard:
        await ask(dashboard)
        await ask(dashboard)
    names = {line.split(b":")[0].strip().lower() for line in heads[0].splitlines()}
    assert not names & {b"origin", b"referer", b"cookie"}
    assert b"mozilla" not in heads[0].lower()


async def test_a_refusal_has_its_status():
    async with serving(answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\n404: Not Found")) as dashboard:
        with pytest.raises(DashboardRefusedError) as caught:
            await ask(dashboard)
        assert caught.value.status == 404
