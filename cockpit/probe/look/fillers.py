"""What fills a disk that is nearly full: which logs, caches, checkpoints and other files are the largest, and who has them open.

It looks only while a disk is above its mark, slowly, in a thread of its own, for so many seconds and files at most. Links are never
followed, other file systems never entered, and of no file more is read than its size.
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
from .kinds import SessionFolder
from .known_files import SHM, KnownFiles, KnownSession, recognize
from .proc import read_link
from .processes import ProcessTable, ScannedProcess
from .sizes import CHECK_INTERVAL_S, PAUSE_EVERY_ENTRIES, PAUSE_S, RECOUNT_CHANGE_SHARE
from .tree import OTHER_MOUNT, FileId, MovedError, Walk, file_id, mounts, shown_path

MARK_SHARE = 0.8
"""Share of a disk in use from which on it is looked at; the least mark of findings is above it, unless a person has lowered that."""
RECOUNT_INTERVAL_S = 120.0
REST_PER_CPU_S = 30.0
"""Seconds of rest for each second of CPU that a look took, where that is longer."""
MOST_ENTRIES, MOST_SECONDS, DEEPEST = 300_000, 40.0, 24
"""Of one look at one disk: files and folders, seconds, and folders that lie in each other. What is beyond them is not counted."""
ROOT_SHARE = 0.5
"""Of the files and seconds that are left, the share that one root may use: a huge folder must not hide all that comes after it."""
KEPT_INTERVALS = 3
"""After so many intervals without a new answer the last one is dropped."""
MAX_FILLERS = 8
LEAST_SHARE = 0.01
"""Share of the disk that the least of them takes."""
LARGE_FILE_SHARE = 0.05
"""Share of the disk from which on a file that is not known is told of alone, and not with its folder."""
DEEPEST_NAMED = 6
"""Folders below a root of which each has a sum of its own."""
MOST_NAMED = 50_000
"""Of these folders, and of known files that belong together."""
ONE_CHILD_SHARE = 0.9
"""Share of a folder that one folder in it must hold, to be named instead of it."""
MOST_ROOTS, MOST_PROCESSES, MOST_OPEN = 64, 2000, 4000
"""Working directories that are looked into; processes, and open files of each, that are looked through."""
HOLDERS_SECONDS = 2.0
"""For looking through all of them."""
COUNTED = "it was counted already"
COMMON_ROOTS = ("/root", "/home", "/tmp", "/var/tmp", "/data", "/mnt")  # noqa: S108 fixed places


class Filler(NamedTuple):
    """Files that belong together and take much of a disk."""

    files: KnownFiles
    size: int
    number: int
    """How many files."""
    uid: int
    """Whose the largest of them is."""
    holder: int | None = None
    """The pid of a process that has one of them open, works there, or was started with that path; one of Ray's if there is one."""


class FilledDisk(NamedTuple):
    """`is_whole`: everything on the disk that we may read was counted."""

    fillers: Tuple[Filler, ...] = ()
    is_whole: bool = False
    looked: float = 0.0
    """When the look began, by the monotonic clock."""


class _Look(NamedTuple):
    """The last look at a disk; times are of the monotonic clock."""

    found: FilledDisk | None
    """`None`: the disk could not be read."""
    share: float
    """How full the disk was."""
    due: float
    """When it is looked at again."""
    kept_until: float


class Fillers:
    """Looks at the disks that are wanted one after the other."""

    def __init__(self, table: Callable[[], ProcessTable], sleep: Callable[[float], None] = time.sleep) -> None:
        self._table, self._sleep = table, sleep
        self._wanted: Mapping[str, float] = {}
        self._temps: Tuple[str, ...] = ()
        self._sessions: Tuple[SessionFolder, ...] = ()
        self._looks: Mapping[str, _Look] = {}
        """By the path of a disk."""
        self._wake = threading.Event()

    def known(self) -> Mapping[str, FilledDisk]:
        """By the path of a disk; without disks that can't be read now, and without answers that are too old."""
        now = time.monotonic()
        return {path: look.found for path, look in self._looks.items() if look.found is not None and now < look.kept_until}

    def want(self, disks: Iterable[Mapping[str, Any]], temps: Sequence[str], sessions: Iterable[SessionFolder] = ()) -> None:
        """Of these disks (`path`, `used`, `total`) those above the mark, and no others any more; `sessions` are those of this host."""
        shares = {disk["path"]: disk["used"] / disk["total"] for disk in disks if disk["used"] and disk["total"]}
        wanted = {path: share for path, share in shares.items() if share >= MARK_SHARE}
        self._temps, self._sessions = tuple(temps), tuple(sessions)
        if wanted.keys() != self._wanted.keys():
            self._looks = {path: look for path, look in self._looks.items() if path in wanted}
            self._wake.set()
        self._wanted = wanted

    def start(self) -> None:
        """Once."""
        threading.Thread(target=self._run, name="fillers", daemon=True).start()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # on Linux, of this thread alone
        while True:
            for path, share in dict(self._wanted).items():
                last = self._looks.get(path)
                if last is None or time.monotonic() >= last.due or abs(share - last.share) >= RECOUNT_CHANGE_SHARE:
                    self._look(path, share)
            self._wake.wait(CHECK_INTERVAL_S)
            self._wake.clear()

    def _look(self, path: str, share: float) -> None:
        before = time.thread_time()
        found: FilledDisk | None
        try:
            found = look_at_disk(path, self._temps, self._table(), self._sleep, self._sessions)
        except OSError:
            found = None  # it has been unmounted, or is not ours to read: nothing is known of it
        interval = max(RECOUNT_INTERVAL_S, REST_PER_CPU_S * (time.thread_time() - before))
        now = time.monotonic()
        if path in self._wanted:
            self._looks = {**self._looks, path: _Look(found, share, now + interval, now + KEPT_INTERVALS * interval)}


def look_at_disk(
    path: str,
    temps: Iterable[str],
    table: ProcessTable,
    sleep: Callable[[float], None] = time.sleep,
    sessions: Iterable[SessionFolder] = (),
) -> FilledDisk:
    """The largest fillers of the disk at that path; `sessions` are those of this host. Raises `OSError`."""
    looked = time.monotonic()
    place, status = os.path.realpath(path), os.statvfs(path)
    total = status.f_blocks * status.f_frsize
    with open_fd(place) as folder:
        device = os.fstat(folder).st_dev
    mount = max((one.point for one in mounts() if _is_in(place, one.point)), key=len, default="/")
    count = _Count(device, total, sleep, _known_sessions(sessions))
    for root in _roots(mount, temps, table):
        count.add_root(root, 1.0 if root == mount else ROOT_SHARE)
    count.add_deleted(mount, table)
    least = LEAST_SHARE * total
    known = [filler for filler in count.fillers() if filler.size >= least]
    largest = tuple(sorted(known, key=lambda filler: -filler.size)[:MAX_FILLERS])
    return FilledDisk(_with_holders(largest, table), count.is_whole, looked)


def _known_sessions(sessions: Iterable[SessionFolder]) -> Dict[str, KnownSession]:
    """By the path of its folder without links, as the files below it are met."""
    return {
        os.path.realpath(session.path): KnownSession(session.uid, session.uid in own_uids())
        for session in sessions
        if session.uid is not None
    }


def tell(path: str, found: FilledDisk, table: ProcessTable, name: Callable[[int], str | None]) -> Dict[str, Any]:
    """As a part of a sample."""
    seen = time.time() - (time.monotonic() - found.looked)
    return {
        "path": path,
        "seen": round(seen, 1),
        "whole": found.is_whole,
        "fillers": [_tell_filler(filler, table, name) for filler in found.fillers],
    }


def _tell_filler(filler: Filler, table: ProcessTable, name: Callable[[int], str | None]) -> Dict[str, Any]:
    files, holder = filler.files, table.get(filler.holder) if filler.holder is not None else None
    return {
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


def _is_in(path: str, folder: str) -> bool:
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def _roots(mount: str, temps: Iterable[str], table: ProcessTable) -> Iterator[str]:
    """Where to look, the likeliest first; the mount point, in which all of them lie, comes last."""
    if mount != SHM:
        yield from map(os.path.realpath, temps)
        rays = (process for process in table.values() if _may_name_root(process))
        links = (read_link(f"/proc/{process.pid}/cwd") for process in rays)
        yield from islice(dict.fromkeys(link for link in links if link and link != "/"), MOST_ROOTS)
        yield from map(os.path.realpath, COMMON_ROOTS)
    yield mount


def _may_name_root(process: ScannedProcess) -> bool:
    """Whether it is looked into where that process of Ray works: nobody else's may choose where our time goes."""
    return _is_rays(process) and process.details.uid in own_uids() and process.details.mount_namespace is None


def _is_rays(process: ScannedProcess) -> bool:
    return process.origin.from_ray or process.origin.role is not None


class _Count:
    """Sums sizes while folders are gone through."""

    def __init__(self, device: int, total: int, sleep: Callable[[float], None], sessions: Mapping[str, KnownSession]) -> None:
        self.is_whole = True
        self._device, self._total, self._sleep, self._sessions = device, total, sleep, sessions
        self._until = time.monotonic() + MOST_SECONDS
        self._entries = 0
        self._root_until, self._root_entries = self._until, float(MOST_ENTRIES)
        """The bounds of the root that is gone through."""
        self._roots: List[str] = []
        self._entered: Set[FileId] = set()
        self._linked: Set[int] = set()
        """Inodes of files with several names, each counted once."""
        self._known: Dict[KnownFiles, List[int]] = {}
        """Bytes, files, the size of the largest, its owner."""
        self._folders: Dict[str, List[int]] = {}
        """The same of files that are not known, by each folder above them; of a root only what lies in no folder of its."""

    def add_root(self, root: str, share: float) -> None:
        """Everything below that folder that was not counted yet, if it is on this disk; with that share of the time and files left."""
        if any(_is_in(root, other) for other in self._roots):
            return
        now = time.monotonic()
        self._root_until = now + share * (self._until - now)
        self._root_entries = self._entries + share * (MOST_ENTRIES - self._entries)
        if self._is_over():
            self.is_whole = False
            return
        try:
            with open_fd(root, FOLDER) as top:
                status = os.fstat(top)
                if status.st_dev != self._device:
                    return
                self._walk(root, top)
                self._entered.add(file_id(status))
        except FileNotFoundError:
            return
        except (MovedError, OSError):
            self.is_whole = False
        self._roots.append(root)

    def _walk(self, root: str, top: int) -> None:
        base = "" if root == "/" else root
        walk = Walk(top, self._may_enter, self._see_trouble, why_not=self._why_not)
        for entry in walk:
            self._entries += 1
            if self._entries % PAUSE_EVERY_ENTRIES == 0:
                self._sleep(PAUSE_S)
            if self._is_over():
                self.is_whole = False
                return
            status = entry.status
            if not stat.S_ISREG(status.st_mode) or not status.st_blocks:
                continue
            if status.st_nlink > 1:
                if status.st_ino in self._linked:
                    continue
                self._linked.add(status.st_ino)
            self._add_file(base, f"{base}/{entry.path}", status)

    def _may_enter(self, path: str) -> bool:
        if path.count("/") >= DEEPEST:
            self.is_whole = False
            return False
        return True

    def _see_trouble(self, _path: str, why: str) -> None:
        self.is_whole = self.is_whole and why in (COUNTED, OTHER_MOUNT)

    def _why_not(self, _path: str, status: os.stat_result) -> str | None:
        return COUNTED if file_id(status) in self._entered else None

    def _is_over(self) -> bool:
        is_spent = self._entries >= self._root_entries or time.monotonic() > self._root_until
        return is_spent or len(self._known) + len(self._folders) > MOST_NAMED

    def _add_file(self, root: str, path: str, status: os.stat_result) -> None:
        amount, files = status.st_blocks * 512, recognize(path, status.st_uid, self._sessions)
        if files is None and amount >= LARGE_FILE_SHARE * self._total:
            files = KnownFiles("file", path)
        if files is not None:
            _add(self._known, files, amount, status.st_uid)
            return
        names = path[len(root) + 1 :].split("/")[:-1]
        folders = [f"{root}/{'/'.join(names[:depth])}" for depth in range(1, min(len(names), DEEPEST_NAMED) + 1)]
        for folder in folders or [root or "/"]:
            _add(self._folders, folder, amount, status.st_uid)

    def add_deleted(self, mount: str, table: ProcessTable) -> None:
        """Files that have no name any more: they take their room until the last process closes them."""
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
                _add(self._known, files._replace(pid=pid), status.st_blocks * 512, status.st_uid)

    def fillers(self) -> Iterator[Filler]:
        """All of them, known files and folders of others."""
        for files, (amount, number, _, uid) in self._known.items():
            yield Filler(files, amount, number, uid, files.pid if files.kind in ("deleted", "shm") else None)
        for folder in _narrowest(self._folders, self._roots):
            amount, number, _, uid = self._folders[folder]
            yield Filler(KnownFiles("folder", folder), amount, number, uid)


def _add(sums: Dict[Any, List[int]], key: Any, amount: int, uid: int) -> None:
    known = sums.setdefault(key, [0, 0, 0, uid])
    known[0], known[1] = known[0] + amount, known[1] + 1
    if amount > known[2]:
        known[2:] = [amount, uid]


def _narrowest(sums: Mapping[str, Sequence[int]], roots: Sequence[str]) -> Iterator[str]:
    """Of folders in each other those that say best where the files lie: one that holds nearly all of the one above is named instead."""
    children: Dict[str, List[str]] = {}
    for folder in sums:
        if folder != "/":
            children.setdefault(os.path.dirname(folder), []).append(folder)
    named = {root: None for root in roots if root in sums}
    for top in (child for root in roots for child in children.get(root, ())):
        named[_descend(top, children, sums)] = None
    yield from named


def _descend(folder: str, children: Mapping[str, Sequence[str]], sums: Mapping[str, Sequence[int]]) -> str:
    while True:
        largest = max(children.get(folder, ()), key=lambda child: sums[child][0], default=None)
        if largest is None or sums[largest][0] < ONE_CHILD_SHARE * sums[folder][0]:
            return folder
        folder = largest


# Who has them open


def _open_files(table: ProcessTable) -> Iterator[Tuple[int, str, str]]:
    """Pid, descriptor and file of everything that processes of our mount namespace have open; Ray's first."""
    until = time.thread_time() + HOLDERS_SECONDS
    processes = [process for process in table.values() if process.alive and process.details.mount_namespace is None and not process.kernel]
    for process in sorted(processes, key=lambda one: not _is_rays(one))[:MOST_PROCESSES]:
        if time.thread_time() > until:
            return
        folder = f"/proc/{process.pid}/fd"
        try:
            names = os.listdir(folder)[:MOST_OPEN]
        except OSError:
            continue  # it has ended, or is not ours to look into
        links = ((name, read_link(f"{folder}/{name}")) for name in names)
        yield from ((process.pid, name, link) for name, link in links if link and link.startswith("/"))


def _with_holders(fillers: Tuple[Filler, ...], table: ProcessTable) -> Tuple[Filler, ...]:
    """Each with a process that uses it, where one is seen to."""
    kinds = ("shm", "folder", "session", "runtime_env")  # in these somebody always has something open
    paths = {filler.files.path for filler in fillers if filler.holder is None and filler.files.kind not in kinds}
    named = {filler.files.path for filler in fillers if filler.files.kind in ("checkpoints", "wandb", "cache", "spilled")}
    found: Dict[str, int] = {}
    for pid, _, link in _open_files(table) if paths else ():
        for path in paths - found.keys():
            if _is_in(link, path):
                found[path] = pid
    for process in sorted(table.values(), key=lambda one: not _is_rays(one)):
        for path in named - found.keys():
            if _is_user(process, path):
                found[path] = process.pid
    return tuple(filler if filler.holder is not None else filler._replace(holder=found.get(filler.files.path)) for filler in fillers)


def _is_user(process: ScannedProcess, path: str) -> bool:
    """Whether it works in that folder, or that path stands in its command."""
    if not process.alive or process.kernel or process.details.mount_namespace is not None or path.count("/") < 2:
        return False
    place = read_link(f"/proc/{process.pid}/cwd")
    named = any(path in word for word in process.details.argv) and re.search(rf"{re.escape(path)}(?![\w.-])", process.command)
    return bool(named) or (place is not None and _is_in(place, path))
