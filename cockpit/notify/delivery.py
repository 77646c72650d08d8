"""One message on its way to one target, over HTTP or to a program's stdin; what went wrong is said without address and secret."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import subprocess
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

PATIENCE_S: Final = 10.0
"""For which a target may think."""
MOST_ANSWER_BYTES: Final = 1 << 16
LONGEST_REASON: Final = 160
LONGEST_PAUSE_S: Final = 3600.0
"""For which a server may ask to be left alone."""
_SHORTEST_SECRET: Final = 6


async def deliver(target: NotifyTarget, message: Message, env: Mapping[str, str] = os.environ) -> None:
    """Raises `ChatBotRefusedError`."""
    secrets: list[str] = []
    try:
        if target.command:
            await _run(target.command, msgspec.json.encode(message.document()))
        else:
            address, secret = (fill_in(text, env, secrets) for text in (target.webhook, target.secret))
            secrets += address, secret
            await _post(target, address, secret, message)
    except ChatBotRefusedError as error:
        raise ChatBotRefusedError(_without(str(error), secrets), error.pause) from None


def fill_in(text: str, env: Mapping[str, str], filled: list[str]) -> str:
    """Each `${NAME}` is that variable's value, and is noted. Raises `ChatBotRefusedError` where it is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        if not env.get(found[1]):
            raise ChatBotRefusedError(f"${{{found[1]}}} is not set in cockpit's environment")
        filled.append(env[found[1]])
        return env[found[1]]

    return re.sub(NAME, value, text)


def _without(text: str, secrets: Iterable[str]) -> str:
    """Half a sentence that is fit to be shown: what answered may repeat what it was sent, or parts of it."""
    parts = {part for secret in secrets for part in (secret, *_parts(secret)) if len(part) >= _SHORTEST_SECRET}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return redact(clean(text))[:LONGEST_REASON]


def _parts(address: str) -> list[str]:
    with suppress(ValueError):
        url = urlsplit(address)
        return [url.path, *url.path.split("/"), url.query, *(value for _, value in parse_qsl(url.query))]
    return []


# Over HTTP


async def _post(target: NotifyTarget, address: str, secret: str, message: Message) -> None:
    robot = CHAT_BOTS[target.form or "json"]
    body = await _exchange(address, robot.post(message, secret, time.time()))
    robot.read(_decode(body))


def _decode(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


async def _exchange(address: str, post: Post) -> bytes:
    if not address.startswith(("https://", "http://")):
        raise ChatBotRefusedError("its address begins with neither https:// nor http://")
    try:
        return await wait_within(PATIENCE_S, _send(address, post))
    except asyncio.TimeoutError:
        raise ChatBotRefusedError(f"no answer within {PATIENCE_S:.0f} s") from None
    except (httpx.TransportError, ssl.SSLError) as error:
        raise ChatBotRefusedError(_words(error)) from None
    except (httpx.InvalidURL, ValueError, ImportError):  # the last: a SOCKS proxy needs a package that may not be there
        raise ChatBotRefusedError("its address, or that of the proxy in the environment, can't be used") from None


def _words(error: httpx.TransportError | ssl.SSLError) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return why_unreachable(error).partition(";")[0]
    return "the connection was closed early, or it does not speak HTTP"


async def _send(address: str, post: Post) -> bytes:
    """The body of an answer that is a success. No redirect is followed: an address is a secret for whom it was given to."""
    trust = await _find_certificates() if address.startswith("https:") else None
    url = httpx.URL(address).copy_merge_params(dict(post.params))
    headers = {"Content-Type": "application/json; charset=utf-8"}
    try:
        async with (
            open_client(trust, uses_environment=True) as client,
            client.stream("POST", url, content=post.body, headers=headers, timeout=None) as answer,
        ):
            body = await read_body(answer, MOST_ANSWER_BYTES)
    except TooLargeError:
        raise ChatBotRefusedError(f"its answer is longer than {MOST_ANSWER_BYTES >> 10}K") from None
    _judge(answer, body)
    return body


async def _find_certificates() -> ssl.SSLContext:
    try:
        return await run_in_thread(load_trust, "the TLS certificates", PATIENCE_S)
    except (OSError, SourceError) as error:
        raise ChatBotRefusedError(f"the TLS certificates of this host can't be read: {error}") from None


def _judge(answer: httpx.Response, body: bytes) -> None:
    status = answer.status_code
    if answer.is_success:
        return
    if answer.is_redirect:
        raise ChatBotRefusedError(f"it redirects elsewhere (HTTP {status}), and redirects are not followed")
    reason = " ".join(body.decode(errors="replace").split())
    raise ChatBotRefusedError(
        f"it answered HTTP {status}{f': {reason}' if reason else ''}", _retry_after(answer.headers.get("retry-after"))
    )


def _retry_after(text: str | None) -> float | None:
    """Seconds, or a date."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return min(float(text), LONGEST_PAUSE_S)
    with suppress(TypeError, ValueError, OverflowError):
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - time.time(), LONGEST_PAUSE_S))
    return None


# To a program


async def _run(command: Sequence[str], given: bytes) -> None:
    process = _start(command)
    try:
        _, complaint = await run_in_thread(lambda: process.communicate(given), "a command", PATIENCE_S)
    except SourceError:
        raise ChatBotRefusedError(f"it did not exit within {PATIENCE_S:.0f} s and was killed") from None
    finally:
        _end(process)
    if process.returncode != 0:
        raise ChatBotRefusedError(_how_it_ended(process.returncode, complaint))


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return spawn([os.path.expanduser(command[0]), *command[1:]])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ChatBotRefusedError(f"it can't be started: {(reason or 'its name is not valid').lower()}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it has started: it leads a session of its own."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _how_it_ended(code: int, complaint: bytes) -> str:
    how = f"it ended with exit code {code}" if code > 0 else f"it was killed by signal {-code}"
    lines = complaint[-MOST_ANSWER_BYTES:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{how}: {last}" if last else how
