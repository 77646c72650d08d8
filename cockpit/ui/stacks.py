"""Python stacks of several processes beside each other: equal ones folded, the odd one out first. That is how a hang is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from rich.cells import set_cell_size

from cockpit.model import Actor, Finding, Job, Process
from cockpit.model.about import find_things
from cockpit.model.titles import whole_name
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.source import SourceError
from cockpit.text import plural
from cockpit.ui.cells import place
from cockpit.ui.screens.dialogs import fold_line
from cockpit.ui.view import View

MIN_STACK_COLUMNS = 46
"""Columns that a stack beside others needs; where there is less room they lie below each other."""
MAX_STACKS_ABREAST = 4
STACK_HANG = 2
"""Cells by which the rest of a line is moved in."""
MAX_TITLES = 6
"""Processes of a group whose titles are listed; the rest is counted."""
IDLE_FILES = (
    "threading.py", "queue.py", "selectors.py", "socket.py", "asyncio/", "concurrent/futures/", "multiprocessing/", "ray/_private/",
    "ray/_raylet", "ray/util/", "runpy.py", "default_worker.py", "uvloop/", "tqdm/_monitor.py",
)  # fmt: skip
"""Files in which a thread only waits for work or is started; a thread with no other call is idle."""


MAX_REQUESTS = 64
"""Processes that are asked at once: each request starts a program on its host."""


Calls = tuple[StackFrame, ...]
"""The innermost call first."""


class Stack(msgspec.Struct, frozen=True):
    """The threads of one process, or why they could not be read."""

    title: str
    threads: tuple[Calls, ...] = ()
    error: str | None = None

    @property
    def busy_threads(self) -> frozenset[Calls]:
        """The threads that are not idle."""
        return frozenset(thread for thread in self.threads if not all(map(_is_idle, thread)))


def _is_idle(frame: StackFrame) -> bool:
    """Whether the call only waits for work or starts a thread."""
    return frame.file.startswith(IDLE_FILES) or any(f"/{part}" in frame.file for part in IDLE_FILES)


async def read_stacks(ask: Callable[[Process], Awaitable[Sequence[StackThread]]], processes: Iterable[Process], view: View) -> list[Stack]:
    """The stacks of all these processes; one that could not be read has the reason as its `error`."""
    room = asyncio.Semaphore(MAX_REQUESTS)

    async def one(process: Process) -> Stack:
        try:
            async with room:
                return Stack(_title(process, view), tuple(thread.frames for thread in await ask(process)))
        except SourceError as error:
            return Stack(_title(process, view), error=str(error))

    return list(await asyncio.gather(*map(one, processes)))


def processes_of(rows: Iterable[Any], view: View) -> list[Process]:
    """What these rows stand for, each once: a process, an actor's own, a job's that hold GPUs or its driver, what a finding is about."""
    return list({process.key: process for row in rows for process in _processes(row, view)}.values())


def _processes(row: Any, view: View) -> Iterable[Process]:
    listed = view.snapshot.processes or ()
    if isinstance(row, Process):
        return (row,)
    if isinstance(row, Finding):
        return processes_of(find_things(row, view.snapshot), view)
    if isinstance(row, Job):
        theirs = [process for process in listed if row.job and process.job == row.job]
        return [process for process in theirs if process.gpus] or [process for process in theirs if process.kind == "driver"]
    if not isinstance(row, Actor):
        return ()
    own = [process for process in listed if row.is_run_by(process) and process.kind == "worker"]
    if own or not row.pid or not row.node:
        return own
    return (Process(host=view.node_title(row.node), pid=row.pid, node=row.node, actor=row.id, job=row.job),)


def _title(process: Process, view: View) -> str:
    gpus = f", GPU {','.join(str(hold.index) for hold in process.gpus)}" if process.gpus else ""
    return f"{_what(process, view)} (pid {process.pid} on {place(process, view)}{gpus})"


def _what(process: Process, view: View) -> str:
    """Its actor; for a child that and its own name; for a driver its job."""
    actor = view.cluster.actors.get(process.actor or "")
    if actor is not None:
        name = f"{actor.class_} {actor.name}".strip()
        return f"{whole_name(process)} of {name}" if process.kind == "child" and process.name else name
    if process.kind == "driver" and process.job:
        return f"driver of job {view.job_title(process.job)}"
    return whole_name(process) or "process"


def stacks_text(stacks: Sequence[Stack], width: int, *, ascii: bool = False) -> str:
    """The text of a page that is so many columns wide."""
    seen = [each for each in stacks if each.error is None]
    groups = _groups(seen)
    columns = [list(_lines(group, len(seen), _others(group, groups))) for group in groups]
    room = width // max(1, len(columns)) - 2
    beside = 1 < len(columns) <= MAX_STACKS_ABREAST and room >= MIN_STACK_COLUMNS
    lines = [line for column in columns for line in (*column, "")]
    if beside:
        wrapped = [[part for line in column for part in fold_line(line, room, STACK_HANG)] for column in columns]
        between, rows = " | " if ascii else " │ ", zip_longest(*wrapped, fillvalue="")
        lines = [between.join(set_cell_size(part, room) for part in row).rstrip() for row in rows]
    return "\n".join([*lines, *(f"{each.title}: {each.error}" for each in stacks if each.error is not None)])


def _groups(stacks: Iterable[Stack]) -> list[list[Stack]]:
    """Those that do the same, the fewest first."""
    found: dict[frozenset[Calls], list[Stack]] = {}
    for each in stacks:
        found.setdefault(each.busy_threads, []).append(each)
    return sorted(found.values(), key=len)


def _others(group: Sequence[Stack], groups: Iterable[Sequence[Stack]]) -> frozenset[StackFrame]:
    """The calls in which any other group is."""
    return frozenset(frame for other in groups if other is not group for thread in other[0].busy_threads for frame in thread)


def _lines(group: Sequence[Stack], total: int, others: frozenset[StackFrame]) -> Iterator[str]:
    titles = [each.title for each in group[:MAX_TITLES]]
    more = f", and {len(group) - MAX_TITLES} more" if len(group) > MAX_TITLES else ""
    yield f"{len(group)} of {total}: {', '.join(titles)}{more}" if total > 1 else titles[0]
    threads = sorted(group[0].busy_threads, key=len, reverse=True)
    for thread in threads:
        yield ""
        for frame in thread:
            is_odd = others and frame not in others and not _is_idle(frame)  # no other group is in this call
            yield f"  {'>' if is_odd else ' '} {frame.name} ({frame.file}:{frame.line})"
    idle = len(group[0].threads) - len(threads)
    if idle:
        yield ""
        yield f"    {plural(idle, 'idle thread')}" if threads else f"    idle: waits for work ({plural(idle, 'thread')})"
