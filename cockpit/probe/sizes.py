"""How much a session's folder takes, and what in it may be dear. Counted slowly, so that nobody notices."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Callable, Dict, Iterable, NamedTuple, Tuple

KEEPS = 20
MOST_FILES = 2_000_000
"""Beyond that it gives up, and the size stays unknown."""
COUNT_AGAIN = 900.0
PAUSE_EVERY, PAUSE = 200, 0.01
_DEAR_FILE = re.compile(r"(checkpoint.*|.*\.safetensors|.*\.pt|.*\.ckpt|global_step.*|core(\.\d+)?)$")
_DEAR_FOLDER = re.compile(r"(checkpoint(s|[-_]?\d+)?|global_step.*)$")
_SOURCE = re.compile(r".*\.(py|pyi|pyc|md|rst|txt|sh|ya?ml|toml|html|ipynb|cu|cuh|c|cc|cpp|h|hpp|log)$")


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
                if time.monotonic() >= self._due.get(folder, 0.0):
                    self.known = {**self.known, folder: count(folder, self._sleep)}
                    self._due[folder] = time.monotonic() + COUNT_AGAIN
            self._wake.wait(30.0)
            self._wake.clear()


def count(folder: str, sleep: Callable[[float], None] = time.sleep, most: int = MOST_FILES) -> Size:
    """Stays on the folder's file system and follows no links; what can't be read counts nothing."""
    total = 0
    keeps: Dict[str, None] = {}
    for files, (entry, path) in enumerate(_walk(folder), 1):
        if files > most:
            return Size(None, tuple(keeps))
        if files % PAUSE_EVERY == 0:
            sleep(PAUSE)
        total += entry.st_blocks * 512
        dear = _dear(os.path.relpath(path, folder)) if entry.st_size else None
        if dear and len(keeps) < KEEPS:
            keeps[dear] = None
    return Size(total, tuple(keeps))


def _walk(folder: str) -> Iterable[Tuple[os.stat_result, str]]:
    """Every file below it. Folders' own blocks are not worth a call."""
    left = [folder]
    device: int | None = None
    while left:
        here = left.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    device = status.st_dev if device is None else device
                    if entry.is_dir(follow_symlinks=False) and status.st_dev == device:
                        left.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield status, entry.path
        except OSError:
            continue  # removed since, or not ours to read


def _dear(path: str) -> str | None:
    """The file, or the highest folder above it that is named like a checkpoint. Source code is dear to nobody here."""
    parts = path.split(os.sep)
    if _SOURCE.match(parts[-1]):
        return None
    for depth, part in enumerate(parts[:-1], 1):
        if _DEAR_FOLDER.match(part):
            return os.sep.join(parts[:depth])
    return path if _DEAR_FILE.match(parts[-1]) else None
