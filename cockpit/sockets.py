"""Whose TCP sockets serve a port of this host, as the kernel tells; and where the connections that this process has open lead."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 what others bind
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
End = tuple[str, int]
"""An address, an IPv4 one always as such, and a port."""


class TcpSocket(NamedTuple):
    """A socket of this host's."""

    own: End
    other: End
    listens: bool
    user: int
    inode: int
    """0: of a connection that nobody has accepted yet, or that is over."""


class _Connection(NamedTuple):
    """One that this process has open, by its addresses as the socket tells them."""

    family: int
    own: tuple[Any, ...]
    other: tuple[Any, ...]

    @property
    def ends(self) -> tuple[End, End]:
        """As the socket at its other end would call its own, and the other."""
        return _end(*self.other[:2]), _end(*self.own[:2])


class Server(NamedTuple):
    """Who serves a port here."""

    users: frozenset[int]
    """Whose sockets listen; and who holds the other ends of our connections: who has accepted one may have closed what listened."""
    addresses: frozenset[str]
    """Those of this host at which our connections end; empty where they lead to other hosts, or there are none."""


def listening_users(port: int) -> frozenset[int]:
    """The users whose sockets listen on that port of this host, at any address; empty where nobody does."""
    return frozenset(found.user for found in _find_sockets(port, []) if found.listens)


def find_server(port: int, addresses: frozenset[str]) -> Server:
    """Who serves that port at these addresses, and at those to which our own connections go; without any of both at all addresses."""
    sockets = _find_sockets(port, list(_own_connections(port)))
    peers = [found for found in sockets if not found.listens]
    addresses |= {peer.own[0] for peer in peers}
    users = {peer.user for peer in peers if peer.inode}
    users |= {found.user for found in sockets if found.listens and (not addresses or found.own[0] in addresses | _ANY)}
    return Server(frozenset(users), frozenset(peer.own[0] for peer in peers))


def normal(address: str) -> str:
    """One way to write each address (`::ffff:127.0.0.1` is 127.0.0.1). Raises `ValueError` where it is a name."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _own_connections(port: int) -> Iterator[_Connection]:
    """Those to that port."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if one.family in _FAMILIES and (other := one.getpeername())[1] == port:
                        yield _Connection(one.family, one.getsockname(), other)


def _find_sockets(port: int, connections: list[_Connection]) -> list[TcpSocket]:
    """Those that listen on the port, and the other ends of the connections that end on this host."""
    with suppress(OSError):
        return list(_ask_kernel(port, connections))
    ours = {one.ends for one in connections}
    return [found for found in _read_tables(port) if found.listens or (found.own, found.other) in ours]


def _end(address: str, port: int) -> End:
    return normal(address.partition("%")[0]), port


# By netlink, sock_diag(7): 0.1 ms. The tables in /proc take ten and more, because the kernel goes through all places of its table of
# connections, a quarter of a million on a host of 24 GiB. pyroute2 takes 65 ms to import, and lists sockets only.

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST, _DUMP = 0x1, 0x301
_ERROR, _DONE = 2, 3
_ESTABLISHED, _LISTEN = 1, 10
_PATIENCE_S: Final = 1.0
_MAX_ANSWER_BYTES: Final = 1 << 16
_HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_ASKED: Final = struct.Struct("=BBBxI")
"""struct inet_diag_req_v2 up to its inet_diag_sockid: family, protocol, extensions, states as bits."""
_ENDS: Final = struct.Struct("!HH16s16s")
_PLACE: Final = struct.Struct("=III")
"""The rest of an inet_diag_sockid: interface, and a cookie."""
_ANY_COOKIE: Final = (0xFFFFFFFF, 0xFFFFFFFF)
_ANY_PLACE: Final = _PLACE.pack(0, *_ANY_COOKIE)
_TOLD: Final = struct.Struct("=BBxx")
"""struct inet_diag_msg up to its inet_diag_sockid: family, state."""
_CODE: Final = struct.Struct("=i")
"""What an error's message, and that of an end, begins with: 0, or the number of an error, negative."""
_OWNER: Final = struct.Struct("=12xII")
"""What follows that: user and inode, behind times and queues."""


def _ask_kernel(port: int, connections: list[_Connection]) -> Iterator[TcpSocket]:
    """Raises `OSError` where the kernel doesn't tell."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(_PATIENCE_S)
        numbers = count(1)
        for family in _FAMILIES:
            wanted = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN) + _ENDS.pack(port, 0, b"", b"") + _ANY_PLACE
            yield from (found for found in _exchange(kernel, next(numbers), _DUMP, wanted) if found.own[1] == port)
        for one in connections:
            found = _exchange(kernel, next(numbers), _REQUEST, _other_end(one))
            yield from (each for each in found if not each.listens and (each.own, each.other) == one.ends)


def _other_end(one: _Connection) -> bytes:
    raw = [socket.inet_pton(one.family, address.partition("%")[0]) for address in (one.other[0], one.own[0])]
    scope = one.own[3] if one.family == socket.AF_INET6 else 0
    place = _PLACE.pack(scope, *_ANY_COOKIE)
    return _ASKED.pack(one.family, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + _ENDS.pack(one.other[1], one.own[1], *raw) + place


def _exchange(kernel: socket.socket, number: int, flags: int, body: bytes) -> list[TcpSocket]:
    kernel.sendto(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, flags, number, 0) + body, (0, 0))
    found: list[TcpSocket] = []
    while True:
        data, (sender, _) = kernel.recvfrom(_MAX_ANSWER_BYTES)
        for kind, message in _messages(data, number) if sender == 0 else ():
            if kind in (_ERROR, _DONE):
                if (code := -_CODE.unpack_from(message)[0]) and not (flags == _REQUEST and code == errno.ENOENT):  # there is none
                    raise OSError(code, os.strerror(code))
                return found
            found.append(_read_message(message))
            if flags == _REQUEST:
                return found


def _messages(data: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """The answers to that request: their types and what is in them."""
    while data:
        length, kind, _, answers, _ = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
        if answers == number:
            yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _read_message(message: bytes) -> TcpSocket:
    family, state = _TOLD.unpack_from(message)
    port, other_port, *raw = _ENDS.unpack_from(message, _TOLD.size)
    user, inode = _OWNER.unpack_from(message, _TOLD.size + _ENDS.size + _PLACE.size)
    own, other = (socket.inet_ntop(family, each[: 4 if family == socket.AF_INET else 16]) for each in raw)
    return TcpSocket(_end(own, port), _end(other, other_port), state == _LISTEN, user, inode)


# By the tables in /proc, where netlink is not allowed, as in gVisor

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def _read_tables(port: int) -> Iterator[TcpSocket]:
    """The sockets with that port at their own end."""
    ending = f":{port:04X}"
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                if ending in line:
                    _, own, other, state, _, _, _, user, _, inode, *_ = line.split()
                    if own.endswith(ending):
                        yield TcpSocket(_read_end(own), _read_end(other), int(state, 16) == _LISTEN, int(user), int(inode))


def _read_end(written: str) -> End:
    """As the kernel writes it: words of 32 bits, the bytes of each in the order of this machine (tcp4_seq_show, net/ipv4/tcp_ipv4.c)."""
    address, _, port = written.rpartition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    return normal(str(ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words)))), int(port, 16)
