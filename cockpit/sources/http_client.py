"""Makes HTTP requests to Ray's dashboard, the Kubernetes API and chat bots, with httpx and with limits for harmful answers.

docs/decisions/0003-httpx-is-the-one-http-client.md has the reasons and the figures.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpcore
import httpx

Params = Mapping[str, str | float]
TakePart = Callable[[bytearray], None]
"""Called with the part of a body that has arrived, after each read. It may remove bytes that it has processed."""
CONNECT_TIMEOUT_S: Final = 5.0
"""The timeout of the connection alone. The caller limits the time of the whole exchange."""
KEEPALIVE_S: Final = 60.0
"""An idle connection is kept for longer than the pause between two questions. Ray's aiohttp keeps it for 75 s."""
MAX_IDLE_CONNECTIONS: Final = 4
"""httpcore looks at each idle connection at each request. Four are enough for the questions of one moment."""
MAX_HEAD_BYTES: Final = 4 << 10
"""The longest status line with headers, and the longest line with the size of a chunk. Ray's have 300 bytes, and nginx has the same limit
(`proxy_buffer_size`)."""
READ_BYTES: Final = 4 << 10
"""The most that is read at once: so little more than MAX_HEAD_BYTES is parsed, and other tasks run between two reads."""

# The time of h11 grows with the square of the blanks in a header: it is 20 s for httpcore's limit of 100 kB.
httpcore.AsyncHTTP11Connection.MAX_INCOMPLETE_EVENT_SIZE = MAX_HEAD_BYTES
httpcore.AsyncHTTP11Connection.READ_NUM_BYTES = READ_BYTES


class TooLargeError(Exception):
    """A body is longer than its reader accepts."""


def open_client(
    trust: ssl.SSLContext | None, *, transport: httpx.AsyncBaseTransport | None = None, uses_environment: bool = False
) -> httpx.AsyncClient:
    """A client that follows no redirect, keeps no cookie and asks for no compression; the caller reads bodies with `aiter_raw`.

    `trust` has the certificates that are trusted; `None` for plain http. With `uses_environment`, the proxies of the environment are used.
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
    """Load the certificates of this system, and of SSL_CERT_FILE or SSL_CERT_DIR, else the certificates of httpx. Raises `OSError`."""
    trust = httpx.create_ssl_context()
    trust.load_default_certs()
    return trust


async def read_body(answer: httpx.Response, most_bytes: int, take: TakePart | None = None) -> bytes:
    """The whole body, or the part that `take` has left. Raises `TooLargeError`, `httpx.TransportError`."""
    body, received = bytearray(), 0
    async for part in answer.aiter_raw():
        body += part
        received += len(part)
        if received > most_bytes:
            raise TooLargeError
        if take is not None:
            take(body)
    return bytes(body)
