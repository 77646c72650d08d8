"""Decides whether secrets may be sent to the server at an address."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from cockpit.text import explain_os_error
from cockpit.trust.ownership import own_uids
from cockpit.trust.sockets import Connection, Server, connection_of, find_server, is_established, normal

FindServer = Callable[[int, frozenset[str], frozenset[Connection]], Server]


class Peer:
    """The server at one address; knows whether secrets may be sent there."""

    def __init__(self, url: str, *, given: bool, find: FindServer | None = None) -> None:
        """`given`: the user has named this address, by a flag, a variable or in the config. Otherwise it was found on this host."""
        self._port, self._here = _place(url)
        self._given, self._find = given, find
        self._first: frozenset[int] | None = None
        self._sockets: list[socket.socket] = []
        self._met: set[str] = set()
        """The addresses to which our connections led when the kernel's tables were read."""

    def meet(self, client: socket.socket) -> str | None:
        """Remember a new connection that is to carry secrets, or answers that decide. Return why it may not, or `None`.

        One check for each connection is enough, because the other end of a connection keeps its owner. Raises `OSError` if the other end
        has reset it: nobody knows who that was, and an answer may have come already.
        """
        connection_of(client)
        self._add(client)
        return self.why_not_trusted(client)

    def remember(self, client: socket.socket) -> None:
        """Remember a new connection that carries neither.

        The kernel's tables take milliseconds to read, so they are read only until it is known who served the address first, and for each
        address to which a name leads.
        """
        self._add(client)
        with suppress(OSError):
            (address, _), _ = connection_of(client)
            if address not in self._met or (self._given and self._here and self._first is None):
                self._find_server(client)

    def _add(self, client: socket.socket) -> None:
        self._sockets = [one for one in self._sockets if one.fileno() >= 0] + [client]

    def why_not_trusted(self, newest: socket.socket | None = None) -> str | None:
        """Return why no secret is sent there and no answer is believed, in half a sentence, or `None`. Checked again at each call.

        On this host the kernel knows the owners of the sockets that serve the address; the ends of our own connections decide, not the name
        of the address. A given address is trusted, but not another user who binds its port after Ray has ended. A connection to this host
        whose other end has no visible owner is not trusted. `newest` is a connection that counts even if its other end is closed already.
        """
        try:
            users, addresses = self._find_server(newest)
        except OSError as error:
            return f"the kernel can't be asked who serves port {self._port}: {explain_os_error(error)}"
        if self._given and not self._here:
            return None
        trusted = own_uids() | (self._first or frozenset())
        if users <= trusted and (users or (self._given and not addresses)):
            return None
        if not users:
            return f"no process that can be seen from here listens on port {self._port}"
        others = ", ".join(f"user {uid}" for uid in sorted(users - trusted))
        return f"what listens on port {self._port} of this host belongs to {others}"

    def is_at(self, port: int | None) -> bool:
        """Return whether it is known to be on this host, at that port."""
        with suppress(OSError):
            self._find_server()
        return self._port == port and bool(self._here)

    def is_ours(self) -> bool:
        """Return whether root or we serve it on this host. Another user may have the same port at another address of this host."""
        with suppress(OSError):
            users = self._find_server().users
            return bool(users) and users <= own_uids()
        return False

    def _find_server(self, newest: socket.socket | None = None) -> Server:
        """Return who serves it on this host. For a given address, remember the first users: they are trusted. Raises `OSError`."""
        connections = set()
        if newest is not None:
            connections.add(connection_of(newest))
        for one in self._sockets:
            with suppress(OSError):  # it is closed
                if is_established(one):
                    connections.add(connection_of(one))
        found = (self._find or find_server)(self._port, self._here, frozenset(connections))
        self._here |= found.addresses
        self._met |= {address for (address, _), _ in connections}
        if self._given and self._here and self._first is None and found.users:
            self._first = found.users
        return found


def _place(url: str) -> tuple[int, frozenset[str]]:
    """Return the port of a URL, and its addresses on this host if it contains any; 0 and none if it is no URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return 0, frozenset()
    if parts.hostname == "localhost":
        return port, frozenset(("127.0.0.1", "::1"))
    with suppress(ValueError):
        address = normal(parts.hostname or "")
        return port, frozenset([address] if ip_address(address).is_loopback else [])
    return port, frozenset()
