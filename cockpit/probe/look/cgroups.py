"""The folders of a process's cgroups, whose files hold its limits."""

from __future__ import annotations

from typing import Iterator

CGROUPS = "/sys/fs/cgroup"
DEEPEST = 32
"""Cgroups above a process that are looked at."""


def cgroup_folders(text: str, controller: str, root: str) -> Iterator[str]:
    """By /proc/PID/cgroup, in version 1 and 2, from its own folder upwards; a container may see only the uppermost, under no name."""
    for number, controllers, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2):
        if number != "0" and controller not in controllers.split(","):
            continue
        base = root if number == "0" else f"{root}/{controller}"
        parts = [part for part in path.split("/") if part][:DEEPEST]
        if ".." not in parts:
            yield from ("/".join((base, *parts[:depth])) for depth in range(len(parts), -1, -1))
