"""Asks the API server of Kubernetes: by kubectl with the user's kubeconfig, or as the service account of this pod."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeVar

import httpx
import msgspec

from cockpit.config.kubernetes import ACCOUNT, API_HOST, FORBIDDEN, ROLE, KubernetesPlace
from cockpit.secrets import redact
from cockpit.sources.http_client import TooLargeError, open_client, read_body
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.probes.process import ANSWER_S, ask_program
from cockpit.sources.ray.error_text import is_tls_failure, why_unreachable
from cockpit.sources.source import SourceError, wait_within
from cockpit.text import clean
from cockpit.trust import read_small

T = TypeVar("T")
WHO: Final = "Kubernetes"
MAX_BODY_BYTES: Final = 64 << 20
"""The longest answer. A pod has some 10 kB."""
_PORTS: Final = ("KUBERNETES_SERVICE_PORT_HTTPS", "KUBERNETES_SERVICE_PORT")
_REFUSED: Final = r"(?s)(?:kubectl: )?Error from server \((\w+)\): (.*)"
"""How kubectl prints a `Status` (k8s.io/kubectl/pkg/cmd/util/helpers.go)."""


class KubernetesRefusedError(SourceError):
    """The API server refuses the request. `reason` is the reason of its `Status`: `Forbidden`, `NotFound`, `Conflict`."""

    def __init__(self, reason: str, message: str) -> None:
        said = clean(redact(message))[:400]
        super().__init__(f"{WHO} refuses it: {said}; {ROLE}" if reason == FORBIDDEN else f"{WHO}: {said}")
        self.reason = reason


Method = Literal["GET", "DELETE"]
Way = Callable[[Method, str, bytes], Awaitable[bytes]]
"""Sends a request of method, path and body. Raises `KubernetesRefusedError`, `SourceError`."""


class KubernetesApi:
    """The API server of one place. Its methods raise `KubernetesRefusedError` and `SourceError`."""

    def __init__(self, place: KubernetesPlace, way: Way | None = None) -> None:
        self.place = place
        self._ask = way or (ServiceAccount(os.environ) if place.inside else ask_kubectl)

    async def get(self, path: str, shape: type[T]) -> T:
        """The decoded answer to `GET path`."""
        try:
            return decode(await self._ask("GET", path, b""), shape)
        except NotRayError as error:
            raise SourceError(f"{WHO} answers in a way that cockpit can't read: {error}") from None

    async def delete(self, path: str, uid: str) -> None:
        """Delete the object with this uid. A new object with the same name stays."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        await self._ask("DELETE", path, json.dumps(options).encode())


async def ask_kubectl(method: Method, path: str, body: bytes = b"") -> bytes:
    """Ask with kubectl, which knows every way to log in."""
    more = ("-f", "-") if body else ()
    try:
        lines = await ask_program(WHO, "kubectl", method.lower(), "--raw", path, *more, send=body)
    except SourceError as error:
        if (found := re.search(_REFUSED, str(error))) is not None:
            raise KubernetesRefusedError(found[1], found[2]) from None
        raise
    return b"\n".join(lines)


class _Status(msgspec.Struct):
    """The API server's answer to a request that it refuses."""

    reason: str = ""
    message: str = ""


class ServiceAccount:
    """Asks over TLS as the service account of this pod. Its token changes every hour, so it is read for each request."""

    def __init__(self, env: Mapping[str, str], account: Path = ACCOUNT) -> None:
        host, port = env.get(API_HOST, ""), next((env[name] for name in _PORTS if env.get(name)), "443")
        self._url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._account = account

    async def __call__(self, method: Method, path: str, body: bytes = b"") -> bytes:
        """Send a request. Raises `KubernetesRefusedError`, `SourceError`."""
        try:
            return await wait_within(ANSWER_S, self._exchange(method, path, body))
        except asyncio.TimeoutError:
            raise SourceError(f"{WHO} did not answer within {ANSWER_S:.0f} s ({self._url})") from None
        except TooLargeError:
            raise SourceError(f"{WHO} sent more than {MAX_BODY_BYTES >> 20} MB") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = clean(str(error)) if is_tls_failure(error) else why_unreachable(error)
            raise SourceError(f"{WHO} can't be reached at {self._url}: {why}") from None
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError) as error:
            raise SourceError(f"{WHO} can't be reached at {self._url}: {clean(str(error)) or 'the connection broke'}") from None

    async def _exchange(self, method: str, path: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {self._token()}", "Accept": "application/json"}
        headers |= {"Content-Type": "application/json"} if body else {}
        try:
            trust = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        except (OSError, ssl.SSLError):
            raise SourceError(f"the API server's CA certificate can't be read ({self._account / 'ca.crt'})") from None
        async with (
            open_client(trust) as client,
            client.stream(method, f"{self._url}{path}", headers=headers, content=body or None) as answer,
        ):
            answered = await read_body(answer, MAX_BODY_BYTES)
        if answer.is_success:
            return answered
        try:
            status = decode(answered, _Status)
        except NotRayError:
            status = _Status()
        raise KubernetesRefusedError(status.reason or str(answer.status_code), status.message or f"HTTP {answer.status_code}")

    def _token(self) -> str:
        try:
            token = read_small(self._account / "token").decode("ascii").strip()
        except (OSError, ValueError):
            raise SourceError(f"this pod has no token of a service account ({self._account / 'token'}): {ROLE}") from None
        if not token.isprintable():
            raise SourceError(f"the token of this pod's service account is not valid ({self._account / 'token'})")
        return token
