"""How much a session's folder takes, and what in it may be dear. Counted slowly, so that nobody notices."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from typing import Callable, Dict, Iterable, NamedTuple, Tuple

from .tree import FOLDER, MovedError, Walk, shown

KEEPS = 20
MOST_FILES = 2_000_000
"""Beyond that it gives up, and the size stays unknown."""
COUNT_AGAIN = 900.0
LOOK_AGAIN = 10.0
STIRRED = 0.05
"""Share of a disk by which it has changed, so that its folders are counted anew: what fills it is looked for."""
PAUSE_EVERY, PAUSE = 200, 0.01
_DEAR_FILE = re.compile(
    r"(.*checkpoint.*|.*\.(safetensors|pth?|ckpt|distcp|gguf|onnx|npz|h5)|(pytorch|adapter)_model.*\.bin|global_step.*|core([.-].*\d)?)$",
    re.DOTALL | re.IGNORECASE,
)
_DEAR_FOLDER = re.compile(r"(.*checkpoints?([-_.]?.*)?|ckpt(s|[-_].*|\d+)?|global_step.*|iter_\d+)$", re.DOTALL | re.IGNORECASE)
_SOURCE = re.compile(r".*\.(py|pyi|pyc|md|rst|txt|sh|ya?ml|toml|html|ipynb|cu|cuh|c|cc|cpp|h|hpp|log)$", re.DOTALL)
_INSTALLED = {"site-packages", "dist-packages"}


class Size(NamedTuple):
    """Of one folder: bytes on disk (`None`: too many files to count), and up to KEEPS paths in it that may be dear."""

    size: int | None
    keeps: Tuple[str, ...]


class Sizes:
    """Counts folders one after the other in a thread of its own."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.known: Dict[str, Size] = {}
        self._wanted: Tuple[str, ...] = ()
        self._due: Dict[str, float] = {}
        self._used: Dict[str, float] = {}
        self._wake = threading.Event()
        self._sleep = sleep

    def want(self, folders: Iterable[str]) -> None:
        """These folders, and no others any more."""
        wanted = tuple(folders)
        if wanted != self._wanted:
            self._wanted = wanted
            self.known = {folder: size for folder, size in self.known.items() if folder in wanted}
            self._wake.set()

    def start(self) -> None:
        """Once."""
        threading.Thread(target=self._run, name="sizes", daemon=True).start()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # on Linux, of this thread alone
        while True:
            for folder in self._wanted:
                used = _used(folder)
                if time.monotonic() >= self._due.get(folder, 0.0) or abs(used - self._used[folder]) >= STIRRED:
                    self.known = {**self.known, folder: count(folder, self._sleep)}
                    self._due[folder], self._used[folder] = time.monotonic() + COUNT_AGAIN, used
            self._wake.wait(LOOK_AGAIN)
            self._wake.clear()


def _used(folder: str) -> float:
    """Share of its disk that is in use."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0.0
    return 1 - disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0


def count(folder: str, sleep: Callable[[float], None] = time.sleep, most: int = MOST_FILES) -> Size:
    """Stays on the folder's file system and follows no links; what can't be read counts nothing."""
    try:
        top = os.open(folder, FOLDER)
    except OSError:
        return Size(0, ())  # removed since, or not ours to read
    try:
        return _count(top, sleep, most)
    except (OSError, MovedError):
        return Size(None, ())
    finally:
        os.close(top)


def _count(top: int, sleep: Callable[[float], None], most: int) -> Size:
    """Folders' own blocks are not worth a thought."""
    total = 0
    keeps: Dict[str, None] = {}
    files = (entry for entry in Walk(top) if stat.S_ISREG(entry.status.st_mode))
    for number, (_, _, path, status) in enumerate(files, 1):
        if number > most:
            return Size(None, tuple(keeps))
        if number % PAUSE_EVERY == 0:
            sleep(PAUSE)
        total += status.st_blocks * 512
        found = dear(path, status)
        if found and len(keeps) < KEEPS:
            keeps[shown(found)] = None
    return Size(total, tuple(keeps))


def dear(path: str, status: os.stat_result) -> str | None:
    """The file, or the highest folder above it that is named like a checkpoint.

    Dear to nobody here: source code, what pip has installed, an empty file.
    """
    parts = path.split("/")
    if not status.st_size or not stat.S_ISREG(status.st_mode) or _SOURCE.match(parts[-1]) or not _INSTALLED.isdisjoint(parts):
        return None
    for depth, part in enumerate(parts[:-1], 1):
        if _DEAR_FOLDER.match(part):
            return "/".join(parts[:depth])
    return path if _DEAR_FILE.match(parts[-1]) else None
