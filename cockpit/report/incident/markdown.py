"""A report as Markdown that fits into a chat and can be read as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cockpit.model import LEVELS
from cockpit.report.commands import remedy_command
from cockpit.report.incident import words
from cockpit.report.incident.account import Account, Episode, JobSpan
from cockpit.report.usage import hours_words
from cockpit.text import UNKNOWN

MAX_LINES = 60
MAX_TEXT_CHARS = 300
MAX_EVIDENCE = 3
"""Lines of it, of a finding that needs somebody: which pid, which file."""
_ROOM = {"acts": 5, "jobs": 5, "faults": 3, "gaps": 1, "usage": 6, "users": 3}
"""Rows of each kind; findings have what the others leave of `MAX_LINES`."""
_SPECIAL = re.compile(r"[\\`*\[\]<>|#~]|(?<!\w)_|_(?!\w)")


def account_markdown(account: Account) -> str:
    """The whole."""
    return "\n".join(_lines(account, words.MomentFormatter(account.begin, account.end)))


def who_markdown(account: Account) -> str:
    """Who uses what, alone."""
    head = (f"# Who uses what: {_plain(words.cluster_words(account))}", _plain(words.watched_words(account)), words.fleet_words(account))
    return "\n".join((*head, *_usage(account, len(account.usage)), *_users(account, len(account.users))))


def _plain(text: str) -> str:
    """Foreign text that stays text: no image, no HTML, no other line, and no link but a bare address, which shows where it leads."""
    short = text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
    return _SPECIAL.sub(r"\\\g<0>", short)


def _lines(account: Account, clock: words.MomentFormatter) -> Iterator[str]:
    yield f"# {_plain(words.cluster_words(account))}"
    yield _plain(words.watched_words(account))
    yield f"{words.summary(account)} {words.fleet_words(account)}"
    rest = list(_rest(account, clock))
    yield from _findings(account, clock, MAX_LINES - len(rest) - _HEAD_LINES)
    yield from rest


_HEAD_LINES = 6
"""The title and two lines more, two headings of findings, and how many are left out."""


def _rest(account: Account, clock: words.MomentFormatter) -> Iterator[str]:
    yield from _list_section(
        "Actions", [f"{clock.at(one.at)} {_plain(words.act_words(one))}{_by(one.user, one.host)}" for one in account.acts], "acts"
    )
    yield from _list_section("Jobs", [_job(job, account, clock) for job in account.jobs], "jobs")
    faults = [f"{clock.span(one.begin, one.end)} {_plain(words.fault_words(one))}" for one in account.faults]
    yield from _list_section("Failing sources", faults, "faults")
    gaps = [f"{clock.span(*gap)} nothing is recorded" for gap in account.gaps]
    yield from _list_section("Gaps of the recording", [*gaps, *map(_plain, account.damage)], "gaps")
    yield from _usage(account, _ROOM["usage"])
    yield from _users(account, _ROOM["users"])


def _list_section(title: str, rows: Sequence[str], kind: str) -> Iterator[str]:
    if rows:
        yield f"## {title}"
        yield from (f"- {row}" for row in rows[: _ROOM[kind]])
        yield from _left_out(len(rows) - _ROOM[kind])


def _left_out(number: int) -> Iterator[str]:
    if number > 0:
        yield f"- {number} more: `cockpit report -o FILE.html` has all"


def _findings(account: Account, clock: words.MomentFormatter, room: int) -> Iterator[str]:
    """What is open at the end, then what is over; where not all have room, the worst."""
    found = (*words.open_findings(account), *words.closed_findings(account))
    kept = list(_fit(sorted(found, key=lambda one: LEVELS.index(one.level)), clock, room))
    still = [lines for one, lines in kept if one.end is None]
    over = [lines for one, lines in sorted(kept, key=lambda pair: pair[0].begin) if one.end is not None]
    for title, told in (("Open at the end", still), ("Cleared", over)):
        yield f"## {title}{'' if told else ': nothing'}"
        yield from chain.from_iterable(told)
    yield from _left_out(len(account.findings) - len(kept))


def _fit(ranked: Sequence[Episode], clock: words.MomentFormatter, room: int) -> Iterator[tuple[Episode, Sequence[str]]]:
    """The lines of as many as have room, each with its evidence where that has room too."""
    kept: list[list[str]] = []
    for one in ranked:
        if len(lines := list(_finding(one, clock))) > room:
            break
        kept.append(lines)
        room -= len(lines)
    for one, lines in zip(ranked, kept, strict=False):
        evidence = list(_evidence(one, clock))
        fits = len(evidence) <= room
        room -= len(evidence) if fits else 0
        yield one, [*lines, *evidence] if fits else lines


def _finding(one: Episode, clock: words.MomentFormatter) -> Iterator[str]:
    yield f"- {clock.span(one.begin, one.end)} **{one.level.upper()}** {_plain(one.text)}{words.times_words(one)}"
    if one.remedy and one.level == "critical":
        command = remedy_command(one.act, one.about)
        yield f"  → {_plain(one.remedy)}" + (f" ({_plain(command)})" if command else "")


def _evidence(one: Episode, clock: words.MomentFormatter) -> Iterator[str]:
    if one.level == "critical" and one.evidence:
        yield f"  {words.told_words(one, clock)}:"
        yield from (f"  - {_plain(line)}" for line in one.evidence[:MAX_EVIDENCE])


def _by(user: str | None, host: str | None) -> str:
    return f" (by {_plain(user or UNKNOWN)}{f' on {_plain(host)}' if host else ''})"


def _job(job: JobSpan, account: Account, clock: words.MomentFormatter) -> str:
    begun = f"{clock.at(job.started)} started" if job.started is not None and job.started >= account.begin else "ran before"
    ended = "" if job.ended is None else f", {clock.at(job.ended)} ended"
    why = f": {_plain(job.error)}" if job.error else ""
    return f"{_plain(job.id + words.session_words(account, job.session))} {_plain(job.status)}, {begun}{ended}{why}"


def _usage(account: Account, room: int) -> Iterator[str]:
    rows = [row for row in account.usage if words.had(row.hours) or row.kills or row.restarts]
    if not rows:
        return
    yield "## GPU-hours"
    titles = ("whose", "user", "reserved", "held", "busy", "idle", "unknown", "fullest host", "idle because")
    table = [
        (
            words.owner_words(row, account),
            row.user or UNKNOWN,
            *map(hours_words, (row.hours.reserved, row.hours.held, row.hours.busy, row.hours.idle, row.hours.unknown)),
            words.memory_words(row.fullest_host),
            words.causes(row.hours.idle_by_cause),
        )
        for row in rows[:room]
    ]
    yield from _table(titles, table)
    yield from _left_out(len(rows) - room)


def _users(account: Account, room: int) -> Iterator[str]:
    if not account.users:
        return
    yield "## Users"
    titles = ("user", "jobs", "GPU-hours", "busy", "GPUs at the end", "GPU memory", "host memory")
    yield from _table(titles, map(words.user_cells, account.users[:room]))
    yield from _left_out(len(account.users) - room)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Aligned, so that it can be read where nobody draws it."""
    cells = [titles, *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(titles))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells]
    yield lines[0]
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from lines[1:]
