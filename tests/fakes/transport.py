"""A server as a function of the request, in place of httpx's connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import httpx

Handler = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


def refuse_certificate(_: httpx.Request) -> httpx.Response:
    """The error of TLS if the server requires a certificate."""
    raise ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")


class Socket(socket.socket):
    """A closed socket that claims to lead to another host."""

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.7", 8265

    def getsockname(self) -> tuple[str, int]:
        return "192.0.2.1", 50000


class Stream:
    """The parts of a connection that are used."""

    def __init__(self) -> None:
        self.is_closed = False

    def get_extra_info(self, _: str) -> socket.socket:
        with Socket() as closed:
            return closed

    async def aclose(self) -> None:
        self.is_closed = True


class MockTransport(httpx.AsyncBaseTransport):
    """Passes each request to the function over a new connection, with the trace events of httpcore."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if (trace := request.extensions.get("trace")) is not None:
            await trace("connection.connect_tcp.complete", {"return_value": Stream()})
        await request.aread()
        answer = self._handler(request)
        answer = await answer if isawaitable(answer) else answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content))
