"""What Ray, vLLM, PyTorch, NCCL and Python's multiprocessing have left in /dev/shm: files of theirs that nobody uses any more.

That nobody has a file open or mapped is asked of the kernel: it gives a write lease only then, whatever container or PID namespace a user
of the file may be in, and breaks it when somebody opens the file before it is removed. Where it gives none (before Linux 5.3, always) the
file stays.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from contextlib import contextmanager
from typing import Iterator, NamedTuple

from ...look.known_files import SHM_NAMES
from ...look.processes import ProcessTable
from ...look.tree import file_id
from ...trust import open_fd, own_uids
from ..host_state import HostState, Target
from .request import Cleaning, CleanRefusedError, file_target, not_ours

PLACE = "/dev/shm"  # noqa: S108 a fixed place
MAX_FILES = 5000
"""Files that are looked at in one clean-up: everybody may put as many there as he likes."""
MIN_AGE_S = 60.0
"""Seconds for which a file is left to whoever may still hand it to somebody else."""


class Leftover(NamedTuple):
    """One file there with a name that is known."""

    name: str
    status: os.stat_result
    what: str
    pid: int | None
    """Whoever made it, where the name says so; as its own PID namespace counts."""


def plan(cleaning: Cleaning, look: HostState) -> None:
    """All that nobody uses, and of what is used how much there is."""
    try:
        with open_fd(PLACE) as folder:
            there = sorted(leftovers(folder), key=lambda found: found.status.st_uid not in own_uids())
            judged = [(found, is_used(folder, found)) for found in there[:MAX_FILES]]
    except OSError:
        return  # no /dev/shm here, or not ours to read
    if there[MAX_FILES:]:
        cleaning.note(f"{len(there) - MAX_FILES:,} more such files in {PLACE} were not checked: those of root and of your user come first")
    for found, used in judged:
        if not used:
            target = file_target("shm", f"{PLACE}/{found.name}", found.status)
            target.update(size=found.status.st_blocks * 512, why=[f"{found.what} that no process has open or mapped"])
            cleaning.add_target(target, refusal(found, look.table) or ("unknown here whether a process uses it" if used is None else None))
    in_use = sum(used is True for _, used in judged)
    if in_use:
        cleaning.note(f"files of Ray or its engines in {PLACE} that are in use and are kept: {in_use}")


def do(cleaning: Cleaning, target: Target) -> str:
    """What became of it. Raises `CleanRefusedError`, `OSError`."""
    try:
        with open_fd(PLACE) as folder:
            found = leftover(folder, os.path.basename(target["path"])) if os.path.dirname(target["path"]) == PLACE else None
            if found is None or file_id(found.status) != (target["device"], target["inode"]):
                raise CleanRefusedError("it is gone or was replaced")
            reason = refusal(found, cleaning.scanner.recent().table)
            if reason is not None:
                raise CleanRefusedError(reason)
            cleaning.add_freed_bytes("shm", remove(folder, found))
    except BlockingIOError as error:
        raise CleanRefusedError("a process has it open or mapped now") from error
    return "removed"


def leftovers(folder: int) -> Iterator[Leftover]:
    """All files of a known name in that open folder, used or not."""
    for name in sorted(os.listdir(folder)):
        found = leftover(folder, name)
        if found is not None:
            yield found


def leftover(folder: int, name: str) -> Leftover | None:
    """`None`: its name is not known, it is no plain file, or it is gone."""
    match, what = next(((match, what) for pattern, what in SHM_NAMES for match in [pattern.match(name)] if match), (None, ""))
    if match is None:
        return None
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # gone, or a mount of another user's that lets nobody look
        return None
    pid = match.groupdict().get("pid")
    return Leftover(name, status, what, int(pid) if pid else None) if stat.S_ISREG(status.st_mode) else None


def refusal(found: Leftover, table: ProcessTable) -> str | None:
    """Why a file that nobody uses is not removed, or `None`."""
    young = time.time() - found.status.st_mtime
    if young < MIN_AGE_S:
        return f"it was written {max(0.0, young):.0f} s ago: a process may be about to open it"
    maker = next((pid for pid, one in table.items() if found.pid in (pid, *one.details.pids) and one.alive), None) if found.pid else None
    if maker is not None:
        return f"process {maker}, whose pid is in its name, is running"
    return not_ours(found.status.st_uid, table)


@contextmanager
def take_lease(folder: int, found: Leftover) -> Iterator[int]:
    """The file, open, with the kernel's word that nobody else has it open or mapped; in the end whoever waits to open it goes on.

    Raises `OSError`: `EAGAIN` when somebody has.
    """
    with open_fd(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, folder) as file:
        if file_id(os.fstat(file)) != file_id(found.status):
            raise FileNotFoundError(2, "it was replaced")
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # who opens it makes the kernel send this one, which is ignored
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield file


def holds(lease: int) -> bool:
    """Still: nobody has begun to open it."""
    return fcntl.fcntl(lease, fcntl.F_GETLEASE) == fcntl.F_WRLCK


def is_used(folder: int, found: Leftover) -> bool | None:
    """Whether somebody has it open or mapped; `None` when the kernel does not say."""
    try:
        with take_lease(folder, found):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return None


def remove(folder: int, found: Leftover) -> int:
    """The bytes that this has freed. Raises `OSError`: `EAGAIN` when somebody has it open or mapped."""
    with take_lease(folder, found) as lease:
        if not holds(lease) or file_id(os.stat(found.name, dir_fd=folder, follow_symlinks=False)) != file_id(found.status):
            raise BlockingIOError(11, "a process has just opened it")
        os.unlink(found.name, dir_fd=folder)
    return found.status.st_blocks * 512 if found.status.st_nlink == 1 else 0
