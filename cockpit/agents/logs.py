"""Reads a log for an agent: its end, the lines with a text, or those around a line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from cockpit.agents.answers import Page, safe_text, without_escapes, write_answer
from cockpit.cli.logs import FIRST_LINES_TIMEOUT_S, QUIET_S, find_logs
from cockpit.model import Snapshot
from cockpit.monitor.logs import Log
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.secrets import LineRedactor
from cockpit.sources.source import SourceError, run_in_thread
from cockpit.text import clean

MAX_LINES: Final = 50_000
MAX_BYTES: Final = 8 << 20
"""Of the end of a log."""
LINE_CHARS: Final = 300
MAX_MATCHES: Final = 2_000
MAX_WITH_CONTEXT, NEAR_LINES = 3, 5
"""So few found lines are shown with so many lines before and after each."""
AROUND_LINES: Final = 12
"""Lines before and after the one that was asked for."""
WRITE_TIMEOUT_S: Final = 120.0
"""Secrets in 8 MB of the most hostile lines are found in 16 s."""
KEPT: Final = 6
"""Logs whose lines are kept, so that a line has the same number in the next call."""


class ReadLog(msgspec.Struct):
    """A log as it was read, with its other logs' names."""

    title: str
    label: str
    others: tuple[str, ...]
    lines: Sequence[str]
    is_cut: bool
    """It has earlier lines that were not read."""


class LogReader:
    """Reads logs, and keeps the last ones."""

    def __init__(self, monitor: ClusterMonitor) -> None:
        self._monitor = monitor
        self._kept: dict[tuple[str | None, ...], ReadLog] = {}

    async def answer(self, target: str, host: str | None, log: str | None, search: str | None, line: int | None, start: int) -> str:
        """The answer of the tool. Raises `SourceError`."""
        key = (target, host, log)
        if (line is None and start == 0) or key not in self._kept:
            self._kept[key] = await self._read(target, host, log)
            while len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        read = self._kept[key]
        return await run_in_thread(partial(_write, read, search, line, start), f"the log {read.label}", WRITE_TIMEOUT_S)

    async def _read(self, target: str, host: str | None, log: str | None) -> ReadLog:
        snapshot = self._monitor.poller.snapshot
        found = await find_logs(self._monitor, real_name(target, snapshot), host)
        chosen = next((one for one in found if log in (None, one.label, one.file)), None)
        if chosen is None:
            raise SourceError(f"it has no log of that name; it has: {', '.join(one.label for one in found)}")
        others = tuple(one.label for one in found if one is not chosen)
        lines = await self._lines_of(chosen, target, snapshot)
        return ReadLog(chosen.title, chosen.label, others, lines, len(lines) >= MAX_LINES)

    async def _lines_of(self, log: Log, target: str, snapshot: Snapshot) -> list[str]:
        """The lines of a log as it is now. A job's log that no node can read from its file is followed until it says nothing more."""
        job = next((job for job in snapshot.jobs or () if target in (job.id, job.job)), None)
        try:
            ending = self._monitor.logs.log_until_now(job) if job is not None and log.label == "job" else log
            return await ending.read_end(MAX_LINES, MAX_BYTES)
        except SourceError:
            if log.label != "job":
                raise
        lines: list[str] = []
        batches, timeout = log.follow(MAX_LINES, False).__aiter__(), FIRST_LINES_TIMEOUT_S
        while len(lines) < MAX_LINES:
            task = asyncio.ensure_future(anext(batches, None))
            await asyncio.wait([task], timeout=timeout)
            if not task.done():
                task.cancel()
                break
            if (batch := task.result()) is None:
                break
            lines += batch
            timeout = QUIET_S
        return lines


def _write(read: ReadLog, search: str | None, line: int | None, start: int) -> str:
    """The answer from a log. It may take seconds, as all of a hostile log is searched for secrets. Raises `SourceError`."""
    count = len(read.lines)
    head: dict[str, Any] = {"log": read.title, "name": read.label, "other_logs": list(read.others) or None, "lines_read": count}
    if read.is_cut:
        head["earlier"] = "the log has earlier lines that were not read; numbers count from the first line that was"
    if search is not None:
        # What is hidden must not change the number of lines that are found.
        numbers = [number for number in range(count) if _matches(search, read.lines[number])]
        found = (shown for shown in _show(read.lines, numbers) if _matches(search, shown[1]))
        shown = dict(islice(found, MAX_MATCHES))
        head["found"] = len(shown)
        head["found_more_than"] = MAX_MATCHES if next(found, None) else None
        if 0 < len(shown) <= MAX_WITH_CONTEXT:
            near = sorted({each for number in shown for each in range(max(0, number - NEAR_LINES), min(count, number + NEAR_LINES + 1))})
            page = Page("lines", [*_show(read.lines, near)], lambda line: _row(line, is_match=line[0] in shown), start)
            return write_answer({**head, "marked": "the found lines begin with >"}, page)
        return write_answer(head, Page("matches", [*shown.items()], _row, start, "call it again with the same search and start"))
    if line is not None:
        if not 1 <= line <= count:
            raise SourceError(f"expected a line from 1 to {count}")
        first, last = max(0, line - 1 - AROUND_LINES), min(count, line + AROUND_LINES)
        page = Page("lines", [*_show(read.lines, range(first, last))], _row, start, "call it again with start")
        return write_answer({**head, "around": line}, page)
    return _end_of(read, head)


def real_name(shown: str, snapshot: Snapshot) -> str:
    """Return the name of a job, actor or node as Ray has it, for one that an agent has read in an answer: cleaned, with secrets hidden."""
    names = {name for job in snapshot.jobs or () for name in (job.id, job.job) if name}
    names |= {name for actor in snapshot.actors or () for name in (actor.name, actor.class_, actor.id) if name}
    names |= {node.title for node in snapshot.nodes or ()}
    if shown in names:
        return shown
    found = [name for name in names if safe_text(name) == shown]
    return found[0] if len(found) == 1 else shown


def _matches(search: str, line: str) -> bool:
    """Whether the line has one of the texts that `|` separates. No patterns: one could take hours on a hostile line."""
    lower = line[:MAX_BYTES].lower()
    return any(part.strip().lower() in lower for part in search.split("|") if part.strip())


def _show(lines: Sequence[str], numbers: Sequence[int] | range) -> Iterator[tuple[int, str]]:
    """Yield these lines as an agent may see them. The lines between are passed over, as the name of a secret may be on the line before."""
    hide, at = LineRedactor(), max(0, numbers[0] - 2_000) if numbers else 0
    for number in numbers:
        for before in range(at, number):
            hide.skip(without_escapes(lines[before]))
        yield number, clean(hide(without_escapes(lines[number])))
        at = number + 1


def _row(numbered: tuple[int, str], *, is_match: bool = False, times: int = 1) -> str:
    """`24: the text`; `> 24: the text` for a found line."""
    number, text = numbered
    cut = text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}… ({len(text) - LINE_CHARS} more characters)"
    return f"{'> ' if is_match else ''}{number + 1}: {cut}{f' (the last of {times} similar lines)' if times > 1 else ''}"


def _end_of(read: ReadLog, head: dict[str, Any]) -> str:
    """The last lines, as many as fit, oldest first. Equal neighbours are counted."""
    numbers = range(max(0, len(read.lines) - 400), len(read.lines))
    groups: list[tuple[int, str, int]] = []
    for number, text in _show(read.lines, numbers):
        if groups and re.sub(r"\d+", "0", groups[-1][1]) == re.sub(r"\d+", "0", text):
            groups[-1] = (number, text, groups[-1][2] + 1)
        else:
            groups.append((number, text, 1))

    def row(group: tuple[int, str, int]) -> str:
        return _row(group[:2], times=group[2])

    count = len(groups)
    while True:  # from the end: the newest lines count most
        shown = groups[-count:]
        left = shown[0][0] - shown[0][2] + 1 if shown else 0
        note = f"{left} earlier lines: line=N shows those around line N, search=TEXT finds lines" if left else None
        answer = write_answer({**head, "left_out": note}, Page("lines", shown, row))
        if count <= 1 or "next" not in msgspec.json.decode(answer):
            return answer
        count = count * 3 // 4
