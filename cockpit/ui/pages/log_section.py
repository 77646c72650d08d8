"""The last lines of a thing's log, on its page."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from cockpit.model import Actor, Job, Process
from cockpit.text import UNKNOWN
from cockpit.ui import cells
from cockpit.ui.log_tails import LogTail
from cockpit.ui.section import Column, FactRow, Section, paragraphs
from cockpit.ui.view import View

MIN_LINES: Final = 4
"""Listed even where lines below must be scrolled to: the end of a traceback."""
LOG_PART: Final = 5
"""Of the lines of the screen or pane one in so many is kept for the log, whatever lies below it."""
OLD_AFTER_S: Final = 15.0
"""Seconds from which on it is said when the lines were read."""


def has_log(thing: Any) -> TypeGuard[Actor | Job | Process]:
    """Whether its page has lines of a log. Ray writes none for a process that is not its own."""
    return isinstance(thing, (Actor, Job)) or (isinstance(thing, Process) and thing.kind != "foreign")


def log_sections(thing: Any, view: View) -> tuple[Section[FactRow], ...]:
    """One for what has a log, else none."""
    if not has_log(thing):
        return ()
    tail = view.log_tails.get(thing.key)
    if tail is None:
        return (_section("LOG", None, view),)
    if tail.log is None:
        return (paragraphs("log", "LOG", [f"{UNKNOWN}  {tail.why}"], view.width),)
    rows = [FactRow(f"log:{number}", "", line) for number, line in enumerate(tail.lines)]
    return (_section(_title(tail, view), rows, view),)


def _title(tail: LogTail, view: View) -> str:
    log = tail.log
    name = "" if log is None else log.title if log.label in ("job", "out", "err", log.file) else f"{log.label}: {log.title}"
    age = f", read {cells.ago(tail.read_at, view)} ago" if view.now - tail.read_at > OLD_AFTER_S else ""
    return f"LOG  {name}{age}  {tail.keys} opens it"


def _section(title: str, rows: list[FactRow] | None, view: View) -> Section[FactRow]:
    columns: tuple[Column[FactRow], ...] = (Column("", 20, lambda row, _: row.value, grow=True),)
    least, unknown = max(MIN_LINES, view.height // LOG_PART), "not read yet" if view.ago is None else "not recorded"
    return Section("log", title, columns, rows, "no lines yet", least=least, newest_last=True, fixed=True, unknown=unknown)
