"""The network as this host or a process on it has it: interfaces, addresses, and who listens on which port."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Iterator, NamedTuple, Tuple

from .origin import to_number
from .proc import read_at_most, read_link, read_or_nothing

_UP, _REJECT = 0x1, 0x200
"""RTF_UP and RTF_REJECT of linux/route.h."""
_ANY = "00000000"
_LISTEN = "0A"
_SIOCGIFADDR = 0x8915
MOST_ROUTES_BYTES = 1 << 20
"""Of a process's table of routes, and of its interfaces: a host that knows all routes of the internet has 100 MB."""
MOST_IPV6_BYTES = 1 << 16
"""Of a process's table of IPv6 addresses: 1,000 of them."""
MOST_ADDRESSES = 256


class Interfaces(NamedTuple):
    """As the process sees them: a container has its own."""

    names: Tuple[str, ...]
    default: str | None = None
    """That of the route which the kernel prefers; `None`: there is no default route for IPv4."""


def read_interfaces(pid: int, proc: str = "/proc") -> Interfaces | None:
    """`None` where that can't be told."""
    try:
        table = read_at_most(f"{proc}/{pid}/net/dev", MOST_ROUTES_BYTES)
    except OSError:
        return None
    if len(table) >= MOST_ROUTES_BYTES:
        return None  # a table that was cut doesn't have all
    lines = table.decode("utf-8", "replace").split("\n")[2:]
    routes = b""
    with suppress(OSError):
        routes = read_at_most(f"{proc}/{pid}/net/route", MOST_ROUTES_BYTES)  # default routes stand first
    rows = [line.split() for line in routes.decode("utf-8", "replace").split("\n")[1:]]
    usable = (row for row in rows if len(row) > 7 and row[1] == row[7] == _ANY and int(row[3], 16) & (_UP | _REJECT) == _UP)
    preferred = min(usable, key=lambda row: int(row[6]), default=None)
    names = tuple(line.partition(":")[0].strip() for line in lines if ":" in line)
    return Interfaces(names, preferred[0] if preferred else None)


def addresses() -> list[str]:
    """All but loopback and link-local ones, IPv4 first."""
    found = [address for _, name in socket.if_nameindex() for address in [_address(name)] if address and not address.startswith("127.")]
    rows = [line.split() for line in read_or_nothing("/proc/net/if_inet6").splitlines()]
    found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]  # of global scope
    return [*dict.fromkeys(found)]


def read_addresses(pid: int, proc: str = "/proc") -> Tuple[str, ...] | None:
    """All addresses of the network namespace of that process but those of loopback, IPv4 first; `None`: it can't be told.

    The table of routes has every IPv4 address, also the second one of an interface: `|-- 10.0.0.1`, and below it `/32 host LOCAL`.
    """
    try:
        routes = read_at_most(f"{proc}/{pid}/net/fib_trie", MOST_ROUTES_BYTES).decode("ascii", "replace")
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
        ipv6 = read_at_most(f"{proc}/{pid}/net/if_inet6", MOST_IPV6_BYTES)
    if len(routes) >= MOST_ROUTES_BYTES or len(ipv6) >= MOST_IPV6_BYTES:
        return None  # a table that was cut doesn't have all
    rows = [line.split() for line in ipv6.decode("ascii", "replace").splitlines()]
    found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]
    return tuple(dict.fromkeys(found)) if len(found) <= MOST_ADDRESSES else None


def network_of(pid: int) -> str | None:
    """What no other network namespace says of itself, on this or another host; `None`: it can't be told."""
    boot, space = read_or_nothing("/proc/sys/kernel/random/boot_id").strip(), read_link(f"/proc/{pid}/ns/net")
    return f"{boot} {space}" if boot and space else None


def _address(interface: str) -> str | None:
    import fcntl  # only for the greeting

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None  # it has no IPv4 address
    return socket.inet_ntoa(answer[20:24])


def is_here(host: str) -> bool:
    """Whether that is an address of this host."""
    return host.startswith("127.") or host in ("::1", "localhost") or host in addresses()


def split_address(address: str) -> Tuple[str, int | None]:
    """Host and port; no port where it is no address."""
    host, _, port = address.rpartition(":")
    number = to_number(port)
    return host.strip("[]"), number if host and number and number < 65536 else None


class ListeningSocket(NamedTuple):
    """A TCP socket that listens, in one network namespace."""

    host: str
    port: int
    uid: int
    link: str
    """What a descriptor of it leads to: `socket:[inode]`."""


def listening_sockets(pid: int | str = "self") -> Iterator[ListeningSocket]:
    """All in the network namespace of that process, by its tables; a kernel without IPv6 has only one."""
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for row in map(str.split, read_or_nothing(f"/proc/{pid}/net/{table}").splitlines()[1:]):
            if row[3] == _LISTEN:
                yield ListeningSocket(*_place(family, row[1]), int(row[7]), f"socket:[{row[9]}]")


def _place(family: socket.AddressFamily, text: str) -> Tuple[str, int]:
    """`0100007F:1F41` is 127.0.0.1:8001: words of four bytes, each in the order of this machine's processor (little-endian ones)."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    turned = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return socket.inet_ntop(family, turned), int(port, 16)
