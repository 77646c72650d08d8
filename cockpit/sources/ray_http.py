"""How a Ray dashboard is asked over HTTP, and what is said when no Ray answers."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, cast

import httpx

from cockpit.model import Cause
from cockpit.sources import wire
from cockpit.sources.decode import NotRayError, decode
from cockpit.sources.source import SourceError, within
from cockpit.text import redact

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Params = Mapping[str, str | float]
Auth = Literal["token", "disabled"]
Hide = Callable[[str], str]

LARGEST = 256 * 2**20
"""Bytes. `/nodes?view=summary` of 1,000 nodes with 20 workers each is 29 MB."""
PLACES = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token"
ASIDE = 1 << 20
"""Bytes from which an answer is decoded aside."""
AUTH_HOLDS = 5.0
"""Seconds for which an answer about tokens serves all that ask."""
_REST = 60.0
_PATIENT = httpx.Timeout(None, connect=5.0)
"""The whole exchange has a time-out of its own."""
_MODE = "/api/authentication_mode"
_LIGHT = (_MODE, "/api/version", "/api/gcs_healthz")
"""These cost Ray nothing, and tell when it is back: they are not left alone longer and longer."""


class NoAnswerError(SourceError):
    """Nothing listens, nothing was sent, or it broke off: another try may do better."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "silent")


class RefusalError(SourceError):
    """Something answered, but not with success."""

    def __init__(self, text: str, status: int, cause: Cause | None = None) -> None:
        super().__init__(text, cause)
        self.status = status


async def aside(big: bool, work: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
    """What takes long goes on in a thread, so that a key is drawn meanwhile; a thread for what doesn't would cost more than it saves."""
    return await asyncio.to_thread(work, *args, **more) if big else work(*args, **more)


def find_token(env: Mapping[str, str] | None = None, home: Path | None = None) -> str | None:
    """Ray's token, looked for where Ray looks, in Ray's order (ray/_private/authentication, 2.60).

    A `RAY_AUTH_TOKEN_PATH` that can't be read ends the search, as it does in Ray: the token at home belongs to another cluster.
    """
    env = os.environ if env is None else env
    if token := env.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = env.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(named).expanduser() if named else (home or Path.home()) / ".ray" / "auth_token"
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):  # the last: nobody knows where this user's home is
        return None


class Dashboard:
    """One address, asked over one pool of connections; every failure is a `SourceError` that names the address.

    At most one question at a time for each path. Ray goes on working on a question that nobody waits for any more, so a path that has
    not answered in time is left alone for a while, longer each time.
    """

    def __init__(
        self,
        address: str,
        *,
        token: Callable[[], str | None],
        transport: httpx.AsyncBaseTransport | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        address = address.rstrip("/")
        self.address = address if "://" in address else f"http://{address}"
        self.shown = redact(_bare(self.address))
        self.auth: Auth | None = None
        self.told_at: float | None = None
        """The time over there, to the second, when the last answer came: one clock for all who ask."""
        self._token = token
        self._clock = clock
        self._client = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            verify=address.startswith("https:"),  # else a tenth of the start goes into loading certificates that nobody asks for
            timeout=httpx.Timeout(5.0, pool=30.0),
            limits=httpx.Limits(max_connections=24, max_keepalive_connections=12),
            headers={"User-Agent": "ray-cockpit", "Accept": "*/*", "Accept-Encoding": "identity"},
        )
        self._asking = asyncio.Lock()
        self._auth_asked = 0.0
        self._busy: dict[str, asyncio.Lock] = {}
        self._rests: dict[str, tuple[float, float]] = {}
        self._counter = 0

    async def close(self) -> None:
        """Let all connections go."""
        await self._client.aclose()

    def wake(self) -> None:
        """Ask every path again at once: what kept Ray from answering is over."""
        self._rests.clear()

    async def json(self, path: str, shape: type[T], *, timeout: float, endpoint: str | None = None, params: Params | None = None) -> T:
        """The answer to `GET path`, decoded."""
        body = await self.get(path, timeout=timeout, endpoint=endpoint, params=params)
        return await aside(len(body) > ASIDE, self.decoded, body, shape, path)

    async def data(self, path: str, shape: type[T], *, timeout: float, endpoint: str | None = None, params: Params | None = None) -> T:
        """The same for answers in an envelope, of which only the data matter."""
        body = await self.get(path, timeout=timeout, endpoint=endpoint, params=params)
        reply = await aside(len(body) > ASIDE, self.decoded, body, wire.Reply[shape], path)  # type: ignore[valid-type]  # a shape is a value here
        return self.opened(reply, path)

    async def nodes(self, *, timeout: float) -> wire.NodesData:
        """The largest answer there is: all nodes, with all that their agents have told."""
        body = await self.get("/nodes", timeout=timeout, params={"view": "summary"})
        reply = await aside(len(body) > ASIDE, self._of, body, "GET", "/nodes", wire.decode_nodes)
        return self.opened(reply, "/nodes")

    def decoded(self, body: bytes, shape: type[T], path: str, method: str = "GET") -> T:
        """The body as `shape`."""
        return self._of(body, method, path, lambda body: decode(body, shape))

    def _of(self, body: bytes, method: str, path: str, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(body)
        except NotRayError as error:
            if body.lstrip()[:1] == b"<":
                raise SourceError(f"{self.shown} is not a Ray dashboard: it answered {method} {path} with an HTML page") from None
            raise SourceError(f"{self.shown} answered {method} {path} with {error}, which is not what Ray answers") from None

    def opened(self, reply: wire.Reply[T], path: str) -> T:
        """What is in the envelope."""
        if reply.data is None:
            raise SourceError(f"{self.shown} answered GET {path} with no data: {_line(reply.msg or 'and no reason')}")
        return reply.data

    async def get(self, path: str, *, timeout: float, endpoint: str | None = None, params: Params | None = None) -> bytes:
        """The body of a success, whole.

        `endpoint` names the path when an id is part of it. A fresh parameter goes with every question, because Ray hands out the
        answer to the last question else (`aiohttp_cache` in dashboard/optional_utils.py; `nocache` is known since 2.49).
        """
        endpoint = endpoint or path
        lock = self._busy.setdefault(endpoint, asyncio.Lock())
        async with lock:
            self._refuse_while_resting(endpoint, path)
            with self._resting_after_silence(endpoint, path, timeout):
                return await within(timeout, self._read(path, params or {}))

    @asynccontextmanager
    async def stream(self, path: str, params: Params | None = None) -> AsyncIterator[httpx.Response]:
        """An answer that goes on, and may pause for any time; the caller reads it."""
        headers = await self._headers(path)
        with self._failures(path):
            async with self._client.stream("GET", f"{self.address}{path}", params=params, headers=headers, timeout=_PATIENT) as answer:
                if answer.status_code != 200:
                    self._judge(answer, path, await self._body(answer, path, LARGEST))
                yield answer

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
        return self.decoded(answer, shape, path, method)

    async def put(self, path: str, pieces: AsyncIterator[bytes], length: int, *, timeout: float) -> None:
        """Send so many bytes."""
        sized = {"Content-Length": str(length)}  # else it goes in chunks, whose end a proxy may wait for
        await self._within(timeout, "PUT", path, self._exchange("PUT", path, {}, pieces, headers=sized))

    async def _within(self, timeout: float, method: str, path: str, work: Awaitable[R]) -> R:
        try:
            return await within(timeout, work)
        except asyncio.TimeoutError:
            raise NoAnswerError(f"{self.shown} did not answer {method} {path} within {timeout:g} s") from None

    async def _read(self, path: str, params: Params) -> bytes:
        self._counter += 1
        return await self._exchange("GET", path, {**params, "nocache": 1, "_": self._counter})

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | AsyncIterator[bytes] = b"",
        hide: Hide | None = None,
        headers: Mapping[str, str] = {},
    ) -> bytes:
        url, headers = f"{self.address}{path}", {**headers, **await self._headers(path)}
        with self._failures(path, method):
            stream = self._client.stream(method, url, params=params, headers=headers, content=content or None, timeout=_PATIENT)
            async with stream as answer:
                body = await self._body(answer, path, LARGEST)
        self.told_at = _moment(answer.headers.get("date")) or self.told_at
        if answer.status_code != 200:
            self._judge(answer, path, hide(body.decode("utf-8", "replace")).encode() if hide else body)
        return body

    async def _body(self, answer: httpx.Response, path: str, largest: int) -> bytes:
        body = bytearray()  # grown as it comes: to join 30 MB at the end would take as long as a screen is drawn
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > largest:
                raise SourceError(f"{self.shown} sent more than {largest >> 20} MB in answer to {answer.request.method} {path}")
        return cast("bytes", body)  # whoever gets it only reads it

    async def _headers(self, path: str) -> dict[str, str]:
        """The token, if this cluster has asked for one; a cluster that doesn't is never told."""
        if path == _MODE:
            return {}
        if await self.find_auth(known=True) != "token":
            return {}
        token = self._token()
        if token is None:
            return {}
        if not (token.isascii() and token.isprintable()):
            raise SourceError(f"{self.shown} asks for a token, and what was found can't be one (looked in {PLACES})")
        return {"Authorization": f"Bearer {token}"}

    async def find_auth(self, *, known: bool = False) -> Auth:
        """Whether a token is wanted; asked unless that is `known`, or was asked a moment ago. Ray before 2.52 knows no such path."""
        async with self._asking:
            fresh = time.monotonic() - self._auth_asked < AUTH_HOLDS
            if self.auth is not None and (known or fresh):
                return self.auth
            self.auth = await self._asked_auth()
            self._auth_asked = time.monotonic()
            return self.auth

    async def _asked_auth(self) -> Auth:
        try:
            mode = await self.json(_MODE, wire.AuthenticationMode, timeout=4.0)
        except RefusalError as error:
            if error.status != 404:
                raise
            return "disabled"
        return "disabled" if mode.authentication_mode == "disabled" else "token"

    def _judge(self, answer: httpx.Response, path: str, body: bytes) -> None:
        status, asked = answer.status_code, f"{answer.request.method} {path}"
        if path != _MODE and (status == 401 or (status == 403 and "authorization" in answer.request.headers)):
            self.auth = None
            raise self._locked(status)
        if answer.is_redirect:
            raise RefusalError(
                f"{self.shown} answered {asked} with a redirect to {redact(answer.headers.get('location', 'nowhere'))[:200]}", status
            )
        raise RefusalError(f"{self.shown} answered {asked} with {status}: {_reason(body)}", status)

    def _locked(self, status: int) -> RefusalError:
        if self._token() is None:
            return RefusalError(f"{self.shown} asks for a token, and none was found (looked in {PLACES})", status, "no token")
        refused = "refuses the token that was found" if status == 403 else "asks for a token, though one was sent"
        return RefusalError(f"{self.shown} {refused} (the first of {PLACES})", status, "wrong token")

    def _refuse_while_resting(self, endpoint: str, path: str) -> None:
        until, _ = self._rests.get(endpoint, (0.0, 0.0))
        if (left := until - self._clock()) > 0:
            raise NoAnswerError(f"{self.shown} has not answered GET {path}; it is asked again in {left:.0f} s")

    @contextmanager
    def _resting_after_silence(self, endpoint: str, path: str, timeout: float) -> Iterator[None]:
        try:
            yield
        except asyncio.TimeoutError:
            self._rest(endpoint, timeout)
            raise NoAnswerError(f"{self.shown} did not answer GET {path} within {timeout:g} s") from None
        except asyncio.CancelledError:
            self._rests[endpoint] = (self._clock() + 1.0, 0.5)
            raise
        else:
            self._rests.pop(endpoint, None)

    def _rest(self, endpoint: str, timeout: float) -> None:
        _, last = self._rests.get(endpoint, (0.0, timeout / 2))
        pause = min(last * 2, timeout if endpoint in _LIGHT else _REST)
        self._rests[endpoint] = (self._clock() + pause, pause)

    @contextmanager
    def _failures(self, path: str, method: str = "GET") -> Iterator[None]:
        """What httpx calls its failures, in words."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NoAnswerError(f"{self.shown} can't be reached: {_cause(error)}") from None
        except httpx.TimeoutException:
            raise NoAnswerError(f"{self.shown} did not answer {method} {path} in time") from None
        except httpx.RemoteProtocolError:
            raise NoAnswerError(f"{self.shown} broke off its answer to {method} {path}, or does not speak HTTP") from None
        except httpx.NetworkError:
            raise NoAnswerError(f"{self.shown} closed the connection during {method} {path}") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:  # the last: half a surrogate in a name
            raise SourceError(f"{self.shown} can't be asked: {_line(redact(f'{error}')) or type(error).__name__}") from None


def _bare(address: str) -> str:
    """The address without a user's name and password."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _line(text: str) -> str:
    """The first sentence or so of what came, for the end of a sentence."""
    return redact(" ".join(text[:2000].split()))[:200]


def _reason(body: bytes) -> str:
    if body.lstrip()[:1] == b"<":
        return "an HTML page"
    try:
        text = decode(body, wire.Reply[object]).msg or ""
    except NotRayError:
        text = body[:20_000].decode("utf-8", "replace")
    return _line(_last(text) if text.startswith("Traceback") else text) or "nothing"


def _last(trace: str) -> str:
    """What a traceback ends in. One within another ends in a lone full stop."""
    lines = [line for line in trace.splitlines() if line.strip(" .")]
    return lines[-1] if lines else trace


def _moment(date: str | None) -> float | None:
    """Seconds, of an HTTP date."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        yield from (inner for part in getattr(error, "exceptions", ()) for inner in _chain(part))
        error = error.__cause__ or error.__context__


def _cause(error: httpx.TransportError) -> str:
    """Why no connection came about. httpx keeps the system's reason deep inside."""
    for inner in _chain(error):
        if isinstance(inner, socket.gaierror):
            return "its name can't be resolved"
        if isinstance(inner, ConnectionRefusedError):
            return "connection refused, nothing listens there"
        if isinstance(inner, ssl.SSLError):
            return f"TLS failed ({inner.reason or 'no reason given'}); Ray's dashboard itself speaks plain http"
        if isinstance(inner, OSError) and inner.errno:
            return os.strerror(inner.errno).lower()
    return "no connection within 5 s" if isinstance(error, httpx.ConnectTimeout) else "no connection came about"
