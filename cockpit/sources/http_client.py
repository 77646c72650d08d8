"""The HTTP client for Ray's dashboard, the Kubernetes API and chat bots: httpx, with limits for answers that mean harm.

docs/decisions/0003-httpx-is-the-one-http-client.md has the reasons and the figures.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpcore
import httpx

Params = Mapping[str, str | float]
CONNECT_TIMEOUT_S: Final = 5.0
"""Only to connect: the caller limits the whole exchange."""
KEEPALIVE_S: Final = 60.0
"""How long an idle connection is kept: longer than the pause between two questions; Ray's aiohttp keeps it for 75 s."""
MAX_IDLE_CONNECTIONS: Final = 12
MAX_HEAD_BYTES: Final = 4 << 10
"""Of status line and headers, and of the size of a chunk. nginx takes no longer ones from a server either (`proxy_buffer_size`).

Ray's have 300 bytes."""
READ_BYTES: Final = 4 << 10
"""Read at once, so that not much more than MAX_HEAD_BYTES is parsed, and others have their turn between two reads."""

# h11 needs time that grows with the square of the blanks in a header: 20 s for httpcore's 100 kB.
httpcore.AsyncHTTP11Connection.MAX_INCOMPLETE_EVENT_SIZE = MAX_HEAD_BYTES
httpcore.AsyncHTTP11Connection.READ_NUM_BYTES = READ_BYTES


class TooLargeError(Exception):
    """A body is longer than what its reader accepts."""


def open_client(
    trust: ssl.SSLContext | None, *, transport: httpx.AsyncBaseTransport | None = None, uses_environment: bool = False
) -> httpx.AsyncClient:
    """A client that follows no redirect, keeps no cookie and asks for no compression; the caller reads bodies with `aiter_raw`.

    `trust`: whose certificates are believed; `None`: nobody's, for plain http. `uses_environment`: go through its proxies.
    """
    return httpx.AsyncClient(
        verify=trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        transport=transport,
        trust_env=uses_environment,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS, keepalive_expiry=KEEPALIVE_S),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"User-Agent": "ray-cockpit", "Accept-Encoding": "identity"},
    )


def load_trust() -> ssl.SSLContext:
    """The certificates of this system and those that httpx brings; those of SSL_CERT_FILE or SSL_CERT_DIR in place of httpx's.

    Raises `OSError`.
    """
    trust = httpx.create_ssl_context()
    trust.load_default_certs()
    return trust


async def read_body(answer: httpx.Response, most_bytes: int) -> bytes:
    """The whole body. Raises `TooLargeError`, `httpx.TransportError`."""
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most_bytes:
            raise TooLargeError
    return bytes(body)
