"""Which processes listen on a port of this host."""

from __future__ import annotations

import os
from typing import Any, Dict, Set

from .network import listening_sockets
from .proc import make_legible, open_files, user_name
from .processes import read_argv, read_stat

MOST_LISTENERS = 8
COMMAND = 400
"""Characters of a command that are passed on."""


def port_listeners(port: int) -> Dict[str, Any]:
    """As this host's own network has it: what listens inside a container with another one is not there.

    A process that may not be looked into has no pid here; whose its socket is the kernel tells of any.
    """
    owners = {one.link: one.uid for one in listening_sockets() if one.port == port}
    holders = _find_holders({*owners}) if owners else {}
    found = [{**holders.get(link, {"pid": None}), "user": user_name(uid)} for link, uid in sorted(owners.items())]
    return {"port": port, "listeners": found[:MOST_LISTENERS]}


def _find_holders(links: Set[str]) -> Dict[str, Dict[str, Any]]:
    """By socket, the oldest process that holds it: those that it has started may hold it too."""
    found: Dict[str, Dict[str, Any]] = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            held = links.intersection(open_files(pid))
        except OSError:
            continue  # it has ended, or is not ours to look into
        stat = read_stat(pid) if held else None
        for link in held if stat else ():
            if stat and (link not in found or stat.ticks < found[link]["ticks"]):
                found[link] = {"pid": pid, "ticks": stat.ticks, "command": make_legible(" ".join(read_argv(pid)) or stat.name)[:COMMAND]}
    return found
