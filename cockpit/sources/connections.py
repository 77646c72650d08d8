"""HTTP/1.1 over kept connections: one request, and its answer piece by piece.

h11 reads and writes the protocol, asyncio carries it. What httpcore and anyio add to that, and a dashboard doesn't need, cost a tenth of
the start, and as much CPU again as a request.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, cast
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import h11
import msgspec
from h11 import _readers

from cockpit.sources.source import wait_within

Params = Mapping[str, str | float]
CONNECT_TIMEOUT_S: Final = 5.0
"""Only to connect: whoever asks limits the whole exchange."""
KEEPALIVE_S: Final = 60.0
"""Seconds for which an idle connection is kept: longer than the pause between two questions; Ray's aiohttp keeps it for 75."""
MAX_IDLE_CONNECTIONS: Final = 12
_MAX_UNREAD_BYTES: Final = 1 << 18
_MAX_HEAD_BYTES: Final = 100 << 10
_EVENTS_PER_STEP: Final = 64
"""Events of one connection after which others have their turn: chunks of a byte come thousands at a time."""
_PORTS: Final = {"http": 80, "https": 443}
_ALWAYS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": "ray-cockpit"}


# h11 0.16 tries every way to share out blanks between two parts of a pattern: 100 kB of them, from whoever holds a port, would stop this
# program for a minute, ctrl+c and all.
_readers.header_field_re = re.compile(_readers.header_field_re.pattern.replace(rb":[ \t]*", rb":[ \t]*(?![ \t])", 1))
_readers.chunk_header_re = re.compile(
    _readers.chunk_header_re.pattern.replace(rb"(?P<chunk_ext>;.*)?[ \t]*", rb"(?:(?P<chunk_ext>;.*)|[ \t]*)", 1)
)


class ConnectError(Exception):
    """No connection came about; its cause is the system's error, and none when it took too long."""


class ConnectionLostError(Exception):
    """It broke while it was in use; its cause is the system's error."""


class HttpResponse(msgspec.Struct, frozen=True):
    """What came back, with the body yet to be read."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: AsyncIterable[bytes]


class HttpRequest(msgspec.Struct, frozen=True):
    """What goes out, and to where."""

    scheme: str
    host: str
    """As DNS writes it."""
    port: int
    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | AsyncIterator[bytes]
    before_send: Callable[[], None]
    """Called once a connection is open, before anything goes through it; what it raises keeps the request back."""


class Transport(Protocol):
    """What carries requests: `ConnectionPool`, or what stands for it in a test."""

    def exchange(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """A request, and its answer for as long as the context lasts."""
        ...

    async def close(self) -> None:
        """Let all connections go."""
        ...


class Connections:
    """To one address, `http://host:port/prefix`.

    Raises `ConnectError`, `ConnectionLostError`, the errors of h11, and `ValueError` where it is no address.
    """

    def __init__(self, address: str, transport: Transport | None = None, *, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: whose certificates are believed, `None`: the system's, or those that SSL_CERT_FILE names, and certifi's."""
        self._address = address
        self._transport = transport or ConnectionPool(trust)

    async def close(self) -> None:
        """Let all of them go."""
        await self._transport.close()

    def ask(
        self,
        method: str,
        path: str,
        params: Params,
        headers: Mapping[str, str],
        content: bytes | AsyncIterator[bytes] = b"",
        before_send: Callable[[], None] = lambda: None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """`path` is quoted already, and may have parameters of its own. `content` that is no bytes needs a Content-Length."""
        place = urlsplit(self._address)
        if place.scheme not in _PORTS or not place.hostname:
            raise ValueError("it is not an address such as http://head:8265")
        host, port = _to_ascii(place.hostname), place.port or _PORTS[place.scheme]
        target = quote(f"{place.path}{path}", safe="/?%:@!$&'()*+,;=~") + (f"?{urlencode(params, quote_via=quote)}" if params else "")
        headers = {**_own_headers(place, method, content), **headers}
        return self._transport.exchange(HttpRequest(place.scheme, host, port, method, target, headers, content, before_send))


class ConnectionPool:
    """Connections to one host and port, each for one exchange after another."""

    def __init__(self, trust: ssl.SSLContext | None) -> None:
        self._trust = trust
        self._idle: list[_Connection] = []
        self._used: set[_Connection] = set()

    @asynccontextmanager
    async def exchange(self, request: HttpRequest) -> AsyncIterator[HttpResponse]:
        """The connection is kept only if the answer was read to its end."""
        connection = self._take_idle() or await _connect(request, self._find_trust)
        self._used.add(connection)
        try:
            request.before_send()
            await connection.send(request)
            yield await connection.read_head()
        finally:
            self._used.discard(connection)
            self._let_go(connection)

    async def close(self) -> None:
        """All at once, also those that carry something."""
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # asyncio closes the sockets in its next step

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def _let_go(self, connection: _Connection) -> None:
        if connection.start_anew() and len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()

    def _find_trust(self) -> ssl.SSLContext:
        """To load certificates takes a tenth of the start, and nobody asks for them over http."""
        if self._trust is None:
            import certifi

            self._trust = ssl.create_default_context()
            self._trust.load_verify_locations(certifi.where())
        self._trust.set_alpn_protocols(["http/1.1"])  # some gateways choose by it
        return self._trust


async def _connect(request: HttpRequest, find_trust: Callable[[], ssl.SSLContext]) -> _Connection:
    """Addresses of a name are tried one after the other: asyncio's race between them leaves a socket open when it is given up."""
    connection, loop = _Connection(), asyncio.get_running_loop()
    try:
        trust = find_trust() if request.scheme == "https" else None
        await wait_within(CONNECT_TIMEOUT_S, loop.create_connection(lambda: connection, request.host, request.port, ssl=trust))
    except asyncio.TimeoutError:
        connection.close()  # it may have come about in the same moment
        raise ConnectError from None
    except asyncio.CancelledError:
        connection.close()
        raise
    except OSError as error:
        raise ConnectError from error
    return connection


class _Connection(asyncio.Protocol):
    """It carries one exchange at a time; what comes is left in the kernel while there is enough to read."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._used_at = 0.0
        self._unread = 0
        """Bytes at most; of an idle connection, what nobody has asked for."""
        self._is_paused = self._has_ended = False
        self._events = 0
        self._failure: Exception | None = None
        self._heard, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._unread += len(data)
        if self._unread > _MAX_UNREAD_BYTES and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._heard.set()

    def eof_received(self) -> None:
        self._protocol.receive_data(b"")
        self._has_ended = True
        self._heard.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._failure is None:  # over TLS Python 3.10 tells of an end only so
            self._protocol.receive_data(b"")
        self._has_ended, self._failure = True, self._failure or exc or ConnectionAbortedError()
        self._heard.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # An exchange

    def is_usable(self) -> bool:
        """Whether it is not too old, and the other end has neither ended it nor said what nobody asked for."""
        return time.monotonic() - self._used_at < KEEPALIVE_S and not self._has_ended and not self._unread

    async def send(self, request: HttpRequest) -> None:
        """As far as the other end takes it: who refuses a body answers, and closes the connection, before its end."""
        self._write(h11.Request(method=request.method, target=request.target, headers=list(request.headers.items())))
        if not isinstance(request.content, bytes):
            async for piece in request.content:
                self._write(h11.Data(data=piece))
                await asyncio.sleep(0)  # else nothing is heard of the other end
                await self._writable.wait()
                if self._has_ended or self._transport is None or self._transport.is_closing():
                    return
        elif request.content:
            self._write(h11.Data(data=request.content))
        self._write(h11.EndOfMessage())

    def _write(self, event: h11.Event) -> None:
        if (data := self._protocol.send(event)) and self._transport is not None and not self._has_ended:
            self._transport.write(data)

    async def read_head(self) -> HttpResponse:
        """The body can be read as long as the exchange lasts."""
        try:
            while isinstance(event := await self._read_event(), h11.InformationalResponse):
                pass
        except h11.RemoteProtocolError as error:
            began = self._protocol.trailing_data[0][:5]
            if "illegal" in str(error) or b"HTTP/".startswith(began):
                raise
            raise h11.RemoteProtocolError("illegal status line") from error  # h11 says only that the other end has closed
        if not isinstance(event, h11.Response):
            raise h11.RemoteProtocolError("there is no answer")
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        return HttpResponse(event.status_code, told, self._read_body())

    async def _read_body(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._read_event(), h11.Data):
            yield event.data

    async def _read_event(self) -> object:
        """An event of h11's."""
        self._events += 1
        if self._events % _EVENTS_PER_STEP == 0:
            await asyncio.sleep(0)
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._failure is not None:
                raise ConnectionLostError from self._failure
            self._resume_reading()
            self._heard.clear()
            await self._heard.wait()
        return event

    def _resume_reading(self) -> None:
        self._unread = 0
        if self._is_paused and not self._has_ended and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def start_anew(self) -> bool:
        """Whether it can carry another exchange."""
        if not (self._protocol.our_state is self._protocol.their_state is h11.DONE) or self._protocol.trailing_data[0]:
            return False
        self._protocol.start_next_cycle()
        self._resume_reading()  # so that an end, and what nobody has asked for, are heard
        self._used_at = time.monotonic()
        return True

    def close(self) -> None:
        """Without waiting for the other end."""
        self._failure = self._failure or ConnectionAbortedError()  # what came so far is not all of an answer
        if self._transport is not None:
            self._transport.abort()


def _to_ascii(host: str) -> str:
    """As DNS writes it; Python's tables of all letters are only loaded for who needs them."""
    return host.encode("ascii" if host.isascii() else "idna").decode()


def _own_headers(place: SplitResult, method: str, content: bytes | AsyncIterator[bytes]) -> dict[str, str]:
    found = {"Host": _to_ascii(place.netloc.rpartition("@")[2]), **_ALWAYS}
    if isinstance(content, bytes) and (content or method in ("POST", "PUT")):
        found["Content-Length"] = str(len(content))
    return found
