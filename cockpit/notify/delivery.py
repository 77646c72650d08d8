"""Delivers one message to one target, by HTTP or to a program's stdin; errors name neither the address nor a secret."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from cockpit.config.notify import NotifyTarget
from cockpit.notify.message import Message
from cockpit.notify.robots import CHAT_BOTS, ChatBotRefusedError, Post
from cockpit.presets.variables import NAME
from cockpit.secrets import HIDDEN, redact
from cockpit.sources.http_client import TooLargeError, load_trust, open_client, read_body
from cockpit.sources.probes.spawn import spawn
from cockpit.sources.ray.error_text import why_unreachable
from cockpit.sources.source import SourceError, run_in_thread, wait_within
from cockpit.text import clean

TIMEOUT_S: Final = 10.0
"""Seconds within which a target must answer."""
MAX_ANSWER_BYTES: Final = 1 << 16
MAX_REASON_CHARS: Final = 160
MAX_PAUSE_S: Final = 3600.0
"""Longest pause in seconds that a server may ask for."""
MIN_SECRET_CHARS: Final = 6
"""Shorter parts of secrets are not hidden: they are ordinary words."""


async def deliver(target: NotifyTarget, message: Message, env: Mapping[str, str] = os.environ) -> None:
    """Deliver a message. Raises `ChatBotRefusedError`."""
    secrets: list[str] = []
    try:
        if target.command:
            await _run(target.command, msgspec.json.encode(message.document()))
            return
        address, secret = (fill_in(text, env, secrets) for text in (target.webhook, target.secret))
        secrets += address, secret
        bot = CHAT_BOTS[target.form or "json"]
        body = await _post(address, bot.post(message, secret, time.time()))
        try:
            answer = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            answer = None
        bot.read(answer)
    except ChatBotRefusedError as error:
        raise ChatBotRefusedError(_hide(str(error), secrets), error.pause) from None


def fill_in(text: str, env: Mapping[str, str], filled: list[str]) -> str:
    """The text with the value of each `${NAME}`; the values are added to `filled`. Raises `ChatBotRefusedError` if one is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        if not env.get(found[1]):
            raise ChatBotRefusedError(f"${{{found[1]}}} is not set in cockpit's environment")
        filled.append(env[found[1]])
        return env[found[1]]

    return re.sub(NAME, value, text)


def _hide(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, and without the parts of secrets that are addresses: a server may repeat what it was sent."""
    parts: set[str] = set()
    for secret in secrets:
        parts.add(secret)
        with suppress(ValueError):
            url = urlsplit(secret)
            parts |= {url.path, *url.path.split("/"), url.query, *(value for _, value in parse_qsl(url.query))}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= MIN_SECRET_CHARS:
            text = text.replace(part, HIDDEN)
    return redact(clean(text))[:MAX_REASON_CHARS]


# Over HTTP


async def _post(address: str, request: Post) -> bytes:
    """The body of the answer to a successful request. Raises `ChatBotRefusedError`."""
    if not address.startswith(("https://", "http://")):
        raise ChatBotRefusedError("its address begins with neither https:// nor http://")
    try:
        answer, body = await wait_within(TIMEOUT_S, _exchange(address, request))
    except asyncio.TimeoutError:
        raise ChatBotRefusedError(f"no answer within {TIMEOUT_S:.0f} s") from None
    except TooLargeError:
        raise ChatBotRefusedError(f"its answer is longer than {MAX_ANSWER_BYTES >> 10}K") from None
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ChatBotRefusedError(why_unreachable(error).partition(";")[0]) from None
    except (httpx.TransportError, ssl.SSLError):
        raise ChatBotRefusedError("the connection was closed early, or it does not speak HTTP") from None
    except (httpx.InvalidURL, ValueError, ImportError):  # ImportError: a SOCKS proxy needs a package that may not be installed
        raise ChatBotRefusedError("its address, or that of the proxy in the environment, can't be used") from None
    if answer.is_success:
        return body
    # A redirect is not followed: the address is a secret that only this server may know.
    if answer.is_redirect:
        raise ChatBotRefusedError(f"it redirects elsewhere (HTTP {answer.status_code}), and redirects are not followed")
    reason = " ".join(body.decode(errors="replace").split())
    pause = _retry_after(answer.headers.get("retry-after"))
    raise ChatBotRefusedError(f"it answered HTTP {answer.status_code}{f': {reason}' if reason else ''}", pause)


async def _exchange(address: str, request: Post) -> tuple[httpx.Response, bytes]:
    """Send the request, and read the whole answer."""
    trust: ssl.SSLContext | None = None
    if address.startswith("https:"):
        try:
            trust = await run_in_thread(load_trust, "the TLS certificates", TIMEOUT_S)
        except (OSError, SourceError) as error:
            raise ChatBotRefusedError(f"the TLS certificates of this host can't be read: {error}") from None
    url = httpx.URL(address).copy_merge_params(dict(request.params))
    headers = {"Content-Type": "application/json; charset=utf-8"}
    async with (
        open_client(trust, uses_environment=True) as client,
        client.stream("POST", url, content=request.body, headers=headers, timeout=None) as answer,
    ):
        return answer, await read_body(answer, MAX_ANSWER_BYTES)


def _retry_after(text: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header with seconds or a date; `None`: no such header, or nonsense."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return min(float(text), MAX_PAUSE_S)
    with suppress(TypeError, ValueError, OverflowError):
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - time.time(), MAX_PAUSE_S))
    return None


# To a program


async def _run(command: Sequence[str], stdin: bytes) -> None:
    """Run the program with the message as its stdin. Raises `ChatBotRefusedError`."""
    try:
        process = spawn([os.path.expanduser(command[0]), *command[1:]])  # noqa: ASYNC240 it reads no file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ChatBotRefusedError(f"it can't be started: {(reason or 'its name is not valid').lower()}") from None
    try:
        _, stderr = await run_in_thread(lambda: process.communicate(stdin), "a command", TIMEOUT_S)
    except SourceError:
        raise ChatBotRefusedError(f"it did not exit within {TIMEOUT_S:.0f} s and was killed") from None
    finally:
        # It leads a session of its own, so this also ends the processes that it has started.
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
    code = process.returncode
    if code != 0:
        how = f"it ended with exit code {code}" if code > 0 else f"it was killed by signal {-code}"
        lines = stderr[-MAX_ANSWER_BYTES:].decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        raise ChatBotRefusedError(f"{how}: {last}" if last else how)
