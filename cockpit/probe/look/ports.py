"""Which processes listen on a port of this host."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Tuple

from .processes import legible, read, read_argv, read_link, read_stat, user_name

MOST_LISTENERS = 8
COMMAND = 400
"""Characters of a command that are passed on."""
_LISTEN = "0A"


def port_listeners(port: int) -> Dict[str, Any]:
    """As this host's own network has it: what listens inside a container with another one is not there.

    A process that may not be looked into has no pid here; whose its socket is the kernel tells of any.
    """
    owners = dict(_sockets(port))
    holders = _holders(set(owners)) if owners else {}
    found = [{**holders.get(inode, {"pid": None}), "user": user_name(uid)} for inode, uid in sorted(owners.items())]
    return {"port": port, "listeners": found[:MOST_LISTENERS]}


def _sockets(port: int) -> Iterator[Tuple[str, int]]:
    """The inode of each socket that listens there, and the id of its user."""
    for table in ("tcp", "tcp6"):
        try:
            lines = read(f"/proc/self/net/{table}").decode().splitlines()[1:]
        except OSError:
            continue  # a kernel without it
        for words in map(str.split, lines):
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9], int(words[7])


def _holders(inodes: "set[str]") -> Dict[str, Dict[str, Any]]:
    """By inode, the oldest process that holds it: those that it has started may hold it too."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: Dict[str, Dict[str, Any]] = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        for inode in {wanted[link] for link in _links(pid) if link in wanted}:
            one = _describe(pid)
            if one and (inode not in found or one["ticks"] < found[inode]["ticks"]):
                found[inode] = one
    return found


def _links(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return  # it has ended, or is not ours to look into
    yield from filter(None, (read_link(f"{folder}/{name}") for name in names))


def _describe(pid: int) -> "Dict[str, Any] | None":
    stat = read_stat(pid)
    if stat is None:
        return None
    return {"pid": pid, "ticks": stat.ticks, "command": legible(" ".join(read_argv(pid)) or stat.name)[:COMMAND]}
