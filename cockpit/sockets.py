"""Which users' TCP sockets serve a port of this host, read from the kernel's tables in /proc/net."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 what others bind
_TABLE, _TABLE_OF_IPV6 = "/proc/net/tcp", "/proc/net/tcp6"
_LISTEN: Final = "0A"
_ESTABLISHED: Final = 1
End = tuple[str, int]
"""An address and a port; an IPv4 address is always written as such."""
Connection = tuple[End, End]
"""The end at the server, then the end of the client."""


class TcpSocket(NamedTuple):
    """A socket of this host."""

    own: End
    other: End
    listens: bool
    user: int
    inode: int
    """0: of a connection that nobody has accepted yet, or that is over."""


class Server(NamedTuple):
    """Who serves a port of this host."""

    users: frozenset[int]
    """The owners of the sockets that listen, and of the other ends of our connections: who accepted one may have stopped listening.

    Empty if the owner of one of our connections can't be seen: it has not been accepted, or is over, and nobody listens where it leads.
    """
    addresses: frozenset[str]
    """The addresses of this host at which our connections end; empty if they lead to other hosts, or if there are none."""


def listening_users(port: int) -> frozenset[int]:
    """The users whose sockets listen on that port of this host, at any address; empty if nobody listens.

    Raises `OSError` if the tables can't be read.
    """
    return frozenset(found.user for found in _read_tables(port) if found.listens)


def find_server(port: int, addresses: frozenset[str], connections: frozenset[Connection]) -> Server:
    """Who serves that port at these addresses, and at those to which these connections of ours lead; without both, at all addresses.

    Raises `OSError` if the tables can't be read, or if no descriptor is free to read them: who serves the port is not known then.
    """
    sockets = list(_read_tables(port))
    peers = [found for found in sockets if not found.listens and (found.own, found.other) in connections]
    # Who opens and closes many sockets can hide one from a reading: he may listen unseen, and hold the other end of our connection.
    hidden = {server for server, client in connections - {(peer.own, peer.other) for peer in peers} if _are_on_one_host(server, client)}
    ends = frozenset(peer.own[0] for peer in peers) | {address for address, _ in hidden}
    addresses |= ends
    if connections and not addresses:  # all lead to other hosts: who listens on that port here says nothing of them
        return Server(frozenset(), frozenset())
    listening = [found for found in sockets if found.listens]
    listeners = {found.user for found in listening if not addresses or found.own[0] in addresses | _ANY}
    owners = {peer.user for peer in peers if peer.inode}
    waiting = {peer.own[0] for peer in peers if not peer.inode}
    is_one_hidden = bool(hidden) or any(not any(_accepts_at(found.own[0], address) for found in listening) for address in waiting)
    return Server(frozenset() if is_one_hidden else frozenset(owners | listeners), ends)


def _accepts_at(listening: str, address: str) -> bool:
    """Whether who listens there may accept a connection to this address: `::` may mean both protocols."""
    return listening in (address, "::") or (listening == "0.0.0.0" and ":" not in address)  # noqa: S104 what others bind


def _are_on_one_host(server: End, client: End) -> bool:
    return server[0] == client[0] or ip_address(server[0]).is_loopback


def is_established(client: socket.socket) -> bool:
    """Whether neither end has closed a connection (tcpi_state, linux/tcp.h)."""
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


def connection_of(client: socket.socket) -> Connection:
    """Both ends of a client's socket. Raises `OSError` if it is not connected, or closed."""
    return _end(*client.getpeername()[:2]), _end(*client.getsockname()[:2])


def has_received(client: socket.socket) -> bool:
    """Whether anything came through a connection but its end, which counts as one byte (tcpi_bytes_received, linux/tcp.h)."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    return int.from_bytes(info[128:136], sys.byteorder) > 1


def normal(address: str) -> str:
    """One way to write each address (`::ffff:127.0.0.1` is 127.0.0.1). Raises `ValueError` if it is a name."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _end(address: str, port: int) -> End:
    return (normal(address.partition("%")[0]) if ":" in address else address), port


def _read_tables(port: int) -> Iterator[TcpSocket]:
    """The sockets with that port at their own end. Raises `OSError`."""
    # IPv6 first: a socket can become one of IPv4 (IPV6_ADDRFORM) and never the other way round. So each is in one of the two readings.
    lines: list[str] = []
    with suppress(FileNotFoundError):  # a kernel without IPv6
        lines += _read_lines(_TABLE_OF_IPV6)
    lines += _read_lines(_TABLE)
    ending = f":{port:04X}"
    for line in lines:
        if ending in line:
            _, own, other, state, _, _, _, user, _, inode, *_ = line.split()
            if own.endswith(ending):
                yield TcpSocket(_read_end(own), _read_end(other), state == _LISTEN, int(user), int(inode))


def _read_lines(table: str) -> list[str]:
    return Path(table).read_text(encoding="ascii").splitlines()[1:]


def _read_end(written: str) -> End:
    """As the kernel writes it: words of 32 bits, the bytes of each in the order of this machine (tcp4_seq_show, net/ipv4/tcp_ipv4.c)."""
    address, _, port = written.rpartition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _end(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16))
