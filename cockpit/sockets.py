"""Whose TCP sockets serve a port of this host, by the kernel's tables; and where the connections that this process has open lead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

_LISTEN: Final = "0A"
_NO_INODE: Final = "0"
"""Of a connection that nobody has accepted yet, or that is over."""
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 what others bind
End = tuple[str, int]
"""An address, an IPv4 one always as such, and a port."""


class _Row(NamedTuple):
    """A socket of this host's."""

    own: str
    other: str
    listens: bool
    user: int
    inode: str


class Server(NamedTuple):
    """Who serves a port here."""

    users: frozenset[int]
    """Whose sockets listen; and who holds the other ends of our connections: who has accepted one may have closed what listened."""
    addresses: frozenset[str]
    """Those of this host at which our connections end; empty where they lead to other hosts, or there are none."""


def listening_users(port: int) -> frozenset[int]:
    """The users whose sockets listen on that port of this host, at any address; empty where nobody does."""
    return frozenset(row.user for row in _rows(port) if row.listens and _end(row.own)[1] == port)


def find_server(port: int, addresses: frozenset[str]) -> Server:
    """Who serves that port at these addresses, and at those to which our own connections go; without any of both at all addresses."""
    rows = list(_rows(port))
    peers = list(_peers(rows, port))
    addresses |= {_end(row.own)[0] for row in peers}
    users = {row.user for row in peers if row.inode != _NO_INODE}
    for row in rows:
        if row.listens and (end := _end(row.own))[1] == port and (not addresses or end[0] in addresses | _ANY):
            users.add(row.user)
    return Server(frozenset(users), frozenset(_end(row.own)[0] for row in peers))


def _peers(rows: list[_Row], port: int) -> Iterator[_Row]:
    """The other ends of this process's connections to that port, of those that end on this host."""
    leading = [row for row in rows if not row.listens and row.inode != _NO_INODE and _end(row.other)[1] == port]
    mine = _own_sockets() if leading else frozenset()
    ours = {(_end(row.other), _end(row.own)) for row in leading if row.inode in mine}
    yield from (row for row in rows if not row.listens and ours and (_end(row.own), _end(row.other)) in ours)


def _own_sockets() -> frozenset[str]:
    """Inodes of the sockets that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            kind, _, inode = os.readlink(f"/proc/self/fd/{name}").partition(":[")
            if kind == "socket":
                found.add(inode.rstrip("]"))
    return frozenset(found)


def _rows(port: int) -> Iterator[_Row]:
    """The sockets with that port at one of their ends."""
    ending = f":{port:04X}"
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                if ending in line:
                    _, own, other, state, _, _, _, user, _, inode, *_ = line.split()
                    if own.endswith(ending) or other.endswith(ending):
                        yield _Row(own, other, state == _LISTEN, int(user), inode)


def _end(written: str) -> End:
    """As the kernel writes it: words of 32 bits, the bytes of each in the order of this machine (tcp4_seq_show, net/ipv4/tcp_ipv4.c)."""
    address, _, port = written.rpartition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    return normal(str(ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words)))), int(port, 16)


def normal(address: str) -> str:
    """One way to write each address (`::ffff:127.0.0.1` is 127.0.0.1). Raises `ValueError` where it is a name."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
