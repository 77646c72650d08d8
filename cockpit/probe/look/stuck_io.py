"""What processes wait for that stay in the kernel (D state): the function they wait in, and the file system of the file that they work on.

Nothing of this touches that file system: links and numbers of mounts are what the kernel knows of an open file.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Set

from .. import trust
from .proc import make_legible, read_at_once, read_link
from .processes import Identity, ProcessTable, ScannedProcess
from .tree import LOCAL, Mount, read_mounts

MOST_STUCK = 32
MOST_FILES = 512
"""Open files of a process that are looked at."""
_OF_FILE = {
    "x86_64": frozenset((0, 1, 5, 8, 16, 17, 18, 19, 20, 32, 40, 72, 73, 74, 75, 76, 77, 78, 81, 217, 285, 295, 296, 326)),
    "aarch64": frozenset((25, 29, 32, 46, 47, 50, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 80, 82, 83, 285)),
}
"""Numbers of system calls whose first argument is the file they work on: read, write, fstat, fsync, ftruncate, getdents and their kin
(arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h)."""
Fact = Dict[str, Any]


class WaitPlace(NamedTuple):
    """A file system on which a process may wait."""

    mount: Mount
    certain: bool
    """It is that of the file which its system call works on; else the only one of those it has open that a server must answer for."""


class StuckProcesses:
    """Looks again and again; who is seen in D state only once is not looked into."""

    def __init__(self) -> None:
        self._before: Set[Identity] = set()

    def read(self, table: ProcessTable) -> List[Fact]:
        """Those that are in D state now and were when this was asked last; of very many root's and ours first."""
        stuck = [process for process in table.values() if process.state == "D"]
        again = [process for process in stuck if process.identity in self._before]
        self._before = {process.identity for process in stuck}
        again.sort(key=lambda process: process.details.uid not in trust.own_uids())
        return [_fact(process) for process in again[:MOST_STUCK]]


def _fact(process: ScannedProcess) -> Fact:
    place = find_wait_place(process.pid)
    mount = place.mount if place else None
    return {
        "pid": process.pid,
        "ticks": process.ticks,
        "waits_in": _read_wait_function(process.pid),
        "mount": mount and make_legible(mount.point),
        "kind": mount and make_legible(mount.kind),
        "source": mount and make_legible(mount.source),
        "certain": place.certain if place else None,
    }


def _read_wait_function(pid: int) -> str | None:
    """The kernel's function; `None`: not told, as where only root is."""
    try:
        word = read_at_once(f"/proc/{pid}/wchan", 128).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return word if word not in ("", "0") else None


def find_wait_place(pid: int) -> WaitPlace | None:
    """`None`: that can't be told."""
    try:
        mounts = {mount.number: mount for mount in read_mounts(pid)}
        number = _mount_of_file(pid, _file_of_call(pid))
        if number in mounts:
            return WaitPlace(mounts[number], certain=True)
        with os.scandir(f"/proc/{pid}/fd") as entries:
            numbers = {_mount_of_file(pid, entry.name) for entry in islice(entries, MOST_FILES)}
    except OSError:
        return None
    remote = {mounts[number] for number in numbers if number in mounts and _needs_server(mounts[number])}
    remote.update(mount for mount in _mount_of_folder(pid, mounts.values()) if _needs_server(mount))
    return WaitPlace(remote.pop(), certain=False) if len(remote) == 1 else None


def _file_of_call(pid: int) -> str | None:
    """The number of the file that its system call works on, as /proc/PID/syscall has it; `None`: none, or not ours to read."""
    try:
        words = read_at_once(f"/proc/{pid}/syscall", 256).split()
    except OSError:
        return None
    if len(words) < 2 or not words[0].isdigit() or int(words[0]) not in _OF_FILE.get(os.uname().machine, ()):
        return None
    return str(int(words[1], 16))


def _mount_of_file(pid: int, name: str | None) -> int | None:
    """Of an open file, by its number."""
    if name is None:
        return None
    try:
        lines = read_at_once(f"/proc/{pid}/fdinfo/{name}", 1024).split(b"\n")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"mnt_id:")), None)


def _mount_of_folder(pid: int, mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Of its working directory: the last of the deepest mount points above it."""
    folder = read_link(f"/proc/{pid}/cwd")
    above = [mount for mount in mounts if folder and f"{folder}/".startswith(f"{mount.point.rstrip('/')}/")]
    if above:
        yield max(above, key=lambda mount: (len(mount.point), mount.number))


def _needs_server(mount: Mount) -> bool:
    """Whether somebody else must answer: another host, or a program (FUSE)."""
    return mount.kind not in LOCAL and mount.kind not in _OF_KERNEL


_OF_KERNEL = frozenset((
    "anon_inodefs", "autofs", "bdev", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "pipefs", "proc", "pstore", "securityfs", "sockfs", "squashfs", "sysfs", "tracefs",
))  # fmt: skip
"""File systems of the kernel's own, and of images."""
