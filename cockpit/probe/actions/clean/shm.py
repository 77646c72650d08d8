"""Removes files in /dev/shm that Ray, vLLM, PyTorch, NCCL or Python's multiprocessing left and that no process uses any more.

The kernel knows whether a process has a file open or mapped, in any container or PID namespace: only if none has, it gives a write lease,
and it breaks the lease when a process opens the file before it is removed. Without a lease, as always before Linux 5.3, the file stays.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from contextlib import contextmanager
from typing import Iterator, NamedTuple

from ...sample.known_files import SHM_NAMES
from ...sample.processes import ProcessTable
from ...sample.tree import file_id
from ...trust import open_fd, own_uids
from ..host_state import HostState, Target
from .request import Cleaning, CleanRefusedError, file_target, not_ours

SHM_FOLDER = "/dev/shm"  # noqa: S108 a fixed place
MAX_FILES = 5000
"""Files checked in one clean-up: any user may create any number of files there."""
MIN_AGE_S = 60.0
"""A younger file stays, because its maker may be about to pass it to another process."""


class Leftover(NamedTuple):
    """One file in /dev/shm with a known name."""

    name: str
    status: os.stat_result
    what: str
    pid: int | None
    """The pid of its maker, if the name has it; in the maker's own PID namespace."""


def plan(cleaning: Cleaning, state: HostState) -> None:
    """Adds the files that no process uses to the plan, and a note with the number of used files."""
    try:
        with open_fd(SHM_FOLDER) as folder:
            there = sorted(leftovers(folder), key=lambda found: found.status.st_uid not in own_uids())
            judged = [(found, is_used(folder, found)) for found in there[:MAX_FILES]]
    except OSError:
        return  # there is no /dev/shm, or we may not read it
    if there[MAX_FILES:]:
        cleaning.note(
            f"{len(there) - MAX_FILES:,} more such files in {SHM_FOLDER} were not checked: those of root and of your user come first"
        )
    for found, used in judged:
        if not used:
            target = file_target("shm", f"{SHM_FOLDER}/{found.name}", found.status)
            target.update(size=found.status.st_blocks * 512, why=[f"{found.what} that no process has open or mapped"])
            unknown = "unknown here whether a process uses it" if used is None else None
            cleaning.add_target(target, why_kept(found, state.table) or unknown)
    in_use = sum(used is True for _, used in judged)
    if in_use:
        cleaning.note(f"files of Ray or its engines in {SHM_FOLDER} that are in use and are kept: {in_use}")


def do(cleaning: Cleaning, target: Target) -> str:
    """Removes one file, and returns the outcome. Raises `CleanRefusedError`, `OSError`."""
    try:
        with open_fd(SHM_FOLDER) as folder:
            found = leftover(folder, os.path.basename(target["path"])) if os.path.dirname(target["path"]) == SHM_FOLDER else None
            if found is None or file_id(found.status) != (target["device"], target["inode"]):
                raise CleanRefusedError("it is gone or was replaced")
            reason = why_kept(found, cleaning.scanner.recent().table)
            if reason is not None:
                raise CleanRefusedError(reason)
            cleaning.answer["freed"]["shm"] += remove(folder, found)
    except BlockingIOError as error:
        raise CleanRefusedError("a process has it open or mapped now") from error
    return "removed"


def leftovers(folder: int) -> Iterator[Leftover]:
    """All files with a known name in this open folder, used or not."""
    for name in sorted(os.listdir(folder)):
        found = leftover(folder, name)
        if found is not None:
            yield found


def leftover(folder: int, name: str) -> Leftover | None:
    """`None` if its name is unknown, if it is no regular file, or if it is gone."""
    match, what = next(((match, what) for pattern, what in SHM_NAMES for match in [pattern.match(name)] if match), (None, ""))
    if match is None:
        return None
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # it is gone, or it is a mount of another user that nobody else may read
        return None
    pid = match.groupdict().get("pid")
    return Leftover(name, status, what, int(pid) if pid else None) if stat.S_ISREG(status.st_mode) else None


def why_kept(found: Leftover, table: ProcessTable) -> str | None:
    """The reason for not removing an unused file, or `None`."""
    age = time.time() - found.status.st_mtime
    if age < MIN_AGE_S:
        return f"it was written {max(0.0, age):.0f} s ago: a process may be about to open it"
    maker = next((pid for pid, one in table.items() if found.pid in (pid, *one.details.pids) and one.alive), None) if found.pid else None
    if maker is not None:
        return f"process {maker}, whose pid is in its name, is running"
    return not_ours(found.status.st_uid, table)


@contextmanager
def take_lease(folder: int, found: Leftover) -> Iterator[int]:
    """Opens the file and takes a lease, by which the kernel confirms that no other process has it open or mapped.

    A process that wants to open it waits until the lease ends. Raises `OSError`: `EAGAIN` if a process has it open or mapped.
    """
    with open_fd(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, folder) as file:
        if file_id(os.fstat(file)) != file_id(found.status):
            raise FileNotFoundError(2, "it was replaced")
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # the signal that the kernel sends when a process opens the file; it is ignored
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield file


def is_lease_held(lease: int) -> bool:
    """Whether the lease still holds, because no process has begun to open the file."""
    return fcntl.fcntl(lease, fcntl.F_GETLEASE) == fcntl.F_WRLCK


def is_used(folder: int, found: Leftover) -> bool | None:
    """Whether a process has it open or mapped; `None` if the kernel does not know."""
    try:
        with take_lease(folder, found):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return None


def remove(folder: int, found: Leftover) -> int:
    """Removes the file, and returns the freed bytes. Raises `OSError`: `EAGAIN` if a process has it open or mapped."""
    with take_lease(folder, found) as lease:
        if not is_lease_held(lease) or file_id(os.stat(found.name, dir_fd=folder, follow_symlinks=False)) != file_id(found.status):
            raise BlockingIOError(11, "a process has just opened it")
        os.unlink(found.name, dir_fd=folder)
    return found.status.st_blocks * 512 if found.status.st_nlink == 1 else 0
