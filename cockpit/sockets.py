"""Whose TCP sockets serve a port of this host, as the kernel tells; and where the connections that this process has open lead."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 what others bind
_FAMILIES: Final = (socket.AF_INET6, socket.AF_INET)
"""The rarer first: the kernel learns by the first answer how large a part may be, and then lists 260 sockets at once, not 30."""
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


class Server(NamedTuple):
    """Who serves a port here."""

    users: frozenset[int]
    """Whose sockets listen; and who holds the other ends of our connections: who has accepted one may have closed what listened."""
    addresses: frozenset[str]
    """Those of this host at which our connections end; empty where they lead to other hosts, or there are none."""


def listening_users(port: int) -> frozenset[int]:
    """The users whose sockets listen on that port of this host, at any address; empty where nobody does.

    Raises `OSError` where the kernel doesn't tell.
    """
    return frozenset(found.user for found in _find_sockets(port) if found.listens)


def find_server(port: int, addresses: frozenset[str]) -> Server:
    """Who serves that port at these addresses, and at those to which our own connections go; without any of both at all addresses.

    Raises `OSError` where the kernel doesn't tell, or no descriptor is free to ask it: who serves it is not known then.
    """
    ours, sockets = _own_connections(port), _find_sockets(port)
    peers = [found for found in sockets if not found.listens and (found.own, found.other) in ours]
    addresses |= {peer.own[0] for peer in peers}
    users = {peer.user for peer in peers if peer.inode}
    users |= {found.user for found in sockets if found.listens and (not addresses or found.own[0] in addresses | _ANY)}
    return Server(frozenset(users), frozenset(peer.own[0] for peer in peers))


def normal(address: str) -> str:
    """One way to write each address (`::ffff:127.0.0.1` is 127.0.0.1). Raises `ValueError` where it is a name."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _own_connections(port: int) -> frozenset[tuple[End, End]]:
    """Those to that port that this process has open: their other ends, then their own."""
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):
        if (copy := _copy_socket(number)) is not None:
            with copy, suppress(OSError):  # it is not connected
                if copy.family in _FAMILIES and (other := copy.getpeername())[1] == port:
                    found.add((_end(*other[:2]), _end(*copy.getsockname()[:2])))
    return frozenset(found)


def _copy_socket(number: int) -> socket.socket | None:
    """Whatever closes it closes no descriptor of others; `None`: there is no socket, or none any more."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return None
        copy = os.dup(number)
    except OSError as error:
        if error.errno == errno.EBADF:
            return None
        raise
    try:
        return socket.socket(fileno=copy)
    except OSError:  # of a kind that Python doesn't know
        os.close(copy)
        return None


def _find_sockets(port: int) -> list[TcpSocket]:
    """Those with that port at their own end. Raises `OSError`."""
    with suppress(OSError):
        return _ask_kernel(port)
    return list(_read_tables(port))


def _end(address: str, port: int) -> End:
    return (normal(address.partition("%")[0]) if ":" in address else address), port


# By netlink, sock_diag(7): 0.3 ms. The tables in /proc take ten and more, because the kernel goes through all places of its table of
# connections, a quarter of a million on a host of 24 GiB, with a lock for each. pyroute2 takes 65 ms to import.
#
# All are listed, as in /proc: a lookup of one finds none that its owner has bound to a device.

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LISTEN = 10
_ALL_STATES = 0x1FFF
_MAX_PART_BYTES: Final = 1 << 16
_HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_ASKED: Final = struct.Struct("=BBBxI")
"""struct inet_diag_req_v2 up to its inet_diag_sockid: family, protocol, extensions, states as bits."""
_ENDS: Final = struct.Struct("!HH16s16s")
_PLACE: Final = struct.Struct("=III")
"""The rest of an inet_diag_sockid: interface, and a cookie; here any."""
_TOLD: Final = struct.Struct("=BBxx")
"""struct inet_diag_msg up to its inet_diag_sockid: family, state."""
_CODE: Final = struct.Struct("=i")
"""What an error's message, and that of an end, begins with: 0, or the number of an error, negative."""
_OWNER: Final = struct.Struct("=12xII")
"""What follows that: user and inode, behind times and queues."""


def _ask_kernel(port: int) -> list[TcpSocket]:
    """Raises `OSError` where the kernel doesn't tell."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.setblocking(False)
        lists = [_list_sockets(kernel, family, port) for family in _FAMILIES]
    found = [_read_message(message) for parts in lists for message in _read_parts(parts)]
    # Who opens and closes sockets at the end of a part can have the next one left out; not in both lists, as their parts differ.
    more = _read_tables(port) if any(sum(map(_has_sockets, parts)) > 1 for parts in lists) else ()
    return [one for one in (*found, *more) if one.own[1] == port]


def _list_sockets(kernel: socket.socket, family: int, port: int) -> list[bytes]:
    """In parts, each of which the kernel makes while the last is taken, and counts on from there."""
    wanted = _ASKED.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + _ENDS.pack(port, 0, b"", b"") + _PLACE.pack(0, 0, 0)
    kernel.sendto(_HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _DUMP, 0, 0) + wanted, (0, 0))
    parts: list[tuple[bytes, Any]] = []
    with suppress(BlockingIOError):
        while True:
            parts.append(kernel.recvfrom(_MAX_PART_BYTES))
    return [part for part, sender in parts if sender[0] == 0]


def _has_sockets(part: bytes) -> bool:
    return bool(_HEADER.unpack_from(part)[1] == _BY_FAMILY)


def _read_parts(parts: list[bytes]) -> Iterator[bytes]:
    """A message for each socket. Raises `OSError` where the last says so, or there is no last."""
    for part in parts:
        place = 0
        while place < len(part):
            length, kind, *_ = _HEADER.unpack_from(part, place)
            message = part[place + _HEADER.size : place + length]
            if kind in (_ERROR, _DONE):
                if code := -_CODE.unpack_from(message)[0]:
                    raise OSError(code, os.strerror(code))
                return
            yield message
            place += max(_HEADER.size, (length + 3) & ~3)
    raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))


def _read_message(message: bytes) -> TcpSocket:
    family, state = _TOLD.unpack_from(message)
    port, other_port, *raw = _ENDS.unpack_from(message, _TOLD.size)
    user, inode = _OWNER.unpack_from(message, _TOLD.size + _ENDS.size + _PLACE.size)
    own, other = (socket.inet_ntop(family, each[: 4 if family == socket.AF_INET else 16]) for each in raw)
    return TcpSocket(_end(own, port), _end(other, other_port), state == _LISTEN, user, inode)


# By the tables in /proc, where netlink is not allowed, as in gVisor

_TABLE, _TABLE_OF_IPV6 = "/proc/net/tcp", "/proc/net/tcp6"


def _read_tables(port: int) -> Iterator[TcpSocket]:
    """The sockets with that port at their own end. Raises `OSError`."""
    lines = _read_lines(_TABLE)
    with suppress(FileNotFoundError):  # a kernel without IPv6
        lines += _read_lines(_TABLE_OF_IPV6)
    ending = f":{port:04X}"
    for line in lines:
        if ending in line:
            _, own, other, state, _, _, _, user, _, inode, *_ = line.split()
            if own.endswith(ending):
                yield TcpSocket(_read_end(own), _read_end(other), int(state, 16) == _LISTEN, int(user), int(inode))


def _read_lines(table: str) -> list[str]:
    return Path(table).read_text(encoding="ascii").splitlines()[1:]


def _read_end(written: str) -> End:
    """As the kernel writes it: words of 32 bits, the bytes of each in the order of this machine (tcp4_seq_show, net/ipv4/tcp_ipv4.c)."""
    address, _, port = written.rpartition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _end(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16))
