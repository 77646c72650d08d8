"""Reads the network interfaces, the addresses and the listening sockets of this host, or of a process's network namespace."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from typing import Iterator, NamedTuple, Sequence, Tuple

from .origin import to_number
from .proc import read, read_or_nothing

_UP, _REJECT = 0x1, 0x200
"""RTF_UP and RTF_REJECT of linux/route.h."""
_ANY = "00000000"
_LISTEN = "0A"
_SIOCGIFADDR = 0x8915
MAX_ROUTES_BYTES = 1 << 20
"""Bytes that are read of a table of routes or interfaces: the routes of the whole internet take 100 MB."""
MAX_IPV6_BYTES = 1 << 16
"""Bytes that are read of a table of IPv6 addresses: 1,000 of them."""
MAX_ADDRESSES = 256


class Interfaces(NamedTuple):
    """The network interfaces that a process sees: a container has its own."""

    names: Tuple[str, ...]
    default: str | None = None
    """The interface of the default route that the kernel prefers; `None`: there is no default route for IPv4."""


def read_interfaces(pid: int, proc: str = "/proc") -> Interfaces | None:
    """`None`: unknown, also if the table of interfaces is too long."""
    try:
        table = read(f"{proc}/{pid}/net/dev", MAX_ROUTES_BYTES)
    except OSError:
        return None
    if len(table) >= MAX_ROUTES_BYTES:
        return None  # some interfaces would be missing
    lines = table.decode("utf-8", "replace").split("\n")[2:]
    routes = b""
    with suppress(OSError):
        routes = read(f"{proc}/{pid}/net/route", MAX_ROUTES_BYTES)  # default routes stand first
    rows = [line.split() for line in routes.decode("utf-8", "replace").split("\n")[1:]]
    usable = (row for row in rows if len(row) > 7 and row[1] == row[7] == _ANY and int(row[3], 16) & (_UP | _REJECT) == _UP)
    preferred = min(usable, key=lambda row: int(row[6]), default=None)
    names = tuple(line.partition(":")[0].strip() for line in lines if ":" in line)
    return Interfaces(names, preferred[0] if preferred else None)


def addresses() -> list[str]:
    """The addresses of this host without loopback and link-local ones, IPv4 first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no IPv4 address
                answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    found = [address for address in found if not address.startswith("127.")]
    rows = [line.split() for line in read_or_nothing("/proc/net/if_inet6").splitlines()]
    found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]  # global scope
    return [*dict.fromkeys(found)]


def read_addresses(pid: int, proc: str = "/proc") -> Tuple[str, ...] | None:
    """The addresses of the process's network namespace without loopback ones, IPv4 first; `None`: unknown.

    The table of routes has every IPv4 address, also the second one of an interface: `|-- 10.0.0.1`, and on the next line `/32 host LOCAL`.
    """
    try:
        routes = read(f"{proc}/{pid}/net/fib_trie", MAX_ROUTES_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    found, leaf = [], ""
    for words in map(str.split, routes.splitlines()):
        if words[:1] == ["|--"]:
            leaf = words[-1]
        elif words == ["/32", "host", "LOCAL"] and not leaf.startswith("127."):
            found.append(leaf)
    ipv6 = b""
    with suppress(OSError):  # a kernel without IPv6 has no such table
        ipv6 = read(f"{proc}/{pid}/net/if_inet6", MAX_IPV6_BYTES)
    if len(routes) >= MAX_ROUTES_BYTES or len(ipv6) >= MAX_IPV6_BYTES:
        return None  # some addresses would be missing
    rows = [line.split() for line in ipv6.decode("ascii", "replace").splitlines()]
    found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]
    return tuple(dict.fromkeys(found)) if len(found) <= MAX_ADDRESSES else None


def is_here(host: str) -> bool:
    """Whether `host` is an address of this host."""
    return host.startswith("127.") or host in ("::1", "localhost") or host in addresses()


def split_address(address: str) -> Tuple[str, int | None]:
    """Host and port; no port if the text is no address."""
    host, _, port = address.rpartition(":")
    number = to_number(port)
    return host.strip("[]"), number if host and number and number < 65536 else None


class ListeningSocket(NamedTuple):
    """A TCP socket that listens in one network namespace."""

    host: str
    port: int
    uid: int
    link: str
    """The target of a descriptor's link in /proc/PID/fd: `socket:[inode]`."""


def listening_sockets(pid: int | str = "self") -> Iterator[ListeningSocket]:
    """All listening TCP sockets in the process's network namespace. A kernel without IPv6 has no table for it."""
    for family, row in _tcp_rows(pid):
        if row[3] == _LISTEN:
            yield ListeningSocket(*_endpoint(family, row[1]), int(row[7]), f"socket:[{row[9]}]")


def accepted_link(pid: int, server: Tuple[str, int], client: Tuple[str, int]) -> str | None:
    """The server's socket of this connection in the process's network namespace, as in /proc/PID/fd; `None`: not accepted yet."""
    for family, row in _tcp_rows(pid):
        if row[9] != "0" and _endpoint(family, row[1]) == server and _endpoint(family, row[2]) == client:
            return f"socket:[{row[9]}]"
    return None


def _tcp_rows(pid: int | str) -> Iterator[Tuple[socket.AddressFamily, Sequence[str]]]:
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in read_or_nothing(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            yield family, line.split()


def _endpoint(family: socket.AddressFamily, text: str) -> Tuple[str, int]:
    """`0100007F:1F41` is 127.0.0.1:8001: each word of four bytes is in the byte order of the processor, which is little-endian."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    return socket.inet_ntop(family, raw), int(port, 16)
