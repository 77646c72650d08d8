"""What torchrun has left in /tmp: the folders of its logs, of which it removes none.

Its agent makes `torchelastic_XXXXXXXX` with mkdtemp, for its owner alone, and in it `RUN_XXXXXXXX/attempt_N/RANK` with the files of each
rank (torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs). A folder of that name in which anything else lies is somebody's
own. Neither the agent nor its ranks need to have a file of it open; so it stays while a process of ours has PyTorch loaded that was there
when it was written to last, beside all that shows itself to the kernel as a user of one of its files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from ...look.proc import TICKS_PER_SECOND, boot_time, in_first_namespace, read, read_link
from ...look.processes import ScannedProcess, read_environ
from ...look.sizes import TORCHRUN_NAME, TORCHRUN_PLACE
from ...look.tree import FolderEntry, MovedError, Walk, encode_path, mount_number, mounts, place, why_shared
from ...trust import FOLDER, own_uids, why_changeable
from ..host_state import HostState, Target
from .request import Cleaning, CleanRefusedError, FailedError, file_target, not_ours
from .shm import Leftover, is_used
from .shm import remove as remove_file

MOST = 1000
"""Folders that are looked at in one clean-up: everybody may put as many there as he likes."""
MOST_ENTRIES, MOST_ENTRIES_IN_ALL = 20_000, 100_000
"""In one of them, ranks by attempts; and in all that one clean-up plans."""
MOST_LINKS_OF_OTHERS = 1000
"""Open files of another user's process that are looked at: our folders are closed to him, and his stay while any process of his runs."""
QUIET = 600.0
"""Seconds for which nothing was written, and after a folder was written to for which a process that is started may be one of its ranks."""
HIDDEN = frozenset(("systemd", "(sd-pam)", "sshd", "sshd-session", "ssh-agent", "sudo", "su", "tini", "dumb-init"))
"""Programs of ours that nobody without more rights may look into, and that never have PyTorch loaded."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NAMED = re.compile(r"\btorchelastic_[a-z0-9_]{8}(?![a-z0-9_])")
_FOLDERS = re.compile(r"[^/]+_[a-z0-9_]{8}(/attempt_\d+(/\d+)?)?$")
_FILES = re.compile(r"[^/]+_[a-z0-9_]{8}/attempt_\d+/(\d+/(stdout\.log|stderr\.log|error\.json)|filtered_(stdout|stderr)\.log)$")


class _Uses(NamedTuple):
    """What processes show of their use of such folders."""

    named: Mapping[str, str]
    """By a folder's name: who uses it."""
    oldest: Tuple[float, str] | None
    """Since when the oldest process runs that may use any, and why it may."""

    def why(self, name: str, newest: float) -> str | None:
        """Why a folder that was written to last at that moment stays, or `None`."""
        if name in self.named:
            return self.named[name]
        return self.oldest[1] if self.oldest is not None and self.oldest[0] <= newest + QUIET else None


class _Inside(NamedTuple):
    """What lies in such a folder."""

    size: int
    newest: float


def plan(cleaning: Cleaning, look: HostState) -> None:
    """Root's and ours first."""
    try:
        parent = _open_place()
    except OSError:
        return  # no /tmp here, or not ours to read
    try:
        there = sorted(_find(parent), key=lambda found: found[1].st_uid not in own_uids())
        uses, allowed = _see_uses(look) if there else _Uses({}, None), count()
        for name, status in there[:MOST]:
            _plan_one(cleaning, look, uses, parent, name, status, allowed)
    finally:
        os.close(parent)
    if there[MOST:]:
        cleaning.note(f"{len(there) - MOST:,} more folders of torchrun in {TORCHRUN_PLACE} were not checked: root's and ours come first")


def _open_place() -> int:
    """Raises `OSError` also where others than root and we may put something else in the place of what lies there."""
    reason = why_changeable(TORCHRUN_PLACE, os.geteuid())
    if reason is not None:
        raise OSError(errno.EPERM, reason)
    return os.open(TORCHRUN_PLACE, FOLDER)


def _find(parent: int) -> Iterator["tuple[str, os.stat_result]"]:
    for name in sorted(filter(TORCHRUN_NAME.match, os.listdir(parent))):
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:  # gone, or a mount of another user's that lets nobody look
            continue
        if stat.S_ISDIR(status.st_mode):
            yield name, status


def _plan_one(
    cleaning: Cleaning, look: HostState, uses: _Uses, parent: int, name: str, status: os.stat_result, looked_at: Iterator[int]
) -> None:
    target = {**file_target("torchrun", f"{TORCHRUN_PLACE}/{name}", status), "size": None}
    try:
        with _opened(parent, name, status.st_dev, status.st_ino) as folder:
            inside = _judge(look, uses, folder, name, looked_at)
            why = ["logs of torchrun; no process that could have made or used them is running"]
            target.update(size=inside.size, age=round(max(0.0, time.time() - inside.newest), 1), why=why)
    except CleanRefusedError as error:
        cleaning.agree(target, str(error))
    except (OSError, MovedError) as error:
        cleaning.agree(target, f"it can't be looked at: {error}")
    else:
        cleaning.agree(target, None)


def do(cleaning: Cleaning, target: Target) -> str:
    """What became of it. Raises `CleanRefusedError`, `FailedError`, `MovedError`, `OSError`."""
    place_of, name = os.path.split(target["path"])
    if place_of != TORCHRUN_PLACE or not TORCHRUN_NAME.match(name):
        raise CleanRefusedError("not a folder of torchrun")
    parent = _open_place()
    try:
        with _opened(parent, name, target["device"], target["inode"]) as folder:
            look = cleaning.watcher.recent()
            _judge(look, _see_uses(look), folder, name, count())
            _empty(cleaning, folder)
            if place(os.stat(name, dir_fd=parent, follow_symlinks=False)) != place(os.fstat(folder)):
                raise FailedError("it was replaced")
            os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)
    return "removed"


@contextmanager
def _opened(parent: int, name: str, device: int, inode: int) -> Iterator[int]:
    """Held open: whatever is put in its place meanwhile, this is what was looked at."""
    try:
        folder = os.open(name, FOLDER, dir_fd=parent)
    except OSError as error:
        raise CleanRefusedError("it is gone or was replaced") from error
    try:
        if place(os.fstat(folder)) != (device, inode):
            raise CleanRefusedError("it is gone or was replaced")
        yield folder
    finally:
        os.close(folder)


def _judge(look: HostState, uses: _Uses, folder: int, name: str, looked_at: Iterator[int]) -> _Inside:
    """Raises `CleanRefusedError`: why it stays."""
    status = os.fstat(folder)
    reason = not_ours(status.st_uid, look.forest) or why_shared(folder) or _why_outside(folder)
    if reason is None and status.st_mode & OTHERS_WRITE:
        reason = "others than its owner may write to it"
    reason = reason or _why_young(status.st_mtime)
    if reason is not None:
        raise CleanRefusedError(reason)
    inside = _look_inside(folder, status, looked_at)
    reason = _why_young(inside.newest) or uses.why(name, inside.newest)
    if reason is not None:
        raise CleanRefusedError(reason)
    return inside


def _why_young(written: float) -> str | None:
    silent = time.time() - written
    return f"it was written {max(0.0, silent):.0f} s ago: torchrun may still use it" if silent < QUIET else None


def _why_outside(folder: int) -> str | None:
    """Why processes that can't be seen from here may use it, or `None`: nobody else has the root of a container."""
    if in_first_namespace():
        return None
    number = mount_number(folder)
    own = any(mount.number == number and (mount.point, mount.kind) == ("/", "overlay") for mount in mounts())
    return None if own else "processes outside of this container may use it, which can't be seen from here"


def _look_inside(folder: int, top: os.stat_result, looked_at: Iterator[int]) -> _Inside:
    """Raises `CleanRefusedError` where there is anything that torchrun doesn't make, or a file in use. `looked_at` counts all entries."""
    size, newest = 0, top.st_mtime
    unread: Dict[str, str] = {}
    for number, entry in enumerate(Walk(folder, trouble=unread.__setitem__)):
        too_many = number >= MOST_ENTRIES or next(looked_at) >= MOST_ENTRIES_IN_ALL
        reason = (
            "too many files to check in this and the folders before it" if too_many else _why_strange(entry, top.st_uid) or _why_open(entry)
        )
        if reason is not None:
            raise CleanRefusedError(reason)
        newest = max(newest, entry.status.st_mtime)
        size += 0 if entry.is_folder else entry.status.st_blocks * 512
    if unread:
        path, text = next(iter(unread.items()))
        raise CleanRefusedError(f"{encode_path(path) or 'it'} can't be read: {text}")
    return _Inside(size, newest)


def _why_strange(entry: FolderEntry, uid: int) -> str | None:
    status = entry.status
    known = (_FOLDERS.match(entry.path) if entry.is_folder else _FILES.match(entry.path)) is not None
    if not known or not (entry.is_folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
        return f"it holds {encode_path(entry.path)}, which torchrun does not make"
    return None if status.st_uid == uid else f"it holds {encode_path(entry.path)} of another user"


def _why_open(entry: FolderEntry) -> str | None:
    used = False if entry.is_folder else is_used(entry.folder, _leftover(entry))
    if used is None:
        return "not known here whether a process uses it"
    return f"a process has {encode_path(entry.path)} open or mapped" if used else None


def _leftover(entry: FolderEntry) -> Leftover:
    return Leftover(entry.name, entry.status, "a log of torchrun", None)


def _see_uses(look: HostState) -> _Uses:
    """Only our own processes are looked into: another user's folder is not removed while he has any, and they may hang."""
    named: Dict[str, str] = {}
    torch: List[Tuple[float, str]] = []
    for pid, process in look.forest.items():
        if not process.alive or process.kernel or pid == os.getpid():
            continue
        most = None if process.details.uid in own_uids() else MOST_LINKS_OF_OTHERS
        named.update(dict.fromkeys(_names_in(islice(_links(pid), most)), f"process {pid} works in it or has a part of it open"))
        if process.details.uid in (os.geteuid(), None):
            named.update(dict.fromkeys(_names_in(_variables(process)), f"process {pid} was told to write there"))
            torch += [(boot_time() + process.ticks / TICKS_PER_SECOND, why) for why in [_why_rank(process)] if why]
    return _Uses(named, min(torch, default=None))


def _names_in(texts: Iterable[str]) -> Iterator[str]:
    return (name for text in texts for name in _NAMED.findall(text))


def _variables(process: ScannedProcess) -> Iterable[str]:
    return () if process.details.stuck else (read_environ(process.pid) or {}).values()


def _why_rank(process: ScannedProcess) -> str | None:
    """Why it may be torchrun's agent or one of its ranks, or `None`."""
    try:
        if process.details.stuck:
            return f"process {process.pid} hangs: not known whether it uses this folder"
        has_torch = b"/libtorch" in read(f"/proc/{process.pid}/maps")
    except PermissionError:
        return None if process.name in HIDDEN else f"no permission to inspect process {process.pid}: not known whether it uses this folder"
    except OSError:
        return None  # it has ended
    return f"process {process.pid} has PyTorch loaded and was running at the last write to this folder" if has_torch else None


def _links(pid: int) -> Iterator[str]:
    paths = [f"/proc/{pid}/{what}" for what in ("cwd", "root")]
    with suppress(OSError):  # it has ended, or is not ours to look into
        paths += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
    yield from filter(None, map(read_link, paths))


def _empty(cleaning: Cleaning, folder: int) -> None:
    """Entry by entry, by descriptors; the kernel says of each file once more that nobody uses it."""
    uid = os.fstat(folder).st_uid
    unread: Dict[str, str] = {}
    walk = Walk(folder, trouble=unread.__setitem__)
    for entry in walk:
        walk.still_there()
        reason = _why_strange(entry, uid)
        if reason is not None:
            raise FailedError(f"stopped midway: {reason}")
        if entry.is_folder:
            os.rmdir(entry.name, dir_fd=entry.folder)
            continue
        try:
            cleaning.free("disk", remove_file(entry.folder, _leftover(entry)))
        except BlockingIOError as error:
            raise FailedError(f"stopped midway: a process has just opened {encode_path(entry.path)}") from error
    if unread:
        raise FailedError(f"stopped midway: {encode_path(next(iter(unread)))} can't be read")
