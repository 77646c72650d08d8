"""Reads the Python stacks of several processes and shows equal stacks once, the rarest first, to find the cause of a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from rich.cells import set_cell_size

from cockpit.model import Actor, Finding, Job, Process, Snapshot
from cockpit.model.about import find_things
from cockpit.model.titles import whole_name
from cockpit.report.stacks import is_idle
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.source import SourceError
from cockpit.text import plural
from cockpit.ui.cells import place
from cockpit.ui.folding import fold_text
from cockpit.ui.view import View

MIN_STACK_COLUMNS = 46
"""Minimum width for stacks side by side. With less room they are listed below each other."""
MAX_STACKS_ABREAST = 4
STACK_HANG = 2
"""Cells by which the rest of a folded line is indented."""
MAX_TITLES = 6
"""Processes of a group whose titles are listed; the others are counted."""
MAX_REQUESTS = 64
"""Requests at the same time: each starts a program on its host."""
Calls = tuple[StackFrame, ...]
"""The calls of a thread, the innermost first."""


class Stack(msgspec.Struct, frozen=True):
    """The threads of one process, or the reason why they could not be read."""

    title: str
    threads: tuple[Calls, ...] = ()
    error: str | None = None

    @property
    def busy_threads(self) -> frozenset[Calls]:
        """The threads that are not idle."""
        return frozenset(thread for thread in self.threads if not all(map(is_idle, thread)))


async def read_stacks(ask: Callable[[Process], Awaitable[Sequence[StackThread]]], processes: Iterable[Process], view: View) -> list[Stack]:
    """Read the stacks of these processes. If one could not be read, its `error` has the reason."""
    slots = asyncio.Semaphore(MAX_REQUESTS)

    async def one(process: Process) -> Stack:
        try:
            async with slots:
                return Stack(_title(process, view), tuple(thread.frames for thread in await ask(process)))
        except SourceError as error:
            return Stack(_title(process, view), error=str(error))

    return list(await asyncio.gather(*map(one, processes)))


def processes_of(rows: Iterable[Any], view: View) -> list[Process]:
    """The processes of these rows, without duplicates.

    A job has its processes with GPUs, else its driver. A finding has the processes of the things that it is about.
    """
    found: list[Process] = []
    listed = view.snapshot.processes or ()
    for row in rows:
        if isinstance(row, Process):
            found.append(row)
        elif isinstance(row, Finding):
            found += processes_of(find_things(row, view.snapshot), view)
        elif isinstance(row, Job):
            own = [process for process in listed if row.job and process.job == row.job]
            found += [process for process in own if process.gpus] or [process for process in own if process.kind == "driver"]
        elif isinstance(row, Actor):
            own = [process for process in listed if row.is_run_by(process) and process.kind == "worker"]
            if not own and row.pid and row.node:  # no probe has seen the process, but Ray lists it
                own = [Process(host=view.node_title(row.node), pid=row.pid, node=row.node, actor=row.id, job=row.job)]
            found += own
    return list({process.key: process for process in found}.values())


def running_job_of(rows: Iterable[Any], snapshot: Snapshot) -> Job | None:
    """The one running job that these rows are, belong to or are about; `None`: there is none, or there are several."""
    found: dict[str, Job] = {}
    for row in rows:
        jobs = [row] if isinstance(row, Job) else []
        if isinstance(row, Finding):
            jobs = [thing for thing in find_things(row, snapshot) if isinstance(thing, Job)]
        elif isinstance(row, (Actor, Process)):
            jobs = [job for job in (snapshot.index.jobs.get(row.job or ""),) if job is not None]
        found.update({job.key: job for job in jobs if job.running})
    return next(iter(found.values())) if len(found) == 1 else None


def _title(process: Process, view: View) -> str:
    """The actor of the process, the job of a driver, else its name; then pid, place and GPUs."""
    actor = view.cluster.actors.get(process.actor or "")
    if actor is not None:
        name = f"{actor.class_} {actor.name}".strip()
        if process.kind == "child" and process.name:
            name = f"{whole_name(process)} of {name}"
    elif process.kind == "driver" and process.job:
        name = f"driver of job {view.job_title(process.job)}"
    else:
        name = whole_name(process) or "process"
    gpus = f", GPU {','.join(str(hold.index) for hold in process.gpus)}" if process.gpus else ""
    return f"{name} (pid {process.pid} on {place(process, view)}{gpus})"


def stacks_text(stacks: Sequence[Stack], width: int, *, ascii: bool = False) -> str:
    """The stacks as a text of `width` columns: a column for each group of equal stacks, then the errors."""
    read = [each for each in stacks if each.error is None]
    by_threads: dict[frozenset[Calls], list[Stack]] = {}
    for each in read:
        by_threads.setdefault(each.busy_threads, []).append(each)
    groups = sorted(by_threads.values(), key=len)
    columns = []
    for group in groups:
        calls_of_others = {frame for other in groups if other is not group for thread in other[0].busy_threads for frame in thread}
        columns.append(list(_group_lines(group, len(read), calls_of_others)))
    room = width // max(1, len(columns)) - 2
    beside = 1 < len(columns) <= MAX_STACKS_ABREAST and room >= MIN_STACK_COLUMNS
    lines = [line for column in columns for line in (*column, "")]
    if beside:
        wrapped = [[part for line in column for part in fold_text(line, room, hang=STACK_HANG)] for column in columns]
        between, rows = " | " if ascii else " │ ", zip_longest(*wrapped, fillvalue="")
        lines = [between.join(set_cell_size(part, room) for part in row).rstrip() for row in rows]
    return "\n".join([*lines, *(f"{each.title}: {each.error}" for each in stacks if each.error is not None)])


def _group_lines(group: Sequence[Stack], total: int, calls_of_others: set[StackFrame]) -> Iterator[str]:
    """The processes of a group, then the calls of their busy threads. `>` marks calls that no other group makes."""
    titles = [each.title for each in group[:MAX_TITLES]]
    more = f", and {len(group) - MAX_TITLES} more" if len(group) > MAX_TITLES else ""
    yield f"{len(group)} of {total}: {', '.join(titles)}{more}" if total > 1 else titles[0]
    threads = sorted(group[0].busy_threads, key=len, reverse=True)
    for thread in threads:
        yield ""
        for frame in thread:
            is_odd = calls_of_others and frame not in calls_of_others and not is_idle(frame)
            yield f"  {'>' if is_odd else ' '} {frame.name} ({frame.file}:{frame.line})"
    idle = len(group[0].threads) - len(threads)
    if idle:
        yield ""
        yield f"    {plural(idle, 'idle thread')}" if threads else f"    idle: waits for work ({plural(idle, 'thread')})"
