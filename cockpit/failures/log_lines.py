"""Removes the prefixes of Ray, torchrun, launchers and loggers from the lines of a log, and keeps who wrote each line and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

MAX_MARKS: Final = 256
"""Different marks of launchers that are read in one log."""
MAX_MARK_CHARS: Final = 200
"""The mark of a launcher must end in so many characters of a line."""
MAX_LINE_CHARS: Final = 4000
"""Characters of a line that are read; the rest is dropped."""
_ESCAPES: Final = re.compile(
    r"#033\[[\d;]{1,10}m|\[(?:36|39|0)m"
    r"|\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|.)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_DATE: Final = re.compile(r"(?P<open>\[)?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?(open)\]) ")
"""Kubernetes, docker and loggers write the time before each line."""
_WRITER: Final = re.compile(
    r"\((?:(?:(?P<name>[\w.:\-\[\]]{1,100}) )?(?:rank=(?P<rank>\d{1,5}) )?pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\w.:\-]{1,100}))?"
    r"|(?P<part>raylet|autoscaler|gcs_server)[^)\n]{0,80})\) ?"
)
"""Before a line Ray writes `(WorkerDict pid=12, ip=10.0.0.2) `, vLLM `(EngineCore_0 pid=12) ` or `(VllmWorker rank=0 pid=12) `."""
_RANK: Final = re.compile(r"\[?(?:rank|default)(?P<rank>\d{1,5})\]?:? ?")
"""torch writes `[rank3]: ` before an uncaught error, torchrun `[default3]:` before each line."""
_REPEATED: Final = re.compile(r" \[repeated (?P<times>\d{1,6})x across (?:cluster|all nodes)\].{0,200}$")
"""Ray's driver prints equal lines of many workers once (ray/_private/ray_logging/__init__.py)."""
_LOGGED: Final = re.compile(
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-)?\d\d-\d\d \d\d:\d\d:\d\d "
    r"\[?(?P<place>[\w./]{1,80}:\d{1,6})\] ?)"
)
"""vLLM's logger writes its mark before each line of a traceback too: `ERROR 11-27 10:00:00 [core.py:700] `."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_LAUNCHER: Final = re.compile(
    r"(?P<mark>\[\d{1,5},(?P<mpi>\d{1,5})\]<std(?:err|out)>: ?|(?:\[\d{1,5}\] ?){1,2}|(?P<task>\d{1,5}): ?"
    r"|[\w.-]{1,80}(?:: ?|\s{1,40}\| ?))Traceback \(most recent call last\):"
)
"""srun, mpirun, pdsh and docker compose write task, host or container before a line: `3: `, `[1,3]<stderr>:`, `w1: `, `head-1  | `."""
_CLOCK: Final = re.compile(r"\b([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?")
_CLOCK_WITHIN: Final = 120
"""The time of a line is searched for in so many characters at its beginning."""


class LogLine(msgspec.Struct, frozen=True):
    """One line without the marks before it."""

    number: int
    """The number of the line in the text that was read, from 0."""
    text: str
    writer: str = ""
    """Ray's or vLLM's name of the process: `WorkerDict`, `raylet`; empty: the driver, or unknown."""
    pid: int | None = None
    ip: str | None = None
    """The address of its node; `None`: the driver's own node, or unknown."""
    rank: int | None = None
    clock: float | None = None
    """Seconds since midnight by the line's own time."""
    times: int = 1
    """The number of processes that wrote it, by Ray's count."""
    is_dated: bool = False
    """Whether it begins with a date, as the lines of a logger do."""
    logged_at: str = ""
    """The file and line that vLLM's logger names; empty: another program wrote it."""

    @property
    def stream(self) -> tuple[str, int | None, str | None, int | None]:
        """The stream of the line. Lines of one stream belong together, even if a log mixes the streams."""
        return self.writer, self.pid, self.ip, self.rank


def launcher_marks(lines: Sequence[str]) -> dict[str, int | None]:
    """The marks that a launcher writes before each line, also of a traceback, with the rank that they name."""
    starts = (_LAUNCHER.match(line) for line in lines if _TRACEBACK in line[:MAX_MARK_CHARS])
    marks = {start["mark"]: start["mpi"] or start["task"] for start in starts if start is not None}
    frames = {line[: line.index('  File "')] for line in lines if '  File "' in line[:MAX_MARK_CHARS]}
    return {mark: int(rank) if rank else None for mark, rank in list(marks.items())[:MAX_MARKS] if mark in frames}


def read_lines(
    lines: Iterable[str], first: int = 0, marks: Mapping[str, int | None] | None = None, most: int = MAX_LINE_CHARS
) -> Iterator[LogLine]:
    """The lines of a log, each without escapes and marks. A line that was overwritten with `\\r` is what it was last."""
    launcher = re.compile("|".join(re.escape(mark.rstrip()) + " ?" * mark.endswith(" ") for mark in marks)) if marks else None
    for number, raw in enumerate(lines, first):
        text = _ESCAPES.sub("", raw.rstrip("\r\n ").rpartition("\r")[2][:most])
        clock = _CLOCK.search(text, 0, _CLOCK_WITHIN)
        writer, pid, ip, rank, times, logged_at = "", None, None, None, 1, ""
        if marks and launcher is not None and (mark := launcher.match(text)) is not None:
            name = next(each for each in marks if each.rstrip() == mark[0].rstrip())
            writer, rank, text = name.strip(" :|") if marks[name] is None else "", marks[name], text[mark.end() :]
        if (mark := _DATE.match(text)) is not None:
            text = text[mark.end() :]
        is_dated = mark is not None
        while (mark := _WRITER.match(text)) is not None:
            writer, pid, ip = mark["name"] or mark["part"] or "", int(mark["pid"]) if mark["pid"] else None, mark["ip"]
            rank = int(mark["rank"]) if mark["rank"] else rank
            text = text[mark.end() :]
        # With `torchrun --log-line-prefix`, a line has both: `[default3]:[rank3]: `.
        while (mark := _RANK.match(text)) is not None:
            rank, text = int(mark["rank"]), text[mark.end() :]
        if (mark := _REPEATED.search(text)) is not None:
            times, text = int(mark["times"]), text[: mark.start()]
        if (mark := _LOGGED.match(text)) is not None:
            logged_at, text = mark["place"], text[mark.end() :]
        yield LogLine(number, text, writer, pid, ip, rank, _seconds(clock) if clock else None, times, is_dated, logged_at)


def _seconds(clock: re.Match[str]) -> float:
    return int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3]) + float(f"0.{clock[4] or 0}")
