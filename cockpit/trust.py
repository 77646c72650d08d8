"""Whom cockpit follows without being told to, who gets a token or a preset's secrets, and how a file that others own is read."""

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
TOKEN_PLACES: Final = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token"  # noqa: S105 where one lies
_TOKEN_BYTES: Final = 1 << 16
FindServer = Callable[[int, frozenset[str], frozenset[Connection]], Server]


def own_uids() -> frozenset[int]:
    """Whom we believe: root, and ourselves."""
    return frozenset((ROOT, os.geteuid()))


class Peer:
    """Whoever answers at one address, and whether secrets may be sent there."""

    def __init__(self, url: str, *, given: bool, find: FindServer | None = None) -> None:
        """`given`: a person has named this address, by a flag, a variable or in the config; else it was only found on this host."""
        self._port, self._here = _place(url)
        self._given, self._find = given, find
        self._first: frozenset[int] | None = None
        self._sockets: list[socket.socket] = []
        self._met: set[str] = set()
        """The addresses to which our connections led when it was looked up who serves it."""

    def meet(self, client: socket.socket) -> str | None:
        """To be called once for each new connection that is to carry secrets, or answers that decide. Why it may not, as `why_not_trusted`.

        It is asked once: who holds the other end of a connection doesn't change. Raises `OSError` if the other end has reset it: nobody
        knows who that was, and an answer may have come already.
        """
        connection_of(client)
        self._add(client)
        return self.why_not_trusted(client)

    def remember(self, client: socket.socket) -> None:
        """To be called once for each new connection that carries neither.

        The kernel's tables take milliseconds to read, so they are read only until it is known who served the address first, and for each
        address to which a name leads.
        """
        is_only_one = self._add(client) == 1
        with suppress(OSError):
            (address, _), _ = connection_of(client)
            if is_only_one or address not in self._met or (self._given and self._here and self._first is None):
                self._find_server(client)

    def _add(self, client: socket.socket) -> int:
        """How many connections are open."""
        self._sockets = [one for one in self._sockets if one.fileno() >= 0] + [client]
        return len(self._sockets)

    def why_not_trusted(self, newest: socket.socket | None = None) -> str | None:
        """Why nothing secret is sent, and nothing taken as Ray's word, in half a sentence; read anew each time.

        On this host the kernel tells whose sockets serve the address, whatever it is called: where our own connections end is what
        counts. An address that was given is believed; but what took its place later, when Ray has ended and another user has bound the
        port, is not. Nor is a connection that ends on this host at nobody who can be seen. `newest`: a connection that counts even if its
        other end was closed already.
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
        """Whether it is known to be on this host, at that port."""
        with suppress(OSError):
            self._find_server()
        return self._port == port and bool(self._here)

    def is_ours(self) -> bool:
        """Whether root or we serve it on this host: on another of its addresses another user may have the same port."""
        with suppress(OSError):
            users = self._find_server().users
            return bool(users) and users <= own_uids()
        return False

    def _find_server(self, newest: socket.socket | None = None) -> Server:
        """Whoever serves it on this host; those who did when it was met first are believed if a person has named it.

        Raises `OSError` if that can't be known.
        """
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
        if not named and why_not_ours(path) is not None:
            return None
        return read_small(path).decode("utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):  # the last: nobody knows where this user's home is
        return None


def read_small(path: Path) -> bytes:
    """The file of a token, or of what lies beside one; a pipe or device in its place is not opened. Raises `OSError`."""
    return read_begin(str(path), _TOKEN_BYTES, link=0)


def _place(url: str) -> tuple[int, frozenset[str]]:
    """Its port, and its addresses on this host as far as they stand there; of what is no address neither."""
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
    """The last bytes of a file that root or we own, at a place where others may have put a link, a pipe or a file of theirs.

    Raises `OSError`. No link is followed in its last two parts: Ray lets everybody write to a session's `logs`.
    """
    with open_fd(str(path.parent)) as folder:
        return probe_trust.read_end(path.name, most_bytes, tuple(own_uids()), folder)


def is_plain(status: os.stat_result) -> bool:
    """A regular file of root's or ours, with no other name: what lies in it, nobody else has put there."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in own_uids() and status.st_nlink == 1


def why_not_ours(path: Path) -> str | None:
    """Why what lies there is not obeyed, and nothing is written there: another user has put it there, or could.

    `sudo` may leave HOME as it was: then root would read, and do, what that user has written, or what a link of his leads to. Every folder
    and link on the way counts, and as far as there is one: whoever owns none of them can't swap any between this answer and its use.
    """
    try:
        for place, status in walk_path(os.path.abspath(path)):
            it = "it" if place == str(path) else place
            if status.st_uid not in own_uids() | _nobody():
                return f"{it} belongs to another user (user {status.st_uid}), and only files of root and of this user are trusted"
            if status.st_mode & stat.S_IWOTH and not stat.S_ISLNK(status.st_mode) and not _is_sticky(status):
                return f"everybody can write to {it}"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its owner can't be read: {explain_os_error(error)}"
    return None


def _is_sticky(status: os.stat_result) -> bool:
    """A folder in which everybody may make something, but only its owner rename it."""
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)


@cache
def _nobody() -> frozenset[int]:
    """Whom root's files seem to belong to in a user namespace that has no number for root, as in a container of a user's own."""
    mapped = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    if any(int(first) == ROOT for first, *_ in mapped):
        return frozenset()
    return frozenset([int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))])
