"""HTTP over a pool of kept connections: one request, and its answer piece by piece.

It is httpcore, on which httpx stands, without what that adds and a dashboard doesn't need: cookies, redirects, proxies, encodings. For the
screen that is 6 MB less, and a third of the CPU of a request.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import httpcore

sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]  # "not installed", as Python itself notes it
"""httpcore looks for it with every request (`_synchronization.py`, 1.0.9), and Python looks through all folders: a tenth of a request."""
Params = Mapping[str, str | float]
CONNECT_TIMEOUT_S: Final = 5.0
"""Only to connect: whoever asks limits the whole exchange."""
KEEPALIVE_S: Final = 60.0
"""Seconds for which an idle connection is kept: longer than the pause between two questions; Ray's aiohttp keeps it for 75."""
MAX_CONNECTIONS: Final = 24
MAX_IDLE_CONNECTIONS: Final = 12
_PORTS: Final = {"http": 80, "https": 443}
_ALWAYS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": "ray-cockpit"}


class HttpResponse(NamedTuple):
    """What came back, with the body yet to be read."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: AsyncIterable[bytes]


class Connections:
    """To one address, `http://host:port/prefix`. Raises the errors of httpcore, and `ValueError` where it is no address."""

    def __init__(self, address: str, transport: httpcore.AsyncConnectionPool | None = None, *, trust: ssl.SSLContext | None = None) -> None:
        """`transport`: what stands for httpcore's pool in a test; `trust`: whose certificates are believed, `None`: certifi's."""
        self._address = address
        self._transport = transport or httpcore.AsyncConnectionPool(
            ssl_context=trust if address.startswith("https:") else _NO_TLS,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
        )

    async def close(self) -> None:
        """Let all of them go."""
        await self._transport.aclose()

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        path: str,
        params: Params,
        headers: Mapping[str, str],
        content: bytes | AsyncIterator[bytes] = b"",
        extensions: Mapping[str, Any] = {},
    ) -> AsyncIterator[HttpResponse]:
        """`path` is quoted already, and may have parameters of its own. `content` that is no bytes needs a Content-Length."""
        place = urlsplit(self._address)
        request = httpcore.Request(
            method,
            _url(place, path, params),
            headers=list({**_own_headers(place, method, content), **headers}.items()),
            content=content,
            extensions={"timeout": {"connect": CONNECT_TIMEOUT_S}, **extensions},
        )
        response = await self._transport.handle_async_request(request)
        try:
            told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            yield HttpResponse(response.status, told, response.aiter_stream())
        finally:
            await response.aclose()


_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without any certificate: to load them takes a tenth of the start, and nobody asks for them over http."""


def _url(place: SplitResult, path: str, params: Params) -> httpcore.URL:
    if place.scheme not in _PORTS or not place.hostname:
        raise ValueError("it is not an address such as http://head:8265")
    target = quote(f"{place.path}{path}", safe="/?%:@!$&'()*+,;=~") + (f"?{urlencode(params, quote_via=quote)}" if params else "")
    host = _to_ascii(place.hostname)
    return httpcore.URL(scheme=place.scheme.encode(), host=host, port=place.port or _PORTS[place.scheme], target=target.encode())


def _to_ascii(host: str) -> bytes:
    """As DNS writes it; Python's tables of all letters are only loaded for who needs them."""
    return host.encode("ascii" if host.isascii() else "idna")


def _own_headers(place: SplitResult, method: str, content: bytes | AsyncIterator[bytes]) -> dict[str, str]:
    found = {"Host": _to_ascii(place.netloc.rpartition("@")[2]).decode(), **_ALWAYS}
    if isinstance(content, bytes) and (content or method in ("POST", "PUT")):
        found["Content-Length"] = str(len(content))
    return found
