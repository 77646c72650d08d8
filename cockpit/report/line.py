"""A snapshot as one short line, and who leaves it where `cockpit status --line` finds it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cockpit.line_file import SUFFIX, line_path, lines_path
from cockpit.model import Node, Quantity, Snapshot
from cockpit.recording.folder import make_folder
from cockpit.report.status import OK, exit_code
from cockpit.text import UNKNOWN, count, plural
from cockpit.whole_file import OWNER_READS, write_whole

LOOK_EVERY_S = 5.0
"""Seconds between two lines at least."""
WRITE_EVERY_S = 30.0
"""Seconds after which the same line is written again: it is not old."""
FORGET_S = 7 * 86400.0
"""Seconds after which the line of a cluster goes, that nobody has looked at: each Ray may have a port of its own."""
NAME_LETTERS = 30


def line_text(snapshot: Snapshot, code: int) -> str:
    """`ray 2 nodes · GPUs 14/16 · 1 critical, 2 warnings · ppo-7b running`; `code`: the exit code of its status."""
    return " · ".join(_parts(snapshot, code))


def _parts(snapshot: Snapshot, code: int) -> Iterator[str]:
    if not snapshot.cluster.reachable:
        yield "ray does not answer"
    else:
        living = [node for node in snapshot.nodes or () if node.id is not None and node.state == "ALIVE"]
        yield f"ray {plural(len(living), 'node') if living else f'nodes {UNKNOWN}'}"
        yield f"GPUs {_gpus(living)}"
    levels = Counter(finding.level for finding in snapshot.findings)
    found = [f"{levels['critical']} critical"] if levels["critical"] else []
    found += [plural(levels["warning"], "warning")] if levels["warning"] else []
    yield ", ".join(found) or ("OK" if code == OK else "some data is missing")
    running = [job.id for job in snapshot.jobs or () if job.running]
    if running:
        yield f"{running[0][:NAME_LETTERS]} running" if len(running) == 1 else f"{len(running)} jobs running"


def _gpus(living: Iterable[Node]) -> str:
    """Reserved of all, as Ray counts them; a part that is not known makes the sum unknown."""
    given = [node.resources.get("GPU", Quantity(0, 0) if node.resources else Quantity()) for node in living]
    return f"{_sum([one.used for one in given])}/{_sum([one.total for one in given])}"


def _sum(amounts: Collection[float | None]) -> str:
    known = [amount for amount in amounts if amount is not None]
    return count(sum(known)) if known and len(known) == len(amounts) else UNKNOWN


class LineToWrite(msgspec.Struct, frozen=True):
    """What is written of a snapshot, and where."""

    path: Path
    text: str
    code: int
    is_answered: bool = True
    """Whether Ray was there."""


def make_line(snapshot: Snapshot, named: Collection[str]) -> LineToWrite:
    """`named`: as of `exit_code`."""
    code = exit_code(snapshot, named)
    return LineToWrite(line_path(snapshot.cluster.address), line_text(snapshot, code), code, snapshot.cluster.reachable is True)


def write_line(line: LineToWrite) -> None:
    """Write it for whoever asks next; an address at which nobody has ever seen a Ray is no cluster's. Raises `OSError`."""
    if not line.is_answered and not line.path.exists():
        return
    make_folder(lines_path())
    said = {"text": line.text, "code": line.code, "written": time.time()}
    write_whole(line.path, json.dumps(said) + "\n", OWNER_READS)


def remove_old_lines() -> None:
    """Those of clusters that are gone. Raises `OSError`."""
    make_folder(lines_path())
    for path in lines_path().glob(f"*{SUFFIX}"):
        if time.time() - path.lstat().st_mtime > FORGET_S:
            path.unlink()


class LineWriter:
    """Fed with every snapshot; a thread writes, as the disk of a home may hang."""

    def __init__(self, named: Collection[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._named, self._clock = named, clock
        self._thread: threading.Thread | None = None
        self._looked = self._written = float("-inf")
        self._left: LineToWrite | None = None

    def hear(self, snapshot: Snapshot) -> None:
        """Have it written if it is time; takes no time itself."""
        now = self._clock()
        if not is_worth_a_line(snapshot) or now - self._looked < LOOK_EVERY_S or (self._thread and self._thread.is_alive()):
            return
        self._looked = now
        self._thread = threading.Thread(target=self._write, args=(snapshot, now), name="line", daemon=True)
        self._thread.start()

    def _write(self, snapshot: Snapshot, now: float) -> None:
        """What can't be written is left: a line that grows old says so itself."""
        line = make_line(snapshot, self._named)
        if line == self._left and now - self._written < WRITE_EVERY_S:
            return
        with suppress(OSError):
            write_line(line)
            if self._left is None:
                remove_old_lines()
            self._left, self._written = line, now


def is_worth_a_line(snapshot: Snapshot) -> bool:
    """Not the first moments of a screen, which know nothing yet."""
    return snapshot.cluster.reachable is False or (snapshot.cluster.reachable is True and snapshot.nodes is not None)
