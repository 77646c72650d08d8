"""How much folders take, and whose: sessions, with what in them may be worth keeping; /dev/shm.

Dear are checkpoints, core dumps, and what jobs have written into their working_dir. Sessions are counted slowly, so that nobody notices.
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
MOST_FILES = 2_000_000
"""Beyond that it gives up, and the size stays unknown."""
MAX_PROTECTED_CHARS = 8 << 20
"""Of the paths of what may be worth keeping: whoever may write into a session's folder decides how many they are, and how long."""
RECOUNT_INTERVAL_S = 900.0
CHECK_INTERVAL_S = 10.0
RECOUNT_CHANGE_SHARE = 0.05
"""Share of a disk by which it has changed, so that its folders are counted anew: what fills it is looked for."""
PAUSE_EVERY_ENTRIES, PAUSE_S = 200, 0.01
UNPACKED_WITHIN_S = 60.0
"""Ray unpacks a working_dir at once, and all its files have that time; what is younger than the oldest by more, a job has written."""
LARGE_BYTES = 1 << 20
"""So large a file in a working_dir is kept, whatever its age: data or weights."""
_FILE = re.compile(
    r"(.*checkpoint.*|.*\.(safetensors|pth?|ckpt|distcp|gguf|onnx|npz|h5)|(pytorch|adapter)_model.*\.bin|global_step.*|core([.-].*\d)?)$",
    re.DOTALL | re.IGNORECASE,
)
_FOLDER = re.compile(r"(.*checkpoints?([-_.]?.*)?|ckpt(s|[-_].*|\d+)?|global_step.*|iter_\d+)$", re.DOTALL | re.IGNORECASE)
_SOURCE = re.compile(r".*\.(py|pyi|pyc|md|rst|txt|sh|ya?ml|toml|html|ipynb|cu|cuh|c|cc|cpp|h|hpp|log)$", re.DOTALL)
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = re.compile(r"(runtime_resources/working_dir_files/[^/]+)(?:/|$)")


class Size(NamedTuple):
    """Of one folder: bytes on disk (`None`: too many files to count), and up to MAX_KEPT_LISTED paths in it that may be worth keeping."""

    size: int | None
    keeps: Tuple[str, ...]


class Sizes:
    """Counts folders one after the other in a thread of its own."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.known: Dict[str, Size] = {}
        self._wanted: Tuple[str, ...] = ()
        self._counted: Dict[str, Tuple[float, float]] = {}
        """By folder: when it is counted again, and how full its disk was the last time."""
        self._wake = threading.Event()
        self._sleep = sleep

    def want(self, folders: Iterable[str]) -> None:
        """These folders, and no others any more."""
        wanted = tuple(folders)
        if wanted != self._wanted:
            self._wanted = wanted
            self.known = {folder: size for folder, size in self.known.items() if folder in wanted}
            self._counted = {folder: counted for folder, counted in self._counted.items() if folder in wanted}
            self._wake.set()

    def start(self) -> None:
        """Once."""
        threading.Thread(target=self._run, name="sizes", daemon=True).start()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # on Linux, of this thread alone
        while True:
            for folder in self._wanted:
                used = _measure_use(folder)
                due, before = self._counted.get(folder, (0.0, used))
                if time.monotonic() >= due or abs(used - before) >= RECOUNT_CHANGE_SHARE:
                    self.known = {**self.known, folder: count(folder, self._sleep)}
                    self._counted = {**self._counted, folder: (time.monotonic() + RECOUNT_INTERVAL_S, used)}
            self._wake.wait(CHECK_INTERVAL_S)
            self._wake.clear()


def _measure_use(folder: str) -> float:
    """Share of its disk that is in use."""
    free, total = free_space(folder)
    return 1 - free / total if free is not None and total else 0.0


def count(folder: str, sleep: Callable[[float], None] = time.sleep, most: int = MOST_FILES) -> Size:
    """Stays on the folder's file system and follows no links; what can't be read counts nothing, nor do folders' own blocks."""
    try:
        top = os.open(folder, FOLDER)
    except OSError:
        return Size(0, ())  # removed since, or not ours to read
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
    return Size(
        total if number <= most and not protected.are_too_many else None, tuple(map(shown_path, islice(protected.found, MAX_KEPT_LISTED)))
    )


# What is protected


class ProtectedFiles:
    """What was found while a folder is gone through, a folder after all that lies in it."""

    def __init__(self) -> None:
        self.found: Dict[str, None] = {}
        """Files, and folders of which all stays; paths from the top."""
        self._unpacked: Dict[str, float] = {}
        """By package, when it was unpacked."""
        self._waiting: Dict[str, List[Tuple[str, os.stat_result]]] = {}
        """By package, files that may be worth keeping: that is known once its oldest one is."""
        self._chars = 0

    @property
    def are_too_many(self) -> bool:
        """Whether no more can be remembered."""
        return self._chars > MAX_PROTECTED_CHARS

    def see(self, entry: FolderEntry) -> None:
        """One entry."""
        package = _package(entry.path)
        if entry.is_folder:
            self._decide_waiting(entry.path)
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
        """Under which path it is kept: also what has come since; `None`: it may go."""
        if _is_worthless(path, status):
            return None
        named, package = _named_protected(path), _package(path)
        if named is not None or package is None:
            return named
        return _together(path, package) if self._is_result(package, status) else None

    def _decide_waiting(self, package: str) -> None:
        for path, status in self._waiting.pop(package, ()):
            self._chars -= len(path)
            if self._is_result(package, status):
                self._find(_together(path, package))

    def _find(self, path: str) -> None:
        self._chars += 0 if path in self.found else len(path)
        self.found[path] = None

    def _is_result(self, package: str, status: os.stat_result) -> bool:
        unpacked = self._unpacked.get(package)
        return unpacked is None or status.st_size >= LARGE_BYTES or status.st_mtime > unpacked + UNPACKED_WITHIN_S


def _package(path: str) -> str | None:
    """The folder of an unpacked working_dir that the path lies in."""
    found = _PACKAGE.match(path)
    return found[1] if found and found[1] != path else None


def _together(path: str, package: str) -> str:
    """The folder that the file lies in, if that is not the working_dir itself."""
    folder = os.path.dirname(path)
    return path if folder == package else folder


def _is_worthless(path: str, status: os.stat_result) -> bool:
    """Source code, what pip has installed, an empty file: nothing to keep."""
    parts = path.split("/")
    return not status.st_size or not stat.S_ISREG(status.st_mode) or bool(_SOURCE.match(parts[-1])) or not _INSTALLED.isdisjoint(parts)


def _named_protected(path: str) -> str | None:
    """The file, or the highest folder above it that is named like a checkpoint."""
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], 1):
        if _FOLDER.match(part):
            return "/".join(parts[:depth])
    return path if _FILE.match(parts[-1]) else None


# /dev/shm

MOST_SHM_FILES = 20_000
"""Beyond that it gives up, and nobody's share is known."""
DEEPEST_SHM_FOLDER = 8
"""Folders that lie in each other; what is deeper is out of sight."""
MOST_USERS = 16
"""The largest of them."""


class SharedMemory(NamedTuple):
    """`owners`: bytes of the files that have a name there, by user id; what is deleted and still mapped is in none of them."""

    amount: Amount
    owners: Dict[int, int] | None = None


def read_shared_memory(place: str = SHM) -> SharedMemory:
    """Raises `OSError`."""
    return SharedMemory(space(place), measure_owners(place))


def measure_owners(place: str, most: int = MOST_SHM_FILES) -> Dict[int, int] | None:
    """`None`: not ours to read, too many files, or they are moved about."""
    owners: Dict[int, int] = {}
    met: Set[int] = set()
    try:
        with open_fd(place) as top:
            for number, entry in enumerate(Walk(top, lambda path: path.count("/") < DEEPEST_SHM_FOLDER)):
                status = entry.status
                if number >= most:
                    return None
                if stat.S_ISREG(status.st_mode) and status.st_ino not in met:
                    met.add(status.st_ino)
                    owners[status.st_uid] = owners.get(status.st_uid, 0) + status.st_blocks * 512
    except (MovedError, OSError):
        return None
    return owners


def shm_users(owners: Dict[int, int] | None, name: Callable[[int], str | None]) -> list[Dict[str, Any]] | None:
    """The largest, always in the same order."""
    if owners is None:
        return None
    largest = sorted(owners, key=lambda uid: -owners[uid])[:MOST_USERS]
    return [{"user": name(uid), "size": owners[uid]} for uid in sorted(largest)]
