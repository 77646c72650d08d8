"""A dashboard as a function of the request, in httpx's words, where cockpit's connections are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

import httpcore
import httpx

Handler = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


class MockTransport(httpcore.AsyncConnectionPool):
    """Carries requests to the function; an error of httpx that this raises becomes httpcore's of the same name."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        body = b"".join([piece async for piece in request.stream])  # type: ignore[union-attr]  # it serves both ways
        try:
            url = b"".join((request.url.scheme, b"://", dict(request.headers)[b"Host"], request.url.target)).decode()
            answer = self._handler(httpx.Request(request.method.decode(), url, headers=request.headers, content=body))
            answer = await answer if isawaitable(answer) else answer
        except httpx.TransportError as error:
            raise getattr(httpcore, type(error).__name__)(str(error)) from error
        return httpcore.Response(answer.status_code, headers=answer.headers.raw, content=await answer.aread())

    async def aclose(self) -> None:
        """There are no connections."""
