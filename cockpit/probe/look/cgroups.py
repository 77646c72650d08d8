"""Finds the cgroups of a process: the folders whose files hold its limits, and the container that they are named after."""

from __future__ import annotations

import re
from typing import Iterator, Tuple

CGROUPS = "/sys/fs/cgroup"
MAX_DEPTH = 32
"""Levels of cgroups above a process that are read."""
_CONTAINER = re.compile(rb"[/:](libpod|docker|crio|cri-containerd)[-/]([0-9a-f]{64})(?![0-9a-f])")
"""podman's `…/libpod-ID`, `docker-ID.scope` or `/docker/ID`, `crio-ID.scope`, `cri-containerd-ID.scope`."""


def cgroup_folders(text: str, controller: str, root: str) -> Iterator[str]:
    """The folders of a process's cgroup and of all cgroups above it, its own first, by the text of /proc/PID/cgroup (version 1 or 2).

    A container may see only the uppermost, as `/`.
    """
    for number, controllers, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2):
        if number != "0" and controller not in controllers.split(","):
            continue
        base = root if number == "0" else f"{root}/{controller}"
        parts = [part for part in path.split("/") if part][:MAX_DEPTH]
        if ".." not in parts:
            yield from ("/".join((base, *parts[:depth])) for depth in range(len(parts), -1, -1))


def read_container_id(pid: int) -> Tuple[str, str] | None:
    """The word that a container engine puts into the name of a cgroup, and the id of the container; `None`: the name has no such word."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            found = _CONTAINER.search(file.read(1 << 16))
    except OSError:
        return None
    return (found[1].decode(), found[2].decode()) if found else None
