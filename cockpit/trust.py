"""Decides which users cockpit trusts: whose Ray it follows unasked, who gets tokens and secrets, and which files it reads."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cockpit.probe import trust as probe_trust
from cockpit.probe.trust import open_fd, read_begin, walk_path
from cockpit.sockets import Connection, Server, connection_of, find_server, is_established, normal
from cockpit.text import explain_os_error

ROOT: Final = 0
TOKEN_PLACES: Final = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token"  # noqa: S105 places, no token
_TOKEN_BYTES: Final = 1 << 16
FindServer = Callable[[int, frozenset[str], frozenset[Connection]], Server]


def own_uids() -> frozenset[int]:
    """Return the trusted users: root and the current user."""
    return frozenset((ROOT, os.geteuid()))


class Peer:
    """The server at one address; knows whether secrets may be sent there."""

    def __init__(self, url: str, *, given: bool, find: FindServer | None = None) -> None:
        """`given`: the user has named this address, by a flag, a variable or in the config. Otherwise it was found on this host."""
        self._port, self._here = _place(url)
        self._given, self._find = given, find
        self._first: frozenset[int] | None = None
        self._sockets: list[socket.socket] = []

    def meet(self, client: socket.socket) -> str | None:
        """Remember a new connection that is to carry secrets. Return why none may be sent through it, or `None`.

        One check for each connection is enough, because the other end of a connection keeps its owner.
        """
        self._add(client)
        return self.why_not_trusted(client)

    def remember(self, client: socket.socket) -> None:
        """Remember a new connection that carries no secret.

        The kernel's tables take milliseconds to read, so they are read only until it is known who served the address first.
        """
        is_only_one = self._add(client) == 1
        if is_only_one or (self._given and self._here and self._first is None):
            with suppress(OSError):
                self._find_server(client)

    def _add(self, client: socket.socket) -> int:
        """Return how many connections are open."""
        self._sockets = [one for one in self._sockets if one.fileno() >= 0] + [client]
        return len(self._sockets)

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
        for one in self._sockets:
            with suppress(OSError):  # it is closed
                if one is newest or is_established(one):
                    connections.add(connection_of(one))
        found = (self._find or find_server)(self._port, self._here, frozenset(connections))
        self._here |= found.addresses
        if self._given and self._here and self._first is None and found.users:
            self._first = found.users
        return found


def find_token(env: Mapping[str, str] | None = None, home: Path | None = None) -> str | None:
    """Return Ray's token, searched in Ray's places and order (ray/_private/authentication, 2.60), or `None`.

    An unreadable `RAY_AUTH_TOKEN_PATH` ends the search, as in Ray: the token in the home folder belongs to another cluster.
    """
    env = os.environ if env is None else env
    if token := env.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = env.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(named).expanduser() if named else (home or Path.home()) / ".ray" / "auth_token"
        if not named and why_not_ours(path) is not None:
            return None
        return read_small(path).decode("utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: the home folder is unknown
        return None


def read_small(path: Path) -> bytes:
    """Read a token file, or a file beside one. A pipe or device is not opened. Raises `OSError`."""
    return read_begin(str(path), _TOKEN_BYTES, link=0)


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


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a file that root or we own. Raises `OSError`, also for a link, a pipe or another user's file.

    No link is followed in the last two parts of the path, because Ray lets everybody write to a session's `logs`.
    """
    with open_fd(str(path.parent)) as folder:
        return probe_trust.read_end(path.name, most_bytes, tuple(own_uids()), folder)


def is_plain(status: os.stat_result) -> bool:
    """Return whether it is a regular file of root or us, with one name only: then nobody else has written it."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in own_uids() and status.st_nlink == 1


def why_not_ours(path: Path) -> str | None:
    """Return why a file is neither trusted nor written: another user has put it there, or could. `None` if it is ours or missing.

    `sudo` may keep HOME, so root could run commands from a user's file, or from the target of a user's link. Every existing folder and link
    on the path is checked: another user who owns none of them can't replace any between this check and the use of the file.
    """
    try:
        for place, status in walk_path(os.path.abspath(path)):
            it = "it" if place == str(path) else place
            if status.st_uid not in own_uids() | _nobody():
                return f"{it} belongs to another user (user {status.st_uid}), and only files of root and of this user are trusted"
            # In a sticky folder everybody may create files, but only their owner may rename them.
            is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            if status.st_mode & stat.S_IWOTH and not stat.S_ISLNK(status.st_mode) and not is_sticky:
                return f"everybody can write to {it}"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its owner can't be read: {explain_os_error(error)}"
    return None


@cache
def _nobody() -> frozenset[int]:
    """Return the uid that root's files seem to have in a user namespace without root, as in a rootless container."""
    mapped = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    if any(int(first) == ROOT for first, *_ in mapped):
        return frozenset()
    return frozenset([int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))])
