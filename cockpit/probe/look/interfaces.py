"""The network interfaces that a process has, and over which of them its default route goes."""

from __future__ import annotations

from typing import NamedTuple, Tuple

_UP, _REJECT = 0x1, 0x200
"""RTF_UP and RTF_REJECT of linux/route.h."""
_ANY = b"00000000"


class Interfaces(NamedTuple):
    """As the process sees them: a container has its own."""

    names: Tuple[str, ...]
    default: "str | None" = None
    """`None`: it has no default route for IPv4."""


def read_interfaces(pid: int, proc: str = "/proc") -> "Interfaces | None":
    """`None` where that can't be told."""
    try:
        lines = _lines(f"{proc}/{pid}/net/dev")[2:]
    except OSError:
        return None
    names = tuple(_text(line.partition(b":")[0].strip()) for line in lines if b":" in line)
    return Interfaces(names, _default_interface(f"{proc}/{pid}/net/route"))


def _default_interface(path: str) -> "str | None":
    """That of the route that the kernel prefers."""
    try:
        rows = [line.split() for line in _lines(path)[1:]]
    except OSError:
        return None
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == _ANY and _is_usable(row[3])]
    return _text(min(routes, key=lambda route: route[0])[1]) if routes else None


def _is_usable(flags: bytes) -> bool:
    return int(flags, 16) & (_UP | _REJECT) == _UP


def _lines(path: str) -> "list[bytes]":
    with open(path, "rb", buffering=0) as file:
        return file.read().split(b"\n")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
