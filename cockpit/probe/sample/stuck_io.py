"""Finds the file systems for which processes in D state wait: the kernel function, and the mount of the file that they work on.

Nothing here touches these file systems: links and mount numbers of open files come from the kernel alone.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Dict, List, NamedTuple, Set

from .. import trust
from .proc import make_legible, read, read_link, read_or_nothing
from .processes import Identity, ProcessTable
from .tree import LOCAL, Mount, read_mounts

MAX_STUCK = 32
MAX_FILES = 512
"""Open files of a process that are read."""
_OF_FILE = {
    "x86_64": frozenset((0, 1, 5, 8, 16, 17, 18, 19, 20, 32, 40, 72, 73, 74, 75, 76, 77, 78, 81, 217, 285, 295, 296, 326)),
    "aarch64": frozenset((25, 29, 32, 46, 47, 50, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 80, 82, 83, 285)),
}
"""Numbers of system calls whose first argument is the file they work on: read, write, fstat, fsync, ftruncate, getdents and similar ones
(arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h)."""
Fact = Dict[str, Any]


class WaitPlace(NamedTuple):
    """A file system on which a process may wait."""

    mount: Mount
    certain: bool
    """True: its system call works on a file there. False: it is the only file system that needs a server among those it has open."""


class StuckProcesses:
    """Reads processes in D state again and again. One that is in D state only once is not reported."""

    def __init__(self) -> None:
        self._before: Set[Identity] = set()

    def read(self, table: ProcessTable) -> List[Fact]:
        """Processes in D state now and at the last call. If there are too many, root's and our user's come first."""
        stuck = [process for process in table.values() if process.state == "D"]
        again = [process for process in stuck if process.identity in self._before]
        self._before = {process.identity for process in stuck}
        again.sort(key=lambda process: process.details.uid not in trust.own_uids())
        facts = []
        for process in again[:MAX_STUCK]:
            function = read_or_nothing(f"/proc/{process.pid}/wchan").strip()  # often only root may read it
            place = find_wait_place(process.pid)
            mount = place.mount if place else None
            facts.append(
                {
                    "pid": process.pid,
                    "ticks": process.ticks,
                    "waits_in": function if function not in ("", "0") else None,
                    "mount": mount and make_legible(mount.point),
                    "kind": mount and make_legible(mount.kind),
                    "source": mount and make_legible(mount.source),
                    "certain": place.certain if place else None,
                }
            )
        return facts


def find_wait_place(pid: int) -> WaitPlace | None:
    """`None` if unknown."""
    try:
        mounts = {mount.number: mount for mount in read_mounts(pid)}
        number = _mount_of_file(pid, _file_of_call(pid))
        if number in mounts:
            return WaitPlace(mounts[number], certain=True)
        with os.scandir(f"/proc/{pid}/fd") as entries:
            numbers = {_mount_of_file(pid, entry.name) for entry in islice(entries, MAX_FILES)}
    except OSError:
        return None
    used = {mounts[number] for number in numbers if number in mounts}
    # Its working directory counts too: it is on the last of the deepest mount points above it.
    folder = read_link(f"/proc/{pid}/cwd")
    above = [mount for mount in mounts.values() if folder and f"{folder}/".startswith(f"{mount.point.rstrip('/')}/")]
    if above:
        used.add(max(above, key=lambda mount: (len(mount.point), mount.number)))
    remote = [mount for mount in used if mount.kind not in LOCAL and mount.kind not in _OF_KERNEL]
    return WaitPlace(remote[0], certain=False) if len(remote) == 1 else None


def _file_of_call(pid: int) -> str | None:
    """The number of the file that its system call works on, from /proc/PID/syscall; `None` if there is none, or if we may not read it."""
    try:
        words = read(f"/proc/{pid}/syscall", 256).split()
    except OSError:
        return None
    if len(words) < 2 or not words[0].isdigit() or int(words[0]) not in _OF_FILE.get(os.uname().machine, ()):
        return None
    return str(int(words[1], 16))


def _mount_of_file(pid: int, name: str | None) -> int | None:
    """The mount number of an open file, given by its number."""
    if name is None:
        return None
    try:
        lines = read(f"/proc/{pid}/fdinfo/{name}", 1024).split(b"\n")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"mnt_id:")), None)


_OF_KERNEL = frozenset((
    "anon_inodefs", "autofs", "bdev", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "pipefs", "proc", "pstore", "securityfs", "sockfs", "squashfs", "sysfs", "tracefs",
))  # fmt: skip
"""File systems of the kernel itself, and of images. All that are neither here nor in LOCAL need a server: another host, or FUSE."""
