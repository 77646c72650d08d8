"""Finds the processes that listen on a port of this host."""

from __future__ import annotations

from typing import Any, Dict

from .network import listening_sockets
from .proc import find_pids, make_legible, open_files, user_name
from .processes import read_argv, read_stat

MAX_LISTENERS = 8
COMMAND = 400
"""Characters kept of a command."""


def port_listeners(port: int) -> Dict[str, Any]:
    """Only sockets in the network namespace of the probe count, not those in containers with another one.

    The pid is `None` if we may not read the process; the kernel reports the user of each socket.
    """
    owners = {one.link: one.uid for one in listening_sockets() if one.port == port}
    # The oldest process that holds a socket is its owner: its children may hold it too.
    holders: Dict[str, Dict[str, Any]] = {}
    for pid in sorted(find_pids()) if owners else ():
        try:
            held = owners.keys() & open_files(pid)
        except OSError:
            continue  # it has ended, or we may not read it
        stat = read_stat(pid) if held else None
        for link in held if stat else ():
            if stat and (link not in holders or stat.ticks < holders[link]["ticks"]):
                command = make_legible(" ".join(read_argv(pid)) or stat.name)[:COMMAND]
                holders[link] = {"pid": pid, "ticks": stat.ticks, "command": command}
    found = [{**holders.get(link, {"pid": None}), "user": user_name(uid)} for link, uid in sorted(owners.items())]
    return {"port": port, "listeners": found[:MAX_LISTENERS]}
