"""How a Ray dashboard is asked over HTTP, and what is said when no Ray answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, cast

import httpx

from cockpit.model import Cause
from cockpit.secrets import redact
from cockpit.sockets import has_received
from cockpit.sources.http_client import MAX_HEAD_BYTES, Params, load_trust, open_client
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire
from cockpit.sources.ray.error_text import asked_for, is_html, is_tls_failure, page_title, why_not_http, why_unreachable
from cockpit.sources.ray.replies import decode_reply
from cockpit.sources.source import SourceError, wait_within
from cockpit.text import clean, explain_os_error
from cockpit.trust import TOKEN_PLACES, Peer

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Auth = Literal["token", "disabled"]
Hide = Callable[[str], str]
Trace = Callable[[str, dict[str, Any]], Awaitable[None]]
Take = Callable[[bytearray], None]
"""Called with what has come of a body whenever more has; it may shorten that by what it has read."""

MAX_BODY_BYTES = 128 * 2**20
"""Bytes. `/nodes?view=summary` of 1,000 nodes with 20 workers each is 29 MB."""
MAX_ERROR_BYTES, ERROR_TIMEOUT_S = 1 << 17, 5.0
"""Bytes, and seconds, of the body of a refusal that are read: a traceback of Ray's has some kilobytes."""
THREAD_MIN_BYTES = 1 << 18
"""Bytes from which an answer is decoded in a thread."""
AUTH_CACHE_S = 5.0
"""Seconds for which an answer about tokens serves all that ask."""
MAX_TITLE_CHARS, MAX_SERVER_CHARS = 80, 60
"""Characters of a page's title, and of what a server calls itself: whoever answers has written them."""
_LONGEST_REST_S = 60.0
_REDIRECTS = (301, 302, 303, 307, 308)
_AUTH_MODE_PATH = "/api/authentication_mode"
_LIGHT_PATHS = (_AUTH_MODE_PATH, "/api/version", "/api/gcs_healthz")
"""These cost Ray nothing, and tell when it is back: they are not left alone longer and longer."""


class NoAnswerError(SourceError):
    """Nothing listens, nothing was sent, or it broke off: another try may do better."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "silent")


class NotRayAnswerError(NoAnswerError):
    """Something answers there, but not as Ray does: it speaks TLS, or no HTTP at all."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.cause = "not ray"


class DashboardRefusedError(SourceError):
    """Something answered, but not with success."""

    def __init__(self, text: str, status: int, cause: Cause | None = None) -> None:
        super().__init__(text, cause)
        self.status = status


async def run_in_thread_if(big: bool, work: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
    """Run `work` in a thread if `big`, so that keys are drawn meanwhile; else at once, as a thread would cost more than it saves."""
    return await asyncio.to_thread(work, *args, **more) if big else work(*args, **more)


class Dashboard:
    """One address, asked over kept connections; every failure is a `SourceError` that names the address.

    At most one question at a time for each path. Ray goes on working on a question that nobody waits for any more, so a path that has
    not answered in time is left alone for a while, longer each time.
    """

    def __init__(
        self,
        address: str,
        *,
        token: Callable[[], str | None],
        transport: httpx.AsyncBaseTransport | None,
        peer: Peer | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int | None = None,
    ) -> None:
        address = address.rstrip("/")
        self.address = address if "://" in address else f"http://{address}"
        self._url = _without_credentials(self.address)
        self.shown = redact(self._url)
        self.auth: Auth | None = None
        self.told_at: float | None = None
        """The time over there, to the second, when the last answer came: one clock for all who ask."""
        self.took: dict[str, float] = {}
        """Seconds from a question to the last byte of its answer, the last time, by path."""
        self.server: str | None = None
        """What the server calls itself in its last answer, fit to be shown."""
        self._token, self._max_bytes = token, max_bytes
        self._peer = peer or Peer(self.address, given=True)
        self._clock = clock
        self._transport = transport
        self._clients: dict[bool, httpx.AsyncClient] = {}
        """By whether their connections are checked."""
        self._asking = asyncio.Lock()
        self._auth_asked = 0.0
        self._busy: dict[str, asyncio.Lock] = {}
        self._rests: dict[str, tuple[float, float]] = {}
        self._counter = 0

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def wake(self) -> None:
        """Ask every path again at once: what kept Ray from answering is over."""
        self._rests.clear()

    async def json(self, path: str, shape: type[T], *, timeout: float, endpoint: str | None = None, decides: bool = False) -> T:
        """The answer to `GET path`, decoded. `decides`: something ends by it, so that it is heard only from whom secrets are sent to."""
        body = await self.get(path, timeout=timeout, endpoint=endpoint, decides=decides)
        return await self._read_body(body, "GET", path, partial(decode, shape=shape))

    async def find(self, path: str, shape: type[T], *, timeout: float, endpoint: str | None = None, decides: bool = False) -> T | None:
        """The same; `None` where there is no such thing (404)."""
        try:
            return await self.json(path, shape, timeout=timeout, endpoint=endpoint, decides=decides)
        except DashboardRefusedError as error:
            if error.status == 404:
                return None
            raise

    async def data(
        self,
        path: str,
        shape: type[T],
        *,
        timeout: float,
        endpoint: str | None = None,
        params: Params | None = None,
        take: Take | None = None,
    ) -> T:
        """The same for answers in an envelope, of which only the data matter."""
        body = await self.get(path, timeout=timeout, endpoint=endpoint, params=params, take=take)
        reply = await self._read_body(body, "GET", path, partial(decode_reply, shape=shape))
        if reply.data is None:
            why = _line(reply.msg or "no reason given")
            raise SourceError(f"Ray dashboard {self.shown} sent no data ({asked_for('GET', path)}): {why}")
        return reply.data

    async def _read_body(self, body: bytes, method: str, path: str, read: Callable[[bytes], T]) -> T:
        return await run_in_thread_if(len(body) > THREAD_MIN_BYTES, self._read_as, body, method, path, read)

    def _read_as(self, body: bytes, method: str, path: str, read: Callable[[bytes], T]) -> T:
        try:
            return read(body)
        except NotRayError as error:
            asked = asked_for(method, path)
            if is_html(body):
                raise SourceError(f"{self.shown} is not a Ray dashboard: it sent {self._page_words(body)} ({asked})", "not ray") from None
            raise SourceError(f"{self.shown} does not answer like Ray: {error}{self._server_words} ({asked})", "not ray") from None

    @property
    def _server_words(self) -> str:
        """For the end of a sentence; empty where the server does not say what it is."""
        return f", server {self.server}" if self.server else ""

    def _page_words(self, body: bytes) -> str:
        title = page_title(body)
        return f"an HTML page{f' titled “{_line(title)[:MAX_TITLE_CHARS]}”' if title else ''}{self._server_words}"

    async def get(
        self,
        path: str,
        *,
        timeout: float,
        endpoint: str | None = None,
        params: Params | None = None,
        take: Take | None = None,
        decides: bool = False,
    ) -> bytes:
        """The body of a success, whole, or what `take` has left of it.

        `endpoint` names the path when an id is part of it. A fresh parameter goes with every question, because Ray hands out the
        answer to the last question else (`aiohttp_cache` in dashboard/optional_utils.py; `nocache` is known since 2.49).
        """
        endpoint = endpoint or path
        async with self._busy.setdefault(endpoint, asyncio.Lock()):
            asked, words = self._clock(), asked_for("GET", path)
            if (left := self._rests.get(endpoint, (0.0, 0.0))[0] - asked) > 0:
                raise NoAnswerError(f"Ray dashboard {self.shown} did not answer ({words}); next try in {left:.0f} s")
            self._counter += 1
            fresh = {**(params or {}), "nocache": 1, "_": self._counter}
            try:
                body = await wait_within(timeout, self._exchange("GET", path, fresh, take=take, decides=decides))
            except asyncio.TimeoutError:
                self._rest(endpoint, timeout)
                raise NoAnswerError(f"Ray dashboard {self.shown} did not answer within {timeout:g} s ({words})") from None
            except asyncio.CancelledError:
                self._rests[endpoint] = (self._clock() + 1.0, 0.5)
                raise
            self._rests.pop(endpoint, None)
            self.took[endpoint] = self._clock() - asked
            return body

    def stream(self, path: str, params: Params | None = None) -> AbstractAsyncContextManager[httpx.Response]:
        """An answer that goes on, and may pause for any time; the caller reads it."""
        return self._ask("GET", path, params or {})

    async def write(
        self,
        method: Literal["POST", "DELETE"],
        path: str,
        shape: type[T],
        *,
        timeout: float,
        content: bytes = b"",
        hide: Hide | None = None,
    ) -> T:
        """The answer to what changes something. It is sent once: a `NoAnswerError` leaves open whether it was done.

        Ray repeats in its errors what it was sent: `hide` takes out of them what nobody may read.
        """
        kind = {"Content-Type": "application/json"} if content else {}
        answer = await self._within(timeout, method, path, self._exchange(method, path, {}, content, hide, kind))
        return await self._read_body(answer, method, path, partial(decode, shape=shape))

    async def put(self, path: str, pieces: AsyncIterator[bytes], length: int, *, timeout: float) -> None:
        """Send so many bytes."""
        sized = {"Content-Length": str(length)}  # else it goes in chunks, whose end a proxy may wait for
        await self._within(timeout, "PUT", path, self._exchange("PUT", path, {}, pieces, headers=sized))

    async def _within(self, timeout: float, method: str, path: str, work: Awaitable[R]) -> R:
        try:
            return await wait_within(timeout, work)
        except asyncio.TimeoutError:
            raise NoAnswerError(f"Ray dashboard {self.shown} did not answer within {timeout:g} s ({asked_for(method, path)})") from None

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | AsyncIterator[bytes] = b"",
        hide: Hide | None = None,
        headers: Mapping[str, str] = {},
        take: Take | None = None,
        *,
        decides: bool = False,
    ) -> bytes:
        async with self._ask(method, path, params, content, hide, headers, decides=decides) as answer:
            return await self._body(answer, method, path, take)

    @asynccontextmanager
    async def _ask(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | AsyncIterator[bytes] = b"",
        hide: Hide | None = None,
        headers: Mapping[str, str] = {},
        *,
        decides: bool = False,
    ) -> AsyncIterator[httpx.Response]:
        """A success, with its body yet to be read."""
        headers = {**headers, **await self._headers(path)}
        has_token = "Authorization" in headers
        with self._failures(path, method):
            is_secret = has_token or hide is not None or method == "PUT"  # a package may have secrets in its files
            why = "requires a token, cockpit sends none" if has_token else "is sent no secret" if is_secret else "is not believed"
            is_checked = is_secret or decides
            async with self._open_client(is_checked=is_checked).stream(
                method,
                f"{self._url}{path}",
                params=params or None,
                headers=headers,
                content=content or None,
                extensions={"trace": self._make_trace(asked_for(method, path), why if is_checked else None)},
            ) as answer:
                self._refuse_encoded(answer, method, path)
                self.told_at = _moment(answer.headers.get("date")) or self.told_at
                self.server = _line(clean(answer.headers.get("server", "")))[:MAX_SERVER_CHARS] or None
                if answer.status_code != 200:
                    body = await _read_error(answer)
                    said = hide(body.decode("utf-8", "replace")).encode() if hide else body
                    self._judge(answer, method, path, said, has_token=has_token)
                yield answer

    async def _body(self, answer: httpx.Response, method: str, path: str, take: Take | None = None) -> bytes:
        largest = self._max_bytes or MAX_BODY_BYTES
        body, came = bytearray(), 0
        async for piece in answer.aiter_raw():
            body += piece
            came += len(piece)
            if take is not None:
                take(body)
            if came > largest:
                raise SourceError(f"Ray dashboard {self.shown} sent more than {largest >> 20} MB ({asked_for(method, path)})")
        return cast("bytes", body)  # whoever gets it only reads it

    def _refuse_encoded(self, answer: httpx.Response, method: str, path: str) -> None:
        """Nothing but `identity` is asked for: a few kilobytes of gzip may be gigabytes."""
        encoding = answer.headers.get("content-encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            raise SourceError(f"Ray dashboard {self.shown} sent {_line(encoding)} data that cockpit can't read ({asked_for(method, path)})")

    async def _headers(self, path: str) -> dict[str, str]:
        """The token, if this cluster has asked for one; a cluster that doesn't is never told."""
        if path == _AUTH_MODE_PATH or await self.find_auth(known=True) != "token":
            return {}
        token = self._token()
        if token is None:
            return {}
        if not (token.isascii() and token.isprintable()):
            raise SourceError(f"{self.shown} requires a token, and the one found is not valid (looked in {TOKEN_PLACES})")
        return {"Authorization": f"Bearer {token}"}

    def _open_client(self, *, is_checked: bool) -> httpx.AsyncClient:
        """Secrets, and answers that decide, have a client of their own: each of its connections was checked when it was opened."""
        if is_checked not in self._clients:
            url = httpx.URL(self._url)
            if url.scheme not in ("http", "https") or not url.host:
                raise ValueError("it is not an address such as http://head:8265")
            try:
                trust = load_trust() if url.scheme == "https" else None
            except OSError as error:
                raise SourceError(f"the TLS certificates of this host can't be read: {explain_os_error(error)}") from None
            self._clients[is_checked] = open_client(trust, transport=self._transport)
        return self._clients[is_checked]

    def _make_trace(self, asked: str, refusal: str | None) -> Trace:
        """What httpcore calls at each step of a request: it checks a new connection before anything is sent through it.

        `refusal`: what an untrusted server is told of, in words; `None`: nothing is checked.
        """
        opened: list[socket.socket] = []

        async def trace(step: str, info: dict[str, Any]) -> None:
            if step == "connection.connect_tcp.complete":
                stream = info["return_value"]
                opened.append(stream.get_extra_info("socket"))
                if refusal is None:
                    self._peer.remember(opened[-1])
                elif (error := self._why_not_used(opened[-1], refusal, asked)) is not None:
                    await stream.aclose()
                    raise error
            # httpcore says the same whether nothing came or something in another protocol, as SSH.
            ended = step == "http11.receive_response_headers.failed" and "Server disconnected" in str(info["exception"])
            if ended and self._url.startswith("http:") and any(map(has_received, opened)):
                raise NotRayAnswerError(f"{self.shown} is not a Ray dashboard: it does not speak HTTP ({asked})")

        return trace

    def _why_not_used(self, connection: socket.socket, refusal: str, asked: str) -> SourceError | None:
        try:
            reason = self._peer.meet(connection)
        except OSError:
            return NoAnswerError(f"Ray dashboard {self.shown} closed the connection ({asked})")
        hint = "if it is the right Ray, name it with --address"
        return None if reason is None else DashboardRefusedError(f"{self.shown} {refusal}: {reason}; {hint}", 401)

    async def find_auth(self, *, known: bool = False) -> Auth:
        """Whether a token is wanted; asked unless that is `known`, or was asked a moment ago. Ray before 2.52 knows no such path."""
        async with self._asking:
            fresh = time.monotonic() - self._auth_asked < AUTH_CACHE_S
            if self.auth is not None and (known or fresh):
                return self.auth
            self.auth = await self._ask_auth()
            self._auth_asked = time.monotonic()
            return self.auth

    async def _ask_auth(self) -> Auth:
        mode = await self.find(_AUTH_MODE_PATH, wire.AuthenticationMode, timeout=4.0)
        return "disabled" if mode is None or mode.authentication_mode == "disabled" else "token"

    def _judge(self, answer: httpx.Response, method: str, path: str, body: bytes, *, has_token: bool) -> None:
        status, asked = answer.status_code, asked_for(method, path)
        if path != _AUTH_MODE_PATH and (status == 401 or (status == 403 and has_token)):
            self.auth = None
            raise self._token_refusal(status)
        if status in _REDIRECTS and "location" in answer.headers:
            where = clean(redact(answer.headers.get("location", "nowhere")))[:200]
            raise DashboardRefusedError(
                f"{self.shown} is not a Ray dashboard: HTTP {status} redirects to {where}{self._server_words} ({asked})", status, "not ray"
            )
        if is_html(body):
            raise DashboardRefusedError(
                f"{self.shown} does not answer like Ray: HTTP {status} ({asked}): {self._page_words(body)}", status, "not ray"
            )
        # Ray's own dashboard is an aiohttp server, and so is an error of its own.
        is_foreign = path in (_AUTH_MODE_PATH, "/api/version") and "aiohttp" not in (self.server or "")
        raise DashboardRefusedError(
            f"Ray dashboard {self.shown} answered HTTP {status} ({asked}): {_reason(body)}", status, "not ray" if is_foreign else None
        )

    def _token_refusal(self, status: int) -> DashboardRefusedError:
        if self._token() is None:
            return DashboardRefusedError(
                f"{self.shown} requires a token, and none was found (looked in {TOKEN_PLACES})", status, "no token"
            )
        refused = "rejects the token that was found" if status == 403 else "reports no valid token, although cockpit sent one"
        return DashboardRefusedError(f"{self.shown} {refused} (the first of {TOKEN_PLACES})", status, "wrong token")

    def _rest(self, endpoint: str, timeout: float) -> None:
        _, last = self._rests.get(endpoint, (0.0, timeout / 2))
        pause = min(last * 2, timeout if endpoint in _LIGHT_PATHS else _LONGEST_REST_S)
        self._rests[endpoint] = (self._clock() + pause, pause)

    @contextmanager
    def _failures(self, path: str, method: str = "GET") -> Iterator[None]:
        """What httpx calls its failures, in words."""
        asked = asked_for(method, path)
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = why_unreachable(error)
            kind = NotRayAnswerError if is_tls_failure(error) else NoAnswerError
            raise kind(f"Ray dashboard {self.shown} can't be reached: {why}") from None
        except httpx.RemoteProtocolError as error:
            if "buffer too long" in str(error):
                raise NoAnswerError(f"Ray dashboard {self.shown} sent headers of more than {MAX_HEAD_BYTES >> 10} kB ({asked})") from None
            if what := why_not_http(error):
                raise NotRayAnswerError(f"{self.shown} is not a Ray dashboard: {what} ({asked})") from None
            raise NoAnswerError(f"Ray dashboard {self.shown} ended its answer early or does not speak HTTP ({asked})") from None
        except (httpx.NetworkError, ssl.SSLError):  # the latter: the server refuses us after the handshake
            raise NoAnswerError(f"Ray dashboard {self.shown} closed the connection ({asked})") from None
        except (httpx.InvalidURL, httpx.TransportError, ValueError) as error:  # the last: half a surrogate in a name
            raise SourceError(f"Ray dashboard {self.shown} can't be asked: {_line(redact(f'{error}')) or type(error).__name__}") from None


async def _read_error(answer: httpx.Response) -> bytes:
    """The beginning of the body of a refusal, or what comes of it in time: it is only shown."""
    body = bytearray()

    async def read() -> None:
        async for piece in answer.aiter_raw():
            body.extend(piece)
            if len(body) >= MAX_ERROR_BYTES:
                return

    with suppress(asyncio.TimeoutError):
        await wait_within(ERROR_TIMEOUT_S, read())
    return bytes(body[:MAX_ERROR_BYTES])


def _without_credentials(address: str) -> str:
    """The address without a user's name and password."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _line(text: str) -> str:
    """The first sentence or so of what came, for the end of a sentence."""
    return redact(clean(" ".join(text[:2000].split())))[:200]


def _reason(body: bytes) -> str:
    try:
        text = decode(body, wire.Reply[object]).msg or ""
    except NotRayError:
        text = body[:20_000].decode("utf-8", "replace")
    if text.startswith("Traceback"):  # what it ends in; one within another ends in a lone full stop
        text = [line for line in text.splitlines() if line.strip(" .")][-1]
    return _line(text) or "nothing"


def _moment(date: str | None) -> float | None:
    """Seconds, of an HTTP date."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):  # a year, or an offset, of twenty digits
        return None
