"""Writes a snapshot as one short line, and leaves it in a file for `cockpit status --line`."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from cockpit.files.atomic import OWNER_READS, write_whole
from cockpit.files.status_line import SUFFIX, line_path, lines_path
from cockpit.model import Quantity, Snapshot
from cockpit.recording.folder import make_folder
from cockpit.report.status import OK, exit_code
from cockpit.text import UNKNOWN, count, plural

LINE_EVERY_S = 5.0
"""Shortest time between two lines, in seconds."""
FORGET_S = 7 * 86400.0
"""Seconds after which an unused line is removed: each Ray may have a port of its own, and so a line of its own."""
NAME_LETTERS = 30


def line_text(snapshot: Snapshot, code: int) -> str:
    """`ray 2 nodes · GPUs 14/16 · 1 critical, 2 warnings · ppo-7b running`; `code`: the exit code of `cockpit status`."""
    parts = ["ray does not answer"]
    if snapshot.cluster.reachable:
        living = [node for node in snapshot.nodes or () if node.id is not None and node.state == "ALIVE"]
        gpus = [node.resources.get("GPU", Quantity(0, 0) if node.resources else Quantity()) for node in living]
        reserved, total = _sum([one.used for one in gpus]), _sum([one.total for one in gpus])
        parts = [f"ray {plural(len(living), 'node') if living else f'nodes {UNKNOWN}'}", f"GPUs {reserved}/{total}"]
    levels = Counter(finding.level for finding in snapshot.findings)
    found = [f"{levels['critical']} critical"] if levels["critical"] else []
    found += [plural(levels["warning"], "warning")] if levels["warning"] else []
    parts.append(", ".join(found) or ("OK" if code == OK else "some data is missing"))
    running = [job.id for job in snapshot.jobs or () if job.running]
    if running:
        parts.append(f"{running[0][:NAME_LETTERS]} running" if len(running) == 1 else f"{len(running)} jobs running")
    return " · ".join(parts)


def _sum(amounts: Collection[float | None]) -> str:
    """The sum in words; unknown if any amount is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return count(sum(known)) if known and len(known) == len(amounts) else UNKNOWN


def is_worth_a_line(snapshot: Snapshot) -> bool:
    """False for the first snapshots of a screen, which know nothing yet, or not what is wrong."""
    is_judged = snapshot.nodes is not None and snapshot.findings_as_of is not None
    return snapshot.cluster.reachable is False or (snapshot.cluster.reachable is True and is_judged)


def write_line(snapshot: Snapshot, named: Collection[str]) -> None:
    """Write the line of a snapshot, unless no Ray has ever answered at its address. `named`: as for `exit_code`. Raises `OSError`."""
    path = line_path(snapshot.cluster.address)
    if not snapshot.cluster.reachable and not path.exists():
        return
    make_folder(lines_path())
    code = exit_code(snapshot, named)
    content = {"text": line_text(snapshot, code), "code": code, "written": time.time()}
    write_whole(path, json.dumps(content) + "\n", OWNER_READS)


def remove_old_lines() -> None:
    """Remove lines of clusters that are gone. Raises `OSError`."""
    make_folder(lines_path())
    for path in lines_path().glob(f"*{SUFFIX}"):
        if time.time() - path.lstat().st_mtime > FORGET_S:
            path.unlink()


class LineWriter:
    """Writes the line of the latest snapshot now and then, in a thread, because the disk of a home may hang."""

    def __init__(self, named: Collection[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._named, self._clock = named, clock
        self._thread: threading.Thread | None = None
        self._begun = float("-inf")
        self._is_tidy = False

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Take a new snapshot, and start a thread that writes its line if it is time."""
        now = self._clock()
        if not is_worth_a_line(snapshot) or now - self._begun < LINE_EVERY_S or (self._thread and self._thread.is_alive()):
            return
        self._begun = now
        self._thread = threading.Thread(target=self._write, args=(snapshot,), name="line", daemon=True)
        self._thread.start()

    def _write(self, snapshot: Snapshot) -> None:
        """Errors are ignored: readers see the age of a line."""
        with suppress(OSError):
            write_line(snapshot, self._named)
            if not self._is_tidy:
                remove_old_lines()
                self._is_tidy = True
