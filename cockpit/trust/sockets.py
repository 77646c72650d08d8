"""Finds the users whose TCP sockets serve a port of this host, from the kernel's tables in /proc/net."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 other programs bind them
_TABLE, _TABLE_OF_IPV6 = "/proc/net/tcp", "/proc/net/tcp6"
_LISTEN: Final = "0A"
_ESTABLISHED: Final = 1
End = tuple[str, int]
"""An address and a port; an IPv4 address is never in its IPv6 form."""
Connection = tuple[End, End]
"""The server's end, then the client's end."""


class TcpSocket(NamedTuple):
    """A socket of this host."""

    own: End
    other: End
    listens: bool
    user: int
    inode: int
    """0: a connection that was not accepted yet, or is closed."""


class Server(NamedTuple):
    """The users that serve a port of this host, and the addresses of our connections to it."""

    users: frozenset[int]
    """The owners of the listening sockets and of the other ends of our connections: a process may stop listening after it has accepted one.

    Empty if the owner of one of our connections can't be seen: it has not been accepted, or is over, and nobody listens where it leads.
    """
    addresses: frozenset[str]
    """The addresses of this host that our connections lead to; empty if they lead to other hosts, or if there are none."""


def listening_users(port: int) -> frozenset[int]:
    """Return the users whose sockets listen on that port of this host, at any address. Raises `OSError` if the tables can't be read."""
    return frozenset(found.user for found in _read_tables(port) if found.listens)


def find_server(port: int, addresses: frozenset[str], connections: frozenset[Connection]) -> Server:
    """Return who serves that port at these addresses, and at the addresses that our connections lead to; without both, at all addresses.

    Raises `OSError` if the tables can't be read, also because no file descriptor is free: the server is unknown then, not missing.
    """
    sockets = list(_read_tables(port))
    peers = [found for found in sockets if not found.listens and (found.own, found.other) in connections]
    # A user who opens and closes many sockets can hide one from a reading: it may be the other end of our connection.
    hidden = {server for server, client in connections - {(peer.own, peer.other) for peer in peers} if _are_on_one_host(server, client)}
    ends = frozenset(peer.own[0] for peer in peers) | {address for address, _ in hidden}
    addresses |= ends
    if connections and not addresses:  # all lead to other hosts, so the listeners here don't matter
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
    """Return whether neither end has closed a connection (tcpi_state, linux/tcp.h)."""
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


def connection_of(client: socket.socket) -> Connection:
    """Return both ends of a client's socket. Raises `OSError` if it is not connected, or closed."""
    return _end(*client.getpeername()[:2]), _end(*client.getsockname()[:2])


def has_received(client: socket.socket) -> bool:
    """Return whether a connection has received data. Its end counts as one byte (tcpi_bytes_received, linux/tcp.h)."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    return int.from_bytes(info[128:136], sys.byteorder) > 1


def normal(address: str) -> str:
    """Return an address in its normal form (`::ffff:127.0.0.1` is 127.0.0.1). Raises `ValueError` if it is a name."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _end(address: str, port: int) -> End:
    return (normal(address.partition("%")[0]) if ":" in address else address), port


def _read_tables(port: int) -> Iterator[TcpSocket]:
    """Yield the sockets whose own end has that port. Raises `OSError`."""
    # IPv6 first: an IPv6 socket can become an IPv4 socket (IPV6_ADDRFORM), but never the reverse. So no socket is missed.
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
    """Read an end as the kernel writes it: words of 32 bits in this machine's byte order (tcp4_seq_show, net/ipv4/tcp_ipv4.c)."""
    address, _, port = written.rpartition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _end(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16))
