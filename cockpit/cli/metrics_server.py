"""Answers Prometheus over HTTP or HTTPS, by the server of prometheus-client."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

CLIENT_TIMEOUT_S = 10.0
"""How long a client may be silent, also in the handshake of TLS. Prometheus itself gives up after 10 s (scrape_timeout)."""
MAX_CONNECTIONS = 50
"""At once. One more ends the oldest: a scrape takes milliseconds, and clients that only connect could take all file descriptors."""


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM format."""

    certificate: str
    key: str
    client_ca: str | None = None
    """Only clients with a certificate of this authority are answered; `None`: every client."""

    def options(self) -> list[str]:
        """The options of `cockpit metrics` that give these files, by their absolute paths."""
        files = {"--tls-cert": self.certificate, "--tls-key": self.key, "--client-ca": self.client_ca}
        return [word for option, file in files.items() if file is not None for word in (option, str(Path(file).absolute()))]


class MetricsServer(msgspec.Struct, frozen=True):
    """A running server; it answers in threads of its own."""

    server: WSGIServer
    tls: Tls | None

    @property
    def url(self) -> str:
        """Where it listens."""
        address, port = self.server.server_address[:2]
        shown = f"[{address!s}]" if ":" in str(address) else address
        return f"{'https' if self.tls else 'http'}://{shown!s}:{port}/metrics"

    @property
    def exposure(self) -> str | None:
        """Who can read what, if that is more than this host; `None`: only this host, or clients with a certificate."""
        is_local = ipaddress.ip_address(str(self.server.server_address[0])).is_loopback
        if is_local or (self.tls and self.tls.client_ca):
            return None
        how = "" if self.tls else ", without encryption,"
        return (
            f"everybody who reaches this address can read{how} the names of nodes, jobs and models, and what they use"
            " (--client-ca admits only clients with a certificate)"
        )

    def close(self) -> None:
        """Answer no more."""
        self.server.shutdown()
        self.server.server_close()


class _ScrapeHandler(WSGIRequestHandler):
    """Logs no requests, and drops a client that is silent, leaves, or has no valid certificate."""

    timeout = CLIENT_TIMEOUT_S

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name that its base has
        pass


class _Connections:
    """The connections of a server."""

    def __init__(self) -> None:
        self._open: deque[socket.socket] = deque()

    def admit(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 the server gives both
        """Called by the server for each new connection, always in the same thread."""
        self._open = deque(one for one in self._open if one.fileno() >= 0)
        self._open.append(request)
        if len(self._open) > MAX_CONNECTIONS:
            with suppress(OSError):
                socket.socket.shutdown(self._open.popleft(), socket.SHUT_RDWR)  # not the method of TLS: another thread reads from it
        return True


def open_metrics_server(collector: Collector, address: str, port: int, tls: Tls | None = None) -> MetricsServer:
    """Begin to answer with what the collector has. Raises `OSError` if it can't listen there, or can't read a file of `tls`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    if tls is None:
        server, _ = start_http_server(port, address, registry)
    else:
        server, _ = start_http_server(
            port,
            address,
            registry,
            certfile=tls.certificate,
            keyfile=tls.key,
            client_cafile=tls.client_ca,
            client_auth_required=tls.client_ca is not None,
        )
    server.RequestHandlerClass = _ScrapeHandler
    server.verify_request = _Connections().admit  # type: ignore[method-assign]
    if isinstance(server.socket, ssl.SSLSocket):
        # Then the thread of a connection makes its handshake. Else one client that connects and says nothing would stop all others.
        server.socket.do_handshake_on_connect = False  # type: ignore[attr-defined]  # it is not documented
    return MetricsServer(server, tls)
