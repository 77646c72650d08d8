"""Asks one Ray dashboard over HTTP, and explains in one sentence why no Ray has answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

import httpx

from cockpit.model import Cause
from cockpit.secrets import redact
from cockpit.sources.http_client import MAX_HEAD_BYTES, Params, TakePart, TooLargeError, load_trust, open_client, read_body
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire
from cockpit.sources.ray.error_text import asked_for, is_html, is_tls_failure, page_title, why_not_http, why_unreachable
from cockpit.sources.source import SourceError, wait_within
from cockpit.text import clean, explain_os_error
from cockpit.trust import TOKEN_PLACES, Peer
from cockpit.trust.sockets import has_received

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Auth = Literal["token", "disabled"]
Hide = Callable[[str], str]

MAX_BODY_BYTES = 128 * 2**20
"""The longest answer. `/nodes?view=summary` of 1,000 nodes with 20 workers each has 29 MB."""
MAX_ERROR_BYTES, ERROR_TIMEOUT_S = 1 << 17, 5.0
"""How much of the body of an error is read, and for how long. A traceback of Ray has some kilobytes."""
MAX_TITLE_CHARS, MAX_SERVER_CHARS = 80, 60
"""The longest title of a page and name of a server that are shown: anybody may have written them."""
THREAD_MIN_BYTES = 1 << 18
"""The size from which an answer is decoded in a thread. To change the thread costs more than to decode a small answer."""
_LONGEST_REST_S = 60.0
_REDIRECTS = (301, 302, 303, 307, 308)
_AUTH_MODE_PATH = "/api/authentication_mode"
_LIGHT_PATHS = (_AUTH_MODE_PATH, "/api/version", "/api/gcs_healthz")
"""Paths that cost Ray nothing and show that it is back. The pause after a timeout does not grow for them."""


class NoAnswerError(SourceError):
    """Nothing listens, nothing was sent, or the answer broke off. Another try may succeed."""

    def __init__(self, text: str, cause: Cause = "silent") -> None:
        super().__init__(text, cause)


class AnswerTimeoutError(NoAnswerError):
    """The answer did not come in time."""


class DashboardRefusedError(SourceError):
    """An answer with another status than 200."""

    def __init__(self, text: str, status: int, cause: Cause | None = None) -> None:
        super().__init__(text, cause)
        self.status = status


async def run_in_thread_if(big: bool, work: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
    """Run `work` in a thread if `big`, so that keys are handled meanwhile; else at once."""
    return await asyncio.to_thread(work, *args, **more) if big else work(*args, **more)


class Dashboard:
    """One address, asked over connections that are kept. Every failure is a `SourceError` whose text has the address.

    Each path is asked one question at a time. Ray goes on working on a question after its client has left, so a path
    that did not answer in time is not asked again for a while, longer each time.
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
        scheme, _, rest = self.address.partition("://")
        host, slash, path = rest.partition("/")
        self._url = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"  # without a user's name and password
        self.shown = redact(self._url)
        self.auth: Auth | None = None
        self.server_time: float | None = None
        """The time of the last answer by the server's clock, in whole seconds."""
        self.answer_times: dict[str, float] = {}
        """For each path: the seconds that its last answer took, to the last byte."""
        self.server: str | None = None
        """The name that the server gave itself in the last answer, cleaned for the screen."""
        self._token, self._max_bytes = token, max_bytes or MAX_BODY_BYTES
        self._peer = peer or Peer(self.address, given=True)
        self._clock = clock
        self._transport = transport
        self._clients: dict[bool, httpx.AsyncClient] = {}
        """By whether their connections are checked."""
        self._asking_auth = asyncio.Lock()
        self._busy: dict[str, asyncio.Lock] = {}
        self._rests: dict[str, tuple[float, float]] = {}
        """For each path that did not answer in time: when it may be asked again, and the length of this pause."""
        self._counter = 0

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def retry_now(self) -> None:
        """End the pauses of all paths, because Ray can answer again."""
        self._rests.clear()

    async def json(
        self,
        path: str,
        shape: type[T],
        *,
        timeout: float,
        endpoint: str | None = None,
        params: Params | None = None,
        take: TakePart | None = None,
        decides: bool = False,
    ) -> T:
        """The decoded answer to `GET path`. `decides`: it may end processes, so only a server that may get secrets is asked."""
        body = await self.get(path, timeout=timeout, endpoint=endpoint, params=params, take=take, decides=decides)
        return await self._decode(body, asked_for("GET", path), shape)

    async def find(self, path: str, shape: type[T], *, timeout: float, endpoint: str | None = None, decides: bool = False) -> T | None:
        """Like `json`; `None` for a 404."""
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
        take: TakePart | None = None,
    ) -> T:
        """Like `json`, for an answer in Ray's envelope (`wire.Reply`): its data."""
        envelope: type[wire.Reply[T]] = wire.Reply[shape]  # type: ignore[valid-type]  # the shape is a value here
        reply = await self.json(path, envelope, timeout=timeout, endpoint=endpoint, params=params, take=take)
        if reply.data is None:
            why = _line(reply.msg or "no reason given")
            raise SourceError(f"Ray dashboard {self.shown} sent no data ({asked_for('GET', path)}): {why}")
        return reply.data

    async def _decode(self, body: bytes, asked: str, shape: type[T]) -> T:
        try:
            return await run_in_thread_if(len(body) > THREAD_MIN_BYTES, decode, body, shape)
        except NotRayError as error:
            if is_html(body):
                raise SourceError(
                    f"{self.shown} is not a Ray dashboard: it sent {self._describe_page(body)} ({asked})", "not ray"
                ) from None
            raise SourceError(f"{self.shown} does not answer like Ray: {error}{self._server_words} ({asked})", "not ray") from None

    @property
    def _server_words(self) -> str:
        """The server's name for the end of a sentence; empty if it is unknown."""
        return f", server {self.server}" if self.server else ""

    def _describe_page(self, body: bytes) -> str:
        title = page_title(body)
        return f"an HTML page{f' titled “{_line(title)[:MAX_TITLE_CHARS]}”' if title else ''}{self._server_words}"

    async def get(
        self,
        path: str,
        *,
        timeout: float,
        endpoint: str | None = None,
        params: Params | None = None,
        take: TakePart | None = None,
        decides: bool = False,
    ) -> bytes:
        """The body of the answer, or the part that `take` has left.

        `endpoint` is the name of the path if the path contains an id. Every question has a parameter that is new, because Ray repeats
        its last answer to the same question (`aiohttp_cache` in dashboard/optional_utils.py; Ray 2.49 and later know `nocache`).
        """
        endpoint = endpoint or path
        async with self._busy.setdefault(endpoint, asyncio.Lock()):
            asked_at = self._clock()
            if (left := self._rests.get(endpoint, (0.0, 0.0))[0] - asked_at) > 0:
                raise NoAnswerError(f"Ray dashboard {self.shown} did not answer ({asked_for('GET', path)}); next try in {left:.0f} s")
            self._counter += 1
            fresh = {**(params or {}), "nocache": 1, "_": self._counter}
            try:
                body = await self._read("GET", path, self.stream("GET", path, params=fresh, decides=decides), timeout, take)
            except AnswerTimeoutError:
                _, last = self._rests.get(endpoint, (0.0, timeout / 2))
                pause = min(last * 2, timeout if endpoint in _LIGHT_PATHS else _LONGEST_REST_S)
                self._rests[endpoint] = (self._clock() + pause, pause)
                raise
            except asyncio.CancelledError:
                self._rests[endpoint] = (self._clock() + 1.0, 0.5)
                raise
            self._rests.pop(endpoint, None)
            self.answer_times[endpoint] = self._clock() - asked_at
            return body

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
        """The answer to a request that changes something. It is sent once: after a `NoAnswerError`, Ray may have done it or not.

        Ray's errors repeat the request: `hide` removes its secrets from them.
        """
        headers = {"Content-Type": "application/json"} if content else {}
        body = await self._read(method, path, self.stream(method, path, content=content, hide=hide, headers=headers), timeout)
        return await self._decode(body, asked_for(method, path), shape)

    async def put(self, path: str, parts: AsyncIterator[bytes], length: int, *, timeout: float) -> None:
        """Send `length` bytes. With the length in a header no proxy has to wait for the end of a chunked body."""
        await self._read("PUT", path, self.stream("PUT", path, content=parts, headers={"Content-Length": str(length)}), timeout)

    async def _read(
        self,
        method: str,
        path: str,
        response: AbstractAsyncContextManager[httpx.Response],
        timeout: float,
        take: TakePart | None = None,
    ) -> bytes:
        """The body of a response. Raises `AnswerTimeoutError`, and `SourceError` if it is too long."""

        async def read() -> bytes:
            async with response as answer:
                return await read_body(answer, self._max_bytes, take)

        try:
            return await wait_within(timeout, read())
        except asyncio.TimeoutError:
            raise AnswerTimeoutError(
                f"Ray dashboard {self.shown} did not answer within {timeout:g} s ({asked_for(method, path)})"
            ) from None
        except TooLargeError:
            raise SourceError(f"Ray dashboard {self.shown} sent more than {self._max_bytes >> 20} MB ({asked_for(method, path)})") from None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | AsyncIterator[bytes] = b"",
        hide: Hide | None = None,
        headers: Mapping[str, str] = {},
        decides: bool = False,
    ) -> AsyncIterator[httpx.Response]:
        """A response with status 200, whose body the caller reads; it may never end."""
        token = await self._find_token(path)
        headers = {**headers, "Authorization": f"Bearer {token}"} if token else headers
        is_secret = token is not None or hide is not None or method == "PUT"  # a package may have secrets in its files
        refusal = "requires a token, cockpit sends none" if token is not None else "is sent no secret" if is_secret else "is not believed"
        is_checked, asked = is_secret or decides, asked_for(method, path)
        try:
            async with self._open_client(is_checked=is_checked).stream(
                method,
                f"{self._url}{path}",
                params=params or None,
                headers=headers,
                content=content or None,
                extensions={"trace": partial(self._check_connection, [], asked, refusal if is_checked else None)},
            ) as answer:
                # Only `identity` was requested: a few kilobytes of gzip may be gigabytes.
                encoding = answer.headers.get("content-encoding", "identity")
                if encoding.strip().lower() not in ("", "identity"):
                    raise SourceError(f"Ray dashboard {self.shown} sent {_line(encoding)} data that cockpit can't read ({asked})")
                with suppress(ValueError, OverflowError):  # a year, or an offset, of twenty digits
                    if date := answer.headers.get("date"):
                        self.server_time = parsedate_to_datetime(date).timestamp()
                self.server = _line(clean(answer.headers.get("server", "")))[:MAX_SERVER_CHARS] or None
                if answer.status_code != 200:
                    body = await _read_error(answer)
                    body = hide(body.decode("utf-8", "replace")).encode() if hide else body
                    raise self._refusal(answer, path, asked, body, has_token=token is not None)
                yield answer
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError, ValueError) as error:
            raise self._explain(error, asked) from None

    async def _find_token(self, path: str) -> str | None:
        """The token, if this Ray requires one. A Ray that requires none never gets it."""
        if path == _AUTH_MODE_PATH or await self.find_auth() != "token":
            return None
        token = self._token()
        if token is not None and not (token.isascii() and token.isprintable()):
            raise SourceError(f"{self.shown} requires a token, and the one found is not valid (looked in {TOKEN_PLACES})")
        return token

    async def find_auth(self, *, anew: bool = False) -> Auth:
        """Whether this Ray requires a token. It is asked once, and again if `anew`. Ray before 2.52 has no such path and requires none."""
        async with self._asking_auth:
            if self.auth is None or anew:
                mode = await self.find(_AUTH_MODE_PATH, wire.AuthenticationMode, timeout=4.0)
                self.auth = "disabled" if mode is None or mode.authentication_mode == "disabled" else "token"
            return self.auth

    def _open_client(self, *, is_checked: bool) -> httpx.AsyncClient:
        """Requests with secrets, or whose answer decides, have a client of their own: each of their connections is checked first."""
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

    async def _check_connection(
        self, opened: list[socket.socket], asked: str, refusal: str | None, step: str, info: dict[str, Any]
    ) -> None:
        """Check each new connection of a request before anything is sent through it. httpcore calls this at each step of a request.

        `opened` collects the connections that the request has opened. `refusal`: what is said of an untrusted server; `None`: anybody
        may answer.
        """
        if step == "connection.connect_tcp.complete":
            stream = info["return_value"]
            opened.append(stream.get_extra_info("socket"))
            if refusal is None:
                self._peer.remember(opened[-1])
            elif (error := self._why_not_used(opened[-1], refusal, asked)) is not None:
                await stream.aclose()
                raise error
        # httpcore raises the same error for silence and for bytes of another protocol, such as SSH.
        ended = step == "http11.receive_response_headers.failed" and "Server disconnected" in str(info["exception"])
        if ended and self._url.startswith("http:") and any(map(has_received, opened)):
            raise NoAnswerError(f"{self.shown} is not a Ray dashboard: it does not speak HTTP ({asked})", "not ray")

    def _why_not_used(self, connection: socket.socket, refusal: str, asked: str) -> SourceError | None:
        try:
            reason = self._peer.meet(connection)
        except OSError:
            return NoAnswerError(f"Ray dashboard {self.shown} closed the connection ({asked})")
        hint = "if it is the right Ray, name it with --address"
        return None if reason is None else DashboardRefusedError(f"{self.shown} {refusal}: {reason}; {hint}", 401)

    def _refusal(self, answer: httpx.Response, path: str, asked: str, body: bytes, *, has_token: bool) -> DashboardRefusedError:
        """The error for a status other than 200."""
        status = answer.status_code
        if path != _AUTH_MODE_PATH and (status == 401 or (status == 403 and has_token)):
            self.auth = None
            if self._token() is None:
                return DashboardRefusedError(
                    f"{self.shown} requires a token, and none was found (looked in {TOKEN_PLACES})", status, "no token"
                )
            refused = "rejects the token that was found" if status == 403 else "reports no valid token, although cockpit sent one"
            return DashboardRefusedError(f"{self.shown} {refused} (the first of {TOKEN_PLACES})", status, "wrong token")
        if status in _REDIRECTS and "location" in answer.headers:
            where = clean(redact(answer.headers.get("location", "nowhere")))[:200]
            text = f"{self.shown} is not a Ray dashboard: HTTP {status} redirects to {where}{self._server_words} ({asked})"
            return DashboardRefusedError(text, status, "not ray")
        if is_html(body):
            text = f"{self.shown} does not answer like Ray: HTTP {status} ({asked}): {self._describe_page(body)}"
            return DashboardRefusedError(text, status, "not ray")
        try:
            reason = decode(body, wire.Reply[object]).msg or ""
        except NotRayError:
            reason = body[:20_000].decode("utf-8", "replace")
        if reason.startswith("Traceback"):  # its last line; a traceback within another one ends with a lone full stop
            reason = [line for line in reason.splitlines() if line.strip(" .")][-1]
        # Ray's dashboard is an aiohttp server, which sends its errors too.
        is_foreign = path in (_AUTH_MODE_PATH, "/api/version") and "aiohttp" not in (self.server or "")
        text = f"Ray dashboard {self.shown} answered HTTP {status} ({asked}): {_line(reason) or 'nothing'}"
        return DashboardRefusedError(text, status, "not ray" if is_foreign else None)

    def _explain(self, error: Exception, asked: str) -> SourceError:
        """The error for a failure of httpx."""
        dashboard = f"Ray dashboard {self.shown}"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NoAnswerError(
                f"{dashboard} can't be reached: {why_unreachable(error)}", "not ray" if is_tls_failure(error) else "silent"
            )
        if isinstance(error, httpx.RemoteProtocolError):
            if "buffer too long" in str(error):
                return NoAnswerError(f"{dashboard} sent headers of more than {MAX_HEAD_BYTES >> 10} kB ({asked})")
            if what := why_not_http(error):
                return NoAnswerError(f"{self.shown} is not a Ray dashboard: {what} ({asked})", "not ray")
            return NoAnswerError(f"{dashboard} ended its answer early or does not speak HTTP ({asked})")
        if isinstance(error, httpx.NetworkError | ssl.SSLError):  # SSLError: the server refuses us after the handshake
            return NoAnswerError(f"{dashboard} closed the connection ({asked})")
        # A ValueError: half a surrogate in a name.
        return SourceError(f"{dashboard} can't be asked: {_line(redact(f'{error}')) or type(error).__name__}")


async def _read_error(answer: httpx.Response) -> bytes:
    """The beginning of the body of an error, or as much as comes in time."""
    body = bytearray()

    async def read() -> None:
        async for part in answer.aiter_raw():
            body.extend(part)
            if len(body) >= MAX_ERROR_BYTES:
                return

    with suppress(asyncio.TimeoutError):
        await wait_within(ERROR_TIMEOUT_S, read())
    return bytes(body[:MAX_ERROR_BYTES])


def _line(text: str) -> str:
    """The beginning of a text of the server, on one line, cleaned and without secrets."""
    return redact(clean(" ".join(text[:2000].split())))[:200]
