"""How much a session's folder takes, and what in it may be dear. Counted slowly, so that nobody notices."""

from __future__ import annotations

import os
import stat
import threading
import time
from itertools import islice
from typing import Callable, Dict, Iterable, NamedTuple, Tuple

from .protected import DearFiles
from .tree import FOLDER, MovedError, Walk, encode_path

KEEPS = 20
MOST_FILES = 2_000_000
"""Beyond that it gives up, and the size stays unknown."""
COUNT_AGAIN = 900.0
LOOK_AGAIN = 10.0
STIRRED = 0.05
"""Share of a disk by which it has changed, so that its folders are counted anew: what fills it is looked for."""
PAUSE_EVERY, PAUSE = 200, 0.01


class Size(NamedTuple):
    """Of one folder: bytes on disk (`None`: too many files to count), and up to KEEPS paths in it that may be dear."""

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
                if time.monotonic() >= due or abs(used - before) >= STIRRED:
                    self.known = {**self.known, folder: count(folder, self._sleep)}
                    self._counted = {**self._counted, folder: (time.monotonic() + COUNT_AGAIN, used)}
            self._wake.wait(LOOK_AGAIN)
            self._wake.clear()


def _measure_use(folder: str) -> float:
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
    dear = DearFiles()
    for number, entry in enumerate(Walk(top), 1):
        if number > most:
            return Size(None, _list_kept(dear))
        if number % PAUSE_EVERY == 0:
            sleep(PAUSE)
        total += entry.status.st_blocks * 512 if stat.S_ISREG(entry.status.st_mode) else 0
        dear.see(entry)
    return Size(total, _list_kept(dear))


def _list_kept(dear: DearFiles) -> Tuple[str, ...]:
    return tuple(encode_path(path) for path in islice(dear.found, KEEPS))
