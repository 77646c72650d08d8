"""Writes errors of HTTP as sentences: the request, and why a server could not be reached or does not speak HTTP."""

from __future__ import annotations

import errno
import html
import os
import re
import socket
import ssl
from collections.abc import Iterator

import httpx

from cockpit.text import clean

PAGE_HEAD_BYTES = 1 << 16
"""Bytes of a page in which its title is looked for."""

_READ = (
    ("/api/authentication_mode", "its authentication mode"),
    ("/api/version", "its version"),
    ("/cluster_id", "the cluster's id"),
    ("/api/gcs_healthz", "the state of the GCS"),
    ("/nodes", "nodes"),
    ("/api/cluster_status", "resource usage"),
    ("/api/v0/nodes", "node names"),
    ("/api/v0/actors", "actors"),
    ("/api/v0/placement_groups", "placement groups"),
    ("/api/v0/workers", "workers"),
    ("/api/v0/logs", "a log"),
    ("/events", "events"),
    ("/api/packages/", "a package"),
    ("/api/jobs/", "jobs"),
)
"""By the beginning of the path."""


def asked_for(method: str, path: str) -> str:
    """`asked for nodes`, `asked to stop a job`: for brackets in a sentence."""
    if method == "GET":
        return f"asked for {next((words for start, words in _READ if path.startswith(start)), path)}"
    if method == "PUT":
        return "asked to store a package"
    return f"asked to {'delete' if method == 'DELETE' else 'stop' if path.endswith('/stop') else 'start'} a job"


def why_unreachable(error: httpx.ConnectError | httpx.ConnectTimeout) -> str:
    """Why no connection came about. The system's reason lies deep inside of the error."""
    for inner in _chain(error):
        if isinstance(inner, socket.gaierror):
            return "the host name can't be resolved"
        if isinstance(inner, ssl.SSLError):
            return f"TLS failed ({inner.reason or 'no reason given'}); Ray's own dashboard uses http://"
        number = getattr(inner, "errno", None)
        if number == errno.ECONNREFUSED:
            return "connection refused, nothing listens there"
        if number:
            return os.strerror(number).lower()
    return "no connection within 5 s" if isinstance(error, httpx.ConnectTimeout) else "no connection"


def is_tls_failure(error: Exception) -> bool:
    """Whether something answered, and no connection came about because of its TLS, or because it has none."""
    return any(isinstance(inner, ssl.SSLError) for inner in _chain(error))


def why_not_http(error: httpx.RemoteProtocolError) -> str | None:
    """What speaks there in place of HTTP; `None`: an answer in HTTP that has ended early."""
    text = str(error)
    if "illegal request line" in text:  # h11's text for a first byte that is no letter, as in TLS
        return "it does not speak HTTP; if it speaks TLS, ask it by https://"
    return "it does not speak HTTP" if "illegal status line" in text else None


def is_html(body: bytes) -> bool:
    """Whether it is a page, which Ray's own interface never sends."""
    return body[:1000].lstrip()[:1] == b"<"


def page_title(body: bytes) -> str | None:
    """Of an HTML page, on one line and fit to be drawn; `None`: it has none."""
    found = re.search(rb"(?is)<title[^<>]{0,200}>([^<]{1,1000})", body[:PAGE_HEAD_BYTES])
    return " ".join(clean(html.unescape(found[1].decode("utf-8", "replace"))).split()) or None if found else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        yield from (inner for part in getattr(error, "exceptions", ()) for inner in _chain(part))
        error = error.__cause__ or error.__context__
