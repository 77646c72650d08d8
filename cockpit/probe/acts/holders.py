"""Who uses what lies in a session's folder: holds it open, has it mapped, or works there."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from itertools import islice
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Set, Tuple

from ..look.kinds import OWNED_KINDS
from ..look.proc import Batch, open_files, read_link
from ..look.processes import ProcessTable
from ..trust import own_uids
from .host_state import HostState, Tell, tell_seldom

LOCKED_MAP_TIMEOUT_S = 2.0
"""Seconds after which a process whose memory map is locked is left alone."""
TELL_INTERVAL_S = 1.0
BUDGET_S = 3.0
"""For all processes of one other user: they may share very many open files, each process with all of them."""
MOST_MAPS_BYTES = 8 << 20
"""Of one process's memory map; that of an engine is a few hundred KiB."""
MAX_USES = 10_000
"""Uses by one process; whoever holds more open is not listed with each."""
_PLACE = re.compile(r"/(session_[\d_-]+)(?:/(.*?))?(?: \(deleted\))?$", re.DOTALL)


class FileUse(NamedTuple):
    """One use of one file."""

    pid: int
    session: str
    """Its name, which is the same wherever its folder is mounted."""
    path: str
    """The file, from there; empty for the folder itself."""
    how: str


class _Answer(NamedTuple):
    """What a process uses."""

    pid: int
    uses: Set[FileUse]
    is_whole: bool
    """Not where it has too much mapped, or its user's processes have taken too long."""


def find_file_uses(table: ProcessTable, tell: Tell) -> Tuple[Tuple[FileUse, ...], Tuple[int, ...]]:
    """Every use of a file, and the pids that could not be asked: they hang or have too much open. Only root sees those of other users."""
    left = [pid for pid, process in table.items() if process.alive and not process.details.stuck and pid != os.getpid()]
    found: list[FileUse] = []
    hanging: list[int] = []
    spent: Dict[int | None, float] = {}
    """Seconds that each user's processes have taken up to now."""

    def ask(pid: int) -> _Answer:
        uid, before = table[pid].details.uid, time.monotonic()
        if spent.get(uid, 0.0) > BUDGET_S and uid not in own_uids():
            return _Answer(pid, set(), is_whole=False)
        uses: Set[FileUse] = set()
        try:
            uses.update(islice(_of(pid), MAX_USES))
            return _Answer(pid, uses, is_whole=True)
        except _TooLongError:
            return _Answer(pid, uses, is_whole=False)
        finally:
            spent[uid] = spent.get(uid, 0.0) + time.monotonic() - before

    say = tell_seldom(tell, TELL_INTERVAL_S)
    while left:
        answers = _ask_until_one_hangs(left, ask, say)
        at = len(answers)
        found += [use for answer in answers for use in answer.uses]
        hanging += [*(answer.pid for answer in answers if not answer.is_whole), *left[at : at + 1]]
        for pid in left[at : at + 1]:
            uid = table[pid].details.uid
            spent[uid] = spent.get(uid, 0.0) + LOCKED_MAP_TIMEOUT_S
        left = left[at + 1 :]
    return tuple(found), (*hanging, *(pid for pid, process in table.items() if process.details.stuck))


def why_in_use(look: HostState, used: Iterable[FileUse], hanging: Iterable[int], session: str, uid: int) -> str | None:
    """The live Ray of its owner's, of root's or of ours that works with files there: it may have no others; or why that is unknown."""
    users = (uid, *own_uids())
    live = {pid: verdict.kind for pid, verdict in look.verdicts.items() if verdict.kind in OWNED_KINDS}
    live = {pid: kind for pid, kind in live.items() if pid in look.table and look.table[pid].details.uid in users}
    for hold in used:
        if hold.session == session and hold.pid in live:
            return f"it is in use: {live[hold.pid]} {hold.pid} of a live Ray has {hold.path or 'its folder'} open"
    for pid in hanging:
        if pid in live:
            return f"unknown whether it is in use: the open files of {live[pid]} {pid} of a live Ray can't be read"
    return None


def describe_uses(used: Iterable[FileUse], table: ProcessTable, session: str) -> Iterator[str]:
    """A sentence for each process that uses something there, which may be removed all the same."""
    by_pid: Dict[int, list[FileUse]] = {}
    for hold in used:
        if hold.session == session:
            by_pid.setdefault(hold.pid, []).append(hold)
    for pid, mine in by_pid.items():
        one, more = mine[0], len({hold.path for hold in mine}) - 1
        what = f"{one.path or 'the folder itself'} and {more} more are" if more else f"{one.path or 'the folder itself'} is"
        program = " ".join(table[pid].details.argv[:2])[:120] or table[pid].name  # enough to know it by, and too short for a secret
        by = f"by {program} (pid {pid})"
        yield f"{session}: {what} {one.how} {by}: {'their' if more else 'its'} space is freed when that process ends"


def _ask_until_one_hangs(pids: List[int], ask: Callable[[int], _Answer], tell: Tell) -> List[_Answer]:
    """What those before it have answered."""
    batch = Batch(pids, ask)
    at = batch.wait(
        LOCKED_MAP_TIMEOUT_S, lambda number: tell(f"open files of {number} of {len(pids)} processes checked", number, len(pids))
    )
    return batch.answers[:at]


def _of(pid: int) -> Iterator[FileUse]:
    for path, how in _links(pid):
        match = _PLACE.search(path)
        if match:
            yield FileUse(pid, match[1], match[2] or "", how)


def _links(pid: int) -> Iterator[Tuple[str, str]]:
    yield from ((link, how) for name, how in _WORKS.items() for link in [read_link(f"/proc/{pid}/{name}")] if link)
    with suppress(OSError):  # it has ended, or is not ours to look into
        yield from ((link, "held open") for link in open_files(pid))
    with suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        for path in _mapped(maps):
            yield os.fsdecode(path).replace("\\012", "\n"), "mapped"


class _TooLongError(Exception):
    """More than anybody needs."""


def _mapped(maps: Iterable[bytes]) -> Iterator[bytes]:
    """Raises `_TooLongError`."""
    read_bytes = 0
    for line in maps:
        read_bytes += len(line)
        if read_bytes > MOST_MAPS_BYTES:
            raise _TooLongError
        if b"/session_" in line:
            yield line[line.index(b"/") :].rstrip(b"\n")


_WORKS: Mapping[str, str] = {"cwd": "used as working directory", "exe": "executed", "root": "used as root directory"}
