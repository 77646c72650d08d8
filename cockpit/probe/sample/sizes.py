"""Measures the folders of sessions and /dev/shm, and finds files in sessions that may be worth keeping.

Worth keeping are checkpoints, core dumps, and files that jobs wrote into their working_dir. Sessions are counted slowly, to leave CPU and
disks to the jobs.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from itertools import islice
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Set, Tuple

from ..trust import FOLDER, open_fd
from .host import Amount, free_space, space
from .known_files import SHM
from .tree import FolderEntry, MovedError, Walk, shown_path

MAX_KEPT_LISTED = 20
MAX_FILES = 2_000_000
"""Files counted in one folder. If there are more, the size stays unknown."""
MAX_PROTECTED_CHARS = 8 << 20
"""Characters of all paths that may be worth keeping: users who may write into a session's folder decide their number and length."""
RECOUNT_INTERVAL_S = 900.0
CHECK_INTERVAL_S = 10.0
RECOUNT_CHANGE_SHARE = 0.05
"""If the used share of a disk changes by this much, its folders are counted again, to find what fills it."""
PAUSE_EVERY_ENTRIES, PAUSE_S = 200, 0.01
UNPACKED_WITHIN_S = 60.0
"""Ray unpacks a working_dir at once, so all its files have about the same time. A file this much younger than the oldest is a job's."""
LARGE_BYTES = 1 << 20
"""A file of this size in a working_dir is kept at any age: it has data or weights."""
_FILE = re.compile(
    r"(.*checkpoint.*|.*\.(safetensors|pth?|ckpt|distcp|gguf|onnx|npz|h5)|(pytorch|adapter)_model.*\.bin|global_step.*|core([.-].*\d)?)$",
    re.DOTALL | re.IGNORECASE,
)
_FOLDER = re.compile(r"(.*checkpoints?([-_.]?.*)?|ckpt(s|[-_].*|\d+)?|global_step.*|iter_\d+)$", re.DOTALL | re.IGNORECASE)
_SOURCE = re.compile(r".*\.(py|pyi|pyc|md|rst|txt|sh|ya?ml|toml|html|ipynb|cu|cuh|c|cc|cpp|h|hpp|log)$", re.DOTALL)
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = re.compile(r"(runtime_resources/working_dir_files/[^/]+)(?:/|$)")


class Size(NamedTuple):
    """The size of one folder."""

    size: int | None
    """Bytes on disk; `None`: there are too many files to count."""
    keeps: Tuple[str, ...]
    """At most MAX_KEPT_LISTED paths in it that may be worth keeping."""


class Sizes:
    """Counts folders one by one, in a thread of its own."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.known: Dict[str, Size] = {}
        self._wanted: Tuple[str, ...] = ()
        self._wake = threading.Event()
        self._sleep = sleep

    def want(self, folders: Iterable[str]) -> None:
        """Sets the folders that are counted from now on."""
        wanted = tuple(folders)
        if wanted != self._wanted:
            self._wanted = wanted
            self.known = {folder: size for folder, size in self.known.items() if folder in wanted}
            self._wake.set()

    def start(self) -> None:
        """Starts the thread; call it once."""
        threading.Thread(target=self._run, name="sizes", daemon=True).start()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # on Linux, this sets only this thread
        counted: Dict[str, Tuple[float, float]] = {}  # by folder: when to count it again, and the used share of its disk at the last count
        while True:
            counted = {folder: last for folder, last in counted.items() if folder in self._wanted}
            for folder in self._wanted:
                used = _measure_use(folder)
                due, before = counted.get(folder, (0.0, used))
                if time.monotonic() >= due or abs(used - before) >= RECOUNT_CHANGE_SHARE:
                    self.known = {**self.known, folder: count(folder, self._sleep)}
                    counted[folder] = time.monotonic() + RECOUNT_INTERVAL_S, used
            self._wake.wait(CHECK_INTERVAL_S)
            self._wake.clear()


def _measure_use(folder: str) -> float:
    """The used share of the folder's disk, 0 to 1."""
    free, total = free_space(folder)
    return 1 - free / total if free is not None and total else 0.0


def count(folder: str, sleep: Callable[[float], None] = time.sleep, most: int = MAX_FILES) -> Size:
    """Stays on one file system and follows no links. Folders and unreadable files count as 0 bytes."""
    try:
        top = os.open(folder, FOLDER)
    except OSError:
        return Size(0, ())  # it was removed, or we may not read it
    total, number, protected = 0, 0, ProtectedFiles()
    try:
        for number, entry in enumerate(islice(Walk(top), most + 1), 1):
            if number % PAUSE_EVERY_ENTRIES == 0:
                sleep(PAUSE_S)
            total += entry.status.st_blocks * 512 if stat.S_ISREG(entry.status.st_mode) else 0
            protected.see(entry)
            if protected.are_too_many:
                break
    except (OSError, MovedError):
        return Size(None, ())
    finally:
        os.close(top)
    size = total if number <= most and not protected.are_too_many else None
    return Size(size, tuple(map(shown_path, islice(protected.found, MAX_KEPT_LISTED))))


# Protected files


class ProtectedFiles:
    """Collects the protected files of a walk, in which a folder comes after its contents."""

    def __init__(self) -> None:
        self.found: Dict[str, None] = {}
        """Files, and folders that stay as a whole; paths relative to the top."""
        self._unpacked: Dict[str, float] = {}
        """By package: when it was unpacked."""
        self._waiting: Dict[str, List[Tuple[str, os.stat_result]]] = {}
        """By package: files that may be worth keeping. The oldest file of the package decides, so the whole package must be read first."""
        self._chars = 0

    @property
    def are_too_many(self) -> bool:
        """Whether their paths are too long to keep more of them."""
        return self._chars > MAX_PROTECTED_CHARS

    def see(self, entry: FolderEntry) -> None:
        """Takes the next entry of the walk."""
        package = _package(entry.path)
        if entry.is_folder:
            for path, status in self._waiting.pop(entry.path, ()):
                self._chars -= len(path)
                if self._is_result(entry.path, status):
                    self._find(_together(path, entry.path))
            return
        if package is not None and stat.S_ISREG(entry.status.st_mode):
            self._unpacked[package] = min(entry.status.st_mtime, self._unpacked.get(package, entry.status.st_mtime))
        if _is_worthless(entry.path, entry.status):
            return
        named = _named_protected(entry.path)
        if named is not None:
            self._find(named)
        elif package is not None:
            self._waiting.setdefault(package, []).append((entry.path, entry.status))
            self._chars += len(entry.path)

    def why_kept(self, path: str, status: os.stat_result) -> str | None:
        """The path under which this file is kept, new files included; `None` if it may be removed."""
        if _is_worthless(path, status):
            return None
        named, package = _named_protected(path), _package(path)
        if named is not None or package is None:
            return named
        return _together(path, package) if self._is_result(package, status) else None

    def _find(self, path: str) -> None:
        self._chars += 0 if path in self.found else len(path)
        self.found[path] = None

    def _is_result(self, package: str, status: os.stat_result) -> bool:
        """Whether a job has written the file, rather than Ray when it unpacked the package."""
        unpacked = self._unpacked.get(package)
        return unpacked is None or status.st_size >= LARGE_BYTES or status.st_mtime > unpacked + UNPACKED_WITHIN_S


def _package(path: str) -> str | None:
    """The folder of the unpacked working_dir that contains the path."""
    found = _PACKAGE.match(path)
    return found[1] if found and found[1] != path else None


def _together(path: str, package: str) -> str:
    """The folder of the file, or the file itself if it is directly in the working_dir."""
    folder = os.path.dirname(path)
    return path if folder == package else folder


def _is_worthless(path: str, status: os.stat_result) -> bool:
    """Whether it is source code, a file that pip installed, or empty."""
    parts = path.split("/")
    return not status.st_size or not stat.S_ISREG(status.st_mode) or bool(_SOURCE.match(parts[-1])) or not _INSTALLED.isdisjoint(parts)


def _named_protected(path: str) -> str | None:
    """The highest folder above the file that has the name of a checkpoint, or else the file if its own name protects it."""
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], 1):
        if _FOLDER.match(part):
            return "/".join(parts[:depth])
    return path if _FILE.match(parts[-1]) else None


# /dev/shm

MAX_SHM_FILES = 20_000
"""If there are more files, no user's share is known."""
DEEPEST_SHM_FOLDER = 8
"""Levels of folders that are counted."""
MAX_USERS = 16
"""Users that a sample lists: those with the most bytes."""


class SharedMemory(NamedTuple):
    """The use of /dev/shm."""

    amount: Amount
    owners: Dict[int, int] | None = None
    """Bytes by user id. Only files that still have a name count; deleted files that are still mapped do not."""


def read_shared_memory(place: str = SHM) -> SharedMemory:
    """Raises `OSError`."""
    return SharedMemory(space(place), measure_owners(place))


def measure_owners(place: str, most: int = MAX_SHM_FILES) -> Dict[int, int] | None:
    """Bytes by user id; `None` if we may not read the folder, it has too many files, or it is moved meanwhile."""
    owners: Dict[int, int] = {}
    counted: Set[int] = set()
    try:
        with open_fd(place) as top:
            for number, entry in enumerate(Walk(top, lambda path: path.count("/") < DEEPEST_SHM_FOLDER)):
                status = entry.status
                if number >= most:
                    return None
                if stat.S_ISREG(status.st_mode) and status.st_ino not in counted:
                    counted.add(status.st_ino)
                    owners[status.st_uid] = owners.get(status.st_uid, 0) + status.st_blocks * 512
    except (MovedError, OSError):
        return None
    return owners


def shm_users(owners: Dict[int, int] | None, name: Callable[[int], str | None]) -> list[Dict[str, Any]] | None:
    """The users with the most bytes, ordered by user id."""
    if owners is None:
        return None
    largest = sorted(owners, key=lambda uid: -owners[uid])[:MAX_USERS]
    return [{"user": name(uid), "size": owners[uid]} for uid in sorted(largest)]
