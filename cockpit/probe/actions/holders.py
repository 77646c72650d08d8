"""Finds the processes that use files in a session's folder: that hold them open, map them, or work there."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from itertools import islice
from typing import Dict, Iterable, Iterator, Mapping, NamedTuple, Set, Tuple

from ..sample.proc import Batch, open_files, read, read_link
from ..sample.process_kinds import OWNED_KINDS
from ..sample.processes import ProcessTable
from ..trust import own_uids
from .host_state import HostState, OnProgress, report_seldom

LOCKED_MAP_TIMEOUT_S = 2.0
"""Seconds to wait for one process: its memory map may be locked."""
PROGRESS_INTERVAL_S = 1.0
BUDGET_S = 3.0
"""Seconds for all processes of one other user: they may share very many open files, each process with all of them."""
MAX_MAPS_BYTES = 8 << 20
"""Bytes read of one process's memory map; an inference engine has a few hundred KiB."""
MAX_USES = 10_000
"""Uses listed of one process."""
_PLACE = re.compile(r"/(session_[\d_-]+)(?:/(.*?))?(?: \(deleted\))?$", re.DOTALL)


class FileUse(NamedTuple):
    """One use of one file."""

    pid: int
    session: str
    """The name of the session, which is the same wherever its folder is mounted."""
    path: str
    """The file, relative to the session's folder; empty for the folder itself."""
    how: str


def find_file_uses(table: ProcessTable, on_progress: OnProgress) -> Tuple[Tuple[FileUse, ...], Tuple[int, ...]]:
    """All uses of files in sessions, and the pids whose uses are unknown: they hang or have too much open. Only root sees other users'."""
    left = [pid for pid, process in table.items() if process.alive and not process.details.stuck and pid != os.getpid()]
    found: list[FileUse] = []
    hanging: list[int] = []
    spent: Dict[int | None, float] = {}
    """Seconds that the processes of each user have taken so far."""

    def ask(pid: int) -> Tuple[int, Set[FileUse], bool]:
        """The uses by one process; false: there may be more, because too much is mapped, or its user's processes took too long."""
        uid, before = table[pid].details.uid, time.monotonic()
        if spent.get(uid, 0.0) > BUDGET_S and uid not in own_uids():
            return pid, set(), False
        uses = set(islice(_uses(pid, _opened_paths(pid)), MAX_USES))
        maps = b""
        with suppress(OSError):  # it has ended, or we may not read it
            maps = read(f"/proc/{pid}/maps", MAX_MAPS_BYTES)  # read last: whoever maps a file opens it first, and then closes it
        uses.update(islice(_uses(pid, _mapped_paths(maps)), MAX_USES - len(uses)))
        spent[uid] = spent.get(uid, 0.0) + time.monotonic() - before
        return pid, uses, len(maps) < MAX_MAPS_BYTES

    report = report_seldom(on_progress, PROGRESS_INTERVAL_S)
    while left:
        asked = len(left)
        batch = Batch(left, ask)
        at = batch.wait(LOCKED_MAP_TIMEOUT_S, lambda number: report(f"open files of {number} of {asked} processes checked", number, asked))  # noqa: B023 called before the next round
        for pid, uses, is_whole in batch.answers[:at]:
            found += uses
            if not is_whole:
                hanging.append(pid)
        if at is None:
            break
        # The one that hangs is left out, and those after it are asked next.
        hanging.append(left[at])
        uid = table[left[at]].details.uid
        spent[uid] = spent.get(uid, 0.0) + LOCKED_MAP_TIMEOUT_S
        left = left[at + 1 :]
    return tuple(found), (*hanging, *(pid for pid, process in table.items() if process.details.stuck))


def why_in_use(state: HostState, used: Iterable[FileUse], hanging: Iterable[int], session: str, uid: int) -> str | None:
    """The reason why the session is in use, or may be: a live Ray of its owner, of root or of our user has files of it open."""
    users = (uid, *own_uids())
    live = {pid: verdict.kind for pid, verdict in state.verdicts.items() if verdict.kind in OWNED_KINDS}
    live = {pid: kind for pid, kind in live.items() if pid in state.table and state.table[pid].details.uid in users}
    for hold in used:
        if hold.session == session and hold.pid in live:
            return f"it is in use: {live[hold.pid]} {hold.pid} of a live Ray has {hold.path or 'its folder'} open"
    for pid in hanging:
        if pid in live:
            return f"unknown whether it is in use: the open files of {live[pid]} {pid} of a live Ray can't be read"
    return None


def describe_uses(used: Iterable[FileUse], table: ProcessTable, session: str) -> Iterator[str]:
    """A sentence for each process that uses files there. They may be removed all the same."""
    by_pid: Dict[int, list[FileUse]] = {}
    for hold in used:
        if hold.session == session:
            by_pid.setdefault(hold.pid, []).append(hold)
    for pid, uses in by_pid.items():
        one, more = uses[0], len({hold.path for hold in uses}) - 1
        what = f"{one.path or 'the folder itself'} and {more} more are" if more else f"{one.path or 'the folder itself'} is"
        program = " ".join(table[pid].details.argv[:2])[:120] or table[pid].name  # enough to recognize it, and too short for a secret
        by = f"by {program} (pid {pid})"
        yield f"{session}: {what} {one.how} {by}: {'their' if more else 'its'} space is freed when that process ends"


def _uses(pid: int, paths: Iterable[Tuple[str, str]]) -> Iterator[FileUse]:
    """The paths that lie in a session."""
    for path, how in paths:
        if place := _PLACE.search(path):
            yield FileUse(pid, place[1], place[2] or "", how)


def _opened_paths(pid: int) -> Iterator[Tuple[str, str]]:
    """Each path that the process has open, and how it uses it."""
    yield from ((link, how) for name, how in _LINKS.items() for link in [read_link(f"/proc/{pid}/{name}")] if link)
    with suppress(OSError):  # it has ended, or we may not read it
        yield from ((link, "held open") for link in open_files(pid))


def _mapped_paths(maps: bytes) -> Iterator[Tuple[str, str]]:
    """Each path that the process has mapped into its memory. `maps`: its memory map, or the beginning of it."""
    for line in maps.split(b"\n")[:-1]:  # the last line may be cut
        if b"/session_" in line:
            yield os.fsdecode(line[line.index(b"/") :]).replace("\\012", "\n"), "mapped"


_LINKS: Mapping[str, str] = {"cwd": "used as working directory", "exe": "executed", "root": "used as root directory"}
