"""Every status of HTTP and gRPC is explained."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from cockpit.failures import describe, find_root_error

CLIENTS = (
    "requests.exceptions.HTTPError: {status} {side} Error: {phrase} for url: http://10.0.0.2:8000/generate",
    "httpx.HTTPStatusError: {side} error '{status} {phrase}' for url 'http://10.0.0.2:8000/generate'",
    "httpx.ProxyError: {status} {phrase}",
    "aiohttp.client_exceptions.ClientResponseError: {status}, message='{phrase}', url='http://10.0.0.2:8000/generate'",
    "aiohttp.client_exceptions.ClientHttpProxyError: {status}, message='{phrase}', url='http://proxy:3128'",
    "huggingface_hub.errors.HfHubHTTPError: {status} {side} Error: {phrase} for url: https://huggingface.co/api/models/x",
    "urllib.error.HTTPError: HTTP Error {status}: {phrase}",
    "openai.APIStatusError: Error code: {status} - {{'detail': 'x'}}",
    "OSError: Tunnel connection failed: {status} {phrase}",
    "RuntimeError: Request failed with status code {status}: {phrase}",
    "Exception: HTTP {status}: {phrase}",
)
STATUSES = (400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 413, 416, 422, 429, 451, 500, 501, 502, 503, 504, 507)


def known_in(text: str) -> str | None:
    error = find_root_error(
        ["step 1", "Traceback (most recent call last):", '  File "/app/train.py", line 3, in <module>', "    main()", text]
    )
    return describe(error).known if error else None


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_of_http_is_explained_in_the_words_of_any_client(status: int):
    side, phrase = ("Client" if status < 500 else "Server"), HTTPStatus(status).phrase
    texts = [client.format(status=status, side=side, phrase=phrase) for client in CLIENTS]
    assert [text for text in texts if known_in(text) is None] == []


@pytest.mark.parametrize(
    "status",
    [
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAUTHENTICATED",
    ],
)
def test_every_status_of_grpc_is_explained(status: str):
    for name in ("grpc._channel._InactiveRpcError: <_InactiveRpcError", "grpc.aio._call.AioRpcError: <AioRpcError"):
        text = f'{name} of RPC that terminated with:\n\tstatus = StatusCode.{status}\n\tdetails = "x"\n>'
        error = find_root_error(["step 1", *text.split("\n")])
        assert error is not None
        assert describe(error).known == f"grpc-{status.lower().replace('_', '-')}"
