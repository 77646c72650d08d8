"""Reads the process titles of Ray's workers several times between two samples. Ray writes the running method into the title."""

from __future__ import annotations

import os
import threading
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

from .proc import Batch, uptime
from .processes import Identity

EVERY_S = 0.5
"""Seconds between two looks."""
MAX_FOLLOWED = 64
"""The titles of so many workers are read at each look. A host has at most some ten workers with GPUs."""
OTHERS_EVERY_S = 1.8
"""Seconds between two looks at the other workers: one look for each sample at the usual interval."""
MAX_WORKERS = 1000
MAX_CHANGES = 16
"""A sample has so many changes of one title, the last ones."""
MAX_CHARS = 200
HANGS_AFTER_S, MIN_HANGS_AFTER_S = 0.3, 0.05
"""Seconds to wait for one title: reading it hangs while the memory map of the process is locked. Halved after each title that hangs."""
MAX_HANGS = 4
"""A look ends after so many titles that hang, as any user can make the titles of many processes hang. The next look goes on."""
_MAX_BYTES = 4 * MAX_CHARS


class Title(NamedTuple):
    """The title of a worker."""

    text: str
    changes: Tuple[Tuple[float, str], ...] = ()
    """The titles that the worker got between the last two samples, the oldest first, each with its time (seconds since boot). A title of
    less than half a second may be missing."""


class TitleFiles:
    """Reads titles, and keeps the files of the first `MAX_FOLLOWED` processes open: opening a file takes longer than reading it."""

    def __init__(self) -> None:
        self._files: Dict[Identity, int] = {}

    def read(self, worker: Identity) -> str:
        """The title of a process; empty if the process has ended."""
        try:
            if worker in self._files:
                return _read(self._files[worker])
            file = os.open(f"/proc/{worker[0]}/cmdline", os.O_RDONLY)
            if len(self._files) < MAX_FOLLOWED:
                self._files[worker] = file
                return _read(file)
            try:
                return _read(file)
            finally:
                os.close(file)
        except OSError:
            return ""

    def close_others(self, workers: Sequence[Identity]) -> None:
        """Close the files of all processes but these."""
        for worker in self._files.keys() - set(workers):
            os.close(self._files.pop(worker))


def _read(file: int) -> str:
    return os.pread(file, _MAX_BYTES, 0).partition(b"\0")[0].decode("utf-8", "replace")[:MAX_CHARS]


class TitleReader:
    """Follows the titles of the workers in the last sample. `read` runs in a thread of its own, and `take` never waits for it.

    The kernel's name of a process has only 15 bytes of its title, so it does not show that `ray::WorkerDict` has begun a method.
    """

    def __init__(self, read_title: Callable[[Identity], str] | None = None, clock: Callable[[], float] = uptime) -> None:
        self._files = TitleFiles()
        self._read_title, self._clock = read_title or self._files.read, clock
        self._lock = threading.Lock()
        self._followed: Sequence[Identity] = ()
        self._others: Sequence[Identity] = ()
        self._others_read = 0.0
        self._newest: Dict[Identity, str] = {}
        self._changes: Dict[Identity, List[Tuple[float, str]]] = {}
        self._hanging: Dict[Identity, Batch[Identity, Tuple[Identity, str]]] = {}

    def take(self, workers: Sequence[Identity]) -> Dict[Identity, Title]:
        """The known titles of these workers, and the last titles of followed ones that are not among them, as they have ended.

        From now on these workers are followed, and the first ones are read more often.
        """
        with self._lock:
            self._followed, self._others = workers[:MAX_FOLLOWED], workers[MAX_FOLLOWED:MAX_WORKERS]
            changes, self._changes = self._changes, {}
            known = [one for one in dict.fromkeys((*workers, *changes)) if one in self._newest]
            titles = {one: Title(self._newest[one], tuple(changes.get(one, ()))) for one in known}
            self._newest = {one: self._newest[one] for one in workers if one in self._newest}
            return titles

    def read(self) -> None:
        """Reads the titles once, except those of processes at which an earlier look still hangs."""
        now = self._clock()
        asked = [*self._followed]
        self._files.close_others(asked)
        if now - self._others_read >= OTHERS_EVERY_S:
            asked += self._others
            self._others_read = now
        self._hanging = {one: batch for one, batch in self._hanging.items() if not batch.finished.is_set()}
        asked = [one for one in asked if one not in self._hanging]
        patience = HANGS_AFTER_S
        for _ in range(MAX_HANGS):
            if not asked:
                return
            batch: Batch[Identity, Tuple[Identity, str]] = Batch(asked, lambda one: (one, self._read_title(one)))
            hangs_at = batch.wait(patience)
            self._note(now, batch.answers)
            if hangs_at is None:
                return
            self._hanging[asked[hangs_at]] = batch
            asked = asked[hangs_at + 1 :]
            patience = max(patience / 2, MIN_HANGS_AFTER_S)

    def _note(self, now: float, titles: Sequence[Tuple[Identity, str]]) -> None:
        with self._lock:
            for worker, title in titles:
                before = self._newest.get(worker)
                if not title.startswith("ray::") or title == before:
                    continue  # the worker has ended, or the pid belongs to another program
                self._newest[worker] = title
                if before is not None and worker in self._followed:
                    changes = self._changes.setdefault(worker, [])
                    changes.append((now, title))
                    del changes[:-MAX_CHANGES]
