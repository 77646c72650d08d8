"""A dashboard as a function of the request, in httpx's words, where cockpit's connections are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable

import httpx

from cockpit.sources.connections import ConnectError, ConnectionLostError, HttpRequest, HttpResponse

Handler = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


class MockTransport:
    """Carries requests to the function; an error of httpx that this raises becomes one of cockpit's connections."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    @asynccontextmanager
    async def exchange(self, request: HttpRequest) -> AsyncIterator[HttpResponse]:
        request.before_send()
        content = request.content
        body = content if isinstance(content, bytes) else b"".join([piece async for piece in content])
        try:
            url = f"{request.scheme}://{request.headers['Host']}{request.target}"
            answer = self._handler(httpx.Request(request.method, url, headers=request.headers, content=body))
            answer = await answer if isawaitable(answer) else answer
        except httpx.ConnectError as error:
            raise ConnectError from error
        except httpx.TransportError as error:
            raise ConnectionLostError from error
        yield HttpResponse(answer.status_code, answer.headers, answer.aiter_bytes())

    async def close(self) -> None:
        """There are no connections."""
