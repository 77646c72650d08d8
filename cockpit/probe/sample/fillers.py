"""Finds the largest logs, caches, checkpoints and other files on a disk that is nearly full, and the processes that have them open.

It counts a disk only while that is above MARK_SHARE: slowly, in a thread of its own, within limits of time and files. It never follows a
link, never enters another file system, and reads nothing of a file but its status.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ..trust import FOLDER, open_fd, own_uids
from .known_files import SHM, KnownFiles, KnownSession, recognize
from .proc import read_link
from .process_kinds import SessionFolder
from .processes import ProcessTable, ScannedProcess
from .sizes import CHECK_INTERVAL_S, PAUSE_EVERY_ENTRIES, PAUSE_S, RECOUNT_CHANGE_SHARE
from .tree import OTHER_MOUNT, FileId, MovedError, Walk, file_id, mounts, shown_path

MARK_SHARE = 0.8
"""A disk is counted while at least this share of it is in use. The marks of findings are higher, unless a user has lowered them."""
RECOUNT_INTERVAL_S = 120.0
REST_PER_CPU_S = 30.0
"""Seconds of rest for each second of CPU that a count took, if that is longer than RECOUNT_INTERVAL_S."""
MAX_ENTRIES, MAX_COUNT_S, MAX_DEPTH = 300_000, 40.0, 24
"""Limits of one count of one disk: files and folders, seconds, levels of folders. Files beyond these limits are not counted."""
ROOT_SHARE = 0.5
"""One root may use this share of the remaining files and seconds: a huge folder must not hide the folders that come after it."""
KEPT_INTERVALS = 3
"""The last answer is dropped after this many intervals without a new answer."""
MAX_FILLERS = 8
MIN_SHARE = 0.01
"""A filler that takes a smaller share of the disk is not reported."""
LARGE_FILE_SHARE = 0.05
"""An unknown file that takes at least this share of the disk is reported alone, not as a part of its folder."""
MAX_NAMED_DEPTH = 6
"""Each folder down to this level below a root has its own sum."""
MAX_SUMS = 50_000
"""Limit for the number of sums: over folders, and over known files that belong together."""
ONE_CHILD_SHARE = 0.9
"""A folder that holds at least this share of the folder above it is named instead of that folder."""
MAX_WORKING_DIRS, MAX_PROCESSES, MAX_OPEN_FILES = 64, 2000, 4000
"""Limits: working directories that are counted, processes whose open files are read, open files of each process."""
OPEN_FILES_CPU_S = 2.0
"""Limit of the CPU time for reading the open files of all processes."""
COUNTED = "it was counted already"
COMMON_ROOTS = ("/root", "/home", "/tmp", "/var/tmp", "/data", "/mnt")  # noqa: S108 fixed places


class Filler(NamedTuple):
    """Files that belong together and take much of a disk."""

    files: KnownFiles
    size: int
    """Bytes on disk."""
    number: int
    """The number of files."""
    uid: int
    """The owner of the largest file."""
    holder: int | None = None
    """The pid of a process that has one of the files open, works in their folder, or has their path in its command; one of Ray's first."""


class FilledDisk(NamedTuple):
    """The largest fillers of one disk."""

    fillers: Tuple[Filler, ...] = ()
    is_whole: bool = False
    """All files on the disk that we may read were counted."""
    started_at: float = 0.0
    """The start of the count, by the monotonic clock."""


class _LastCount(NamedTuple):
    """The last count of a disk; times are of the monotonic clock."""

    found: FilledDisk | None
    """`None`: the disk could not be read."""
    share: float
    """The share of the disk that was in use."""
    due: float
    """The time of the next count."""
    kept_until: float


class Fillers:
    """Counts the nearly full disks, one after the other."""

    def __init__(self, table: Callable[[], ProcessTable], sleep: Callable[[float], None] = time.sleep) -> None:
        self._table, self._sleep = table, sleep
        self._wanted: Mapping[str, float] = {}
        self._temps: Tuple[str, ...] = ()
        self._sessions: Tuple[SessionFolder, ...] = ()
        self._counts: Mapping[str, _LastCount] = {}
        """By the path of a disk."""
        self._wake = threading.Event()

    def known(self) -> Mapping[str, FilledDisk]:
        """The answers by the path of a disk, without disks that can't be read now, and without answers that are too old."""
        now = time.monotonic()
        return {path: count.found for path, count in self._counts.items() if count.found is not None and now < count.kept_until}

    def want(self, disks: Iterable[Mapping[str, Any]], temps: Sequence[str], sessions: Iterable[SessionFolder] = ()) -> None:
        """Sets the disks to count: from now on only disks of `disks` (`path`, `used`, `total`) above MARK_SHARE.

        `temps` are Ray's temporary folders, `sessions` the sessions of this host.
        """
        shares = {disk["path"]: disk["used"] / disk["total"] for disk in disks if disk["used"] and disk["total"]}
        wanted = {path: share for path, share in shares.items() if share >= MARK_SHARE}
        self._temps, self._sessions = tuple(temps), tuple(sessions)
        if wanted.keys() != self._wanted.keys():
            self._counts = {path: count for path, count in self._counts.items() if path in wanted}
            self._wake.set()
        self._wanted = wanted

    def start(self) -> None:
        """Starts the thread that counts; called once."""
        threading.Thread(target=self._run, name="fillers", daemon=True).start()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # Linux applies this to the calling thread only
        while True:
            for path, share in dict(self._wanted).items():
                last = self._counts.get(path)
                if last is None or time.monotonic() >= last.due or abs(share - last.share) >= RECOUNT_CHANGE_SHARE:
                    self._count(path, share)
            self._wake.wait(CHECK_INTERVAL_S)
            self._wake.clear()

    def _count(self, path: str, share: float) -> None:
        before = time.thread_time()
        found: FilledDisk | None
        try:
            found = count_disk(path, self._temps, self._table(), self._sleep, self._sessions)
        except OSError:
            found = None  # it was unmounted, or we may not read it
        interval = max(RECOUNT_INTERVAL_S, REST_PER_CPU_S * (time.thread_time() - before))
        now = time.monotonic()
        if path in self._wanted:
            self._counts = {**self._counts, path: _LastCount(found, share, now + interval, now + KEPT_INTERVALS * interval)}


def count_disk(
    path: str,
    temps: Iterable[str],
    table: ProcessTable,
    sleep: Callable[[float], None] = time.sleep,
    sessions: Iterable[SessionFolder] = (),
) -> FilledDisk:
    """The largest fillers of the disk at `path`. `temps` are Ray's temporary folders, `sessions` this host's sessions. Raises `OSError`."""
    started_at = time.monotonic()
    place, status = os.path.realpath(path), os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    with open_fd(place) as folder:
        device = os.fstat(folder).st_dev
    mount = max((one.point for one in mounts() if _is_in(place, one.point)), key=len, default="/")
    # The walk shows paths without links, so the folders of sessions are compared without links too.
    owners = {os.path.realpath(session.path): session.uid for session in sessions if session.uid is not None}
    known_sessions = {folder: KnownSession(uid, uid in own_uids()) for folder, uid in owners.items()}
    counter = _DiskCounter(device, total, sleep, known_sessions)
    for root in _roots(mount, temps, table):
        counter.add_root(root, 1.0 if root == mount else ROOT_SHARE)
    counter.add_deleted(mount, table)
    large = [filler for filler in counter.fillers() if filler.size >= MIN_SHARE * total]
    largest = tuple(sorted(large, key=lambda filler: -filler.size)[:MAX_FILLERS])
    return FilledDisk(_with_holders(largest, table), counter.is_whole, started_at)


def describe_disk(path: str, found: FilledDisk, table: ProcessTable, name: Callable[[int], str | None]) -> Dict[str, Any]:
    """The disk at `path` as a part of a sample; `name` returns the name of a user."""
    fillers = []
    for filler in found.fillers:
        files, holder = filler.files, table.get(filler.holder) if filler.holder is not None else None
        fillers.append(
            {
                "kind": files.kind,
                "path": shown_path(files.path),
                "size": filler.size,
                "files": filler.number,
                "name": shown_path(files.name) or None,
                "job": shown_path(files.job) or None,
                "worker": files.pid,
                "session": files.session or None,
                "user": name(filler.uid),
                "pid": filler.holder,
                "command": holder and holder.command[:200],
            }
        )
    seen = time.time() - (time.monotonic() - found.started_at)
    return {"path": path, "seen": round(seen, 1), "whole": found.is_whole, "fillers": fillers}


def _is_in(path: str, folder: str) -> bool:
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def _roots(mount: str, temps: Iterable[str], table: ProcessTable) -> Iterator[str]:
    """The folders to count, in order: those that probably hold most come first, the mount point, which contains all of them, last."""
    if mount != SHM:
        yield from map(os.path.realpath, temps)
        # The working directories of Ray's processes. Other users' processes, and those with other mounts, may not choose what we count.
        trusted = (
            process
            for process in table.values()
            if _is_rays(process) and process.details.uid in own_uids() and process.details.mount_namespace is None
        )
        links = (read_link(f"/proc/{process.pid}/cwd") for process in trusted)
        yield from islice(dict.fromkeys(link for link in links if link and link != "/"), MAX_WORKING_DIRS)
        yield from map(os.path.realpath, COMMON_ROOTS)
    yield mount


def _is_rays(process: ScannedProcess) -> bool:
    return process.origin.from_ray or process.origin.role is not None


class _Sum:
    """The sum of some files."""

    def __init__(self) -> None:
        self.size, self.number = 0, 0
        self.largest, self.uid = -1, -1
        """The size of the largest file, and its owner."""

    def add(self, size: int, uid: int) -> None:
        self.size += size
        self.number += 1
        if size > self.largest:
            self.largest, self.uid = size, uid


class _DiskCounter:
    """Adds up the sizes of the files below some folders of one disk."""

    def __init__(self, device: int, total: int, sleep: Callable[[float], None], sessions: Mapping[str, KnownSession]) -> None:
        self.is_whole = True
        self._device, self._total, self._sleep, self._sessions = device, total, sleep, sessions
        self._until = time.monotonic() + MAX_COUNT_S
        self._entries = 0
        self._root_until, self._root_entries = self._until, float(MAX_ENTRIES)
        """The limits for the root that is counted at the moment."""
        self._roots: List[str] = []
        self._counted_roots: Set[FileId] = set()
        self._linked: Set[int] = set()
        """Inodes of files with several names: each file is counted once."""
        self._known: Dict[KnownFiles, _Sum] = {}
        self._folders: Dict[str, _Sum] = {}
        """Sums of unknown files by every folder above them. The sum of a root has only the files that lie directly in it."""

    def add_root(self, root: str, share: float) -> None:
        """Counts the files below `root` that are on this disk and not counted yet, with this share of the remaining time and files."""
        if any(_is_in(root, other) for other in self._roots):
            return
        now = time.monotonic()
        self._root_until = now + share * (self._until - now)
        self._root_entries = self._entries + share * (MAX_ENTRIES - self._entries)
        if self._is_over_limit():
            self.is_whole = False
            return
        try:
            with open_fd(root, FOLDER) as top:
                status = os.fstat(top)
                if status.st_dev != self._device:
                    return
                self._count_below("" if root == "/" else root, top)
                self._counted_roots.add(file_id(status))
        except FileNotFoundError:
            return
        except (MovedError, OSError):
            self.is_whole = False
        self._roots.append(root)

    def _count_below(self, root: str, top: int) -> None:
        """Counts all files below `root`, whose descriptor is `top`, until a limit is reached."""

        def may_enter(path: str) -> bool:
            is_too_deep = path.count("/") >= MAX_DEPTH
            self.is_whole = self.is_whole and not is_too_deep
            return not is_too_deep

        def on_trouble(_path: str, why: str) -> None:
            self.is_whole = self.is_whole and why in (COUNTED, OTHER_MOUNT)

        def why_not(_path: str, status: os.stat_result) -> str | None:
            return COUNTED if file_id(status) in self._counted_roots else None

        for entry in Walk(top, may_enter, on_trouble, why_not=why_not):
            self._entries += 1
            if self._entries % PAUSE_EVERY_ENTRIES == 0:
                self._sleep(PAUSE_S)
            if self._is_over_limit():
                self.is_whole = False
                return
            status = entry.status
            if not stat.S_ISREG(status.st_mode) or not status.st_blocks:
                continue
            if status.st_nlink > 1:
                if status.st_ino in self._linked:
                    continue
                self._linked.add(status.st_ino)
            path, size = f"{root}/{entry.path}", status.st_blocks * 512
            files = recognize(path, status.st_uid, self._sessions)
            if files is None and size >= LARGE_FILE_SHARE * self._total:
                files = KnownFiles("file", path)
            if files is not None:
                self._known.setdefault(files, _Sum()).add(size, status.st_uid)
                continue
            names = entry.path.split("/")[:-1]
            folders = [f"{root}/{'/'.join(names[:depth])}" for depth in range(1, min(len(names), MAX_NAMED_DEPTH) + 1)]
            for folder in folders or [root or "/"]:
                self._folders.setdefault(folder, _Sum()).add(size, status.st_uid)

    def _is_over_limit(self) -> bool:
        is_spent = self._entries >= self._root_entries or time.monotonic() > self._root_until
        return is_spent or len(self._known) + len(self._folders) > MAX_SUMS

    def add_deleted(self, mount: str, table: ProcessTable) -> None:
        """Counts files without a name: they take their space until the last process closes them."""
        met: Set[FileId] = set()
        for pid, handle, link in _open_files(table):
            if not link.endswith(" (deleted)") or not _is_in(link, mount) or link.startswith("/memfd:"):
                continue
            try:
                status = os.stat(f"/proc/{pid}/fd/{handle}")
            except OSError:
                continue
            if status.st_dev == self._device and stat.S_ISREG(status.st_mode) and not status.st_nlink and file_id(status) not in met:
                met.add(file_id(status))
                path = link[: -len(" (deleted)")]
                shared = recognize(path) if path.startswith(f"{SHM}/") else None
                files = shared or KnownFiles("deleted", path)
                self._known.setdefault(files._replace(pid=pid), _Sum()).add(status.st_blocks * 512, status.st_uid)

    def fillers(self) -> Iterator[Filler]:
        """Known files, and folders of unknown ones, in no order."""
        for files, known in self._known.items():
            yield Filler(files, known.size, known.number, known.uid, files.pid if files.kind in ("deleted", "shm") else None)
        for folder in _narrowest_folders(self._folders, self._roots):
            below = self._folders[folder]
            yield Filler(KnownFiles("folder", folder), below.size, below.number, below.uid)


def _narrowest_folders(sums: Mapping[str, _Sum], roots: Sequence[str]) -> Iterator[str]:
    """The folders that show best where the files are: a folder is replaced by a subfolder that holds nearly all of it, and so on."""
    children: Dict[str, List[str]] = {}
    for folder in sums:
        if folder != "/":
            children.setdefault(os.path.dirname(folder), []).append(folder)
    named = {root: None for root in roots if root in sums}
    for folder in (child for root in roots for child in children.get(root, ())):
        narrowest = folder
        while narrowest in children:
            largest = max(children[narrowest], key=lambda child: sums[child].size)
            if sums[largest].size < ONE_CHILD_SHARE * sums[narrowest].size:
                break
            narrowest = largest
        named[narrowest] = None
    yield from named


# Processes that use the files


def _open_files(table: ProcessTable) -> Iterator[Tuple[int, str, str]]:
    """The pid, descriptor and path of every open file of the processes in our mount namespace; files of Ray's processes come first."""
    until = time.thread_time() + OPEN_FILES_CPU_S
    processes = [process for process in table.values() if process.alive and process.details.mount_namespace is None and not process.kernel]
    for process in sorted(processes, key=lambda one: not _is_rays(one))[:MAX_PROCESSES]:
        if time.thread_time() > until:
            return
        folder = f"/proc/{process.pid}/fd"
        try:
            names = os.listdir(folder)[:MAX_OPEN_FILES]
        except OSError:
            continue  # the process has ended, or we may not read it
        links = ((name, read_link(f"{folder}/{name}")) for name in names)
        yield from ((process.pid, name, link) for name, link in links if link and link.startswith("/"))


def _with_holders(fillers: Tuple[Filler, ...], table: ProcessTable) -> Tuple[Filler, ...]:
    """The fillers, each with a process that uses it, if one is found."""
    found: Dict[str, int] = {}
    # A process that has a file open. In the folders of these kinds some process always has a file open, which explains nothing.
    kinds = ("shm", "folder", "session", "runtime_env")
    paths = {filler.files.path for filler in fillers if filler.holder is None and filler.files.kind not in kinds}
    for pid, _, link in _open_files(table) if paths else ():
        for path in paths - found.keys():
            if _is_in(link, path):
                found[path] = pid
    # Else a process that works in the folder, or has the path in its command. A path such as /data is too short to prove that.
    named = {filler.files.path for filler in fillers if filler.files.kind in ("checkpoints", "wandb", "cache", "spilled")}
    named = {path for path in named if path.count("/") >= 2}
    for process in sorted(table.values(), key=lambda one: not _is_rays(one)):
        missing = named - found.keys()
        if not missing:
            break
        if not process.alive or process.kernel or process.details.mount_namespace is not None:
            continue
        working_dir = read_link(f"/proc/{process.pid}/cwd")
        for path in missing:
            in_word = any(path in word for word in process.details.argv)
            in_command = in_word and re.search(rf"{re.escape(path)}(?![\w.-])", process.command)
            if in_command or (working_dir is not None and _is_in(working_dir, path)):
                found[path] = process.pid
    return tuple(filler if filler.holder is not None else filler._replace(holder=found.get(filler.files.path)) for filler in fillers)
