"""Writes a report as Markdown that fits into a chat and can be read unrendered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cockpit.model import LEVELS
from cockpit.report.commands import remedy_command
from cockpit.report.incident import words
from cockpit.report.incident.account import Account, Episode
from cockpit.report.usage import hours_words
from cockpit.text import UNKNOWN

MAX_LINES = 60
MAX_TEXT_CHARS = 300
MAX_EVIDENCE = 3
"""Lines of evidence of a critical finding, which name the pid or the file."""
_ROOM = {"acts": 5, "jobs": 5, "faults": 3, "gaps": 1, "usage": 6, "users": 3}
"""Rows of each kind; findings get the rest of `MAX_LINES`."""
_HEAD_LINES = 6
"""The title and two more lines, two headings of findings, and the number of findings left out."""
_SPECIAL = re.compile(r"[\\`*\[\]<>|#~]|(?<!\w)_|_(?!\w)")


def account_markdown(account: Account) -> str:
    """The whole report."""
    clock = words.MomentFormatter(account.begin, account.end)
    head = (
        f"# {_plain(words.cluster_words(account))}",
        _plain(words.watched_words(account)),
        f"{words.summary(account)} {words.fleet_words(account)}",
    )
    rest = list(_rest(account, clock))
    return "\n".join([*head, *_findings(account, clock, MAX_LINES - len(rest) - _HEAD_LINES), *rest])


def who_markdown(account: Account) -> str:
    """Only the usage by job and by user."""
    head = (f"# Who uses what: {_plain(words.cluster_words(account))}", _plain(words.watched_words(account)), words.fleet_words(account))
    return "\n".join((*head, *_usage(account, len(account.usage)), *_users(account, len(account.users))))


def _plain(text: str) -> str:
    """Foreign text with all markup escaped. A bare address may still become a link, but it shows its own target."""
    short = text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
    return _SPECIAL.sub(r"\\\g<0>", short)


def _rest(account: Account, clock: words.MomentFormatter) -> Iterator[str]:
    """Everything after the findings."""
    actions: list[str] = []
    for action in account.actions:
        by = f"by {_plain(action.user or UNKNOWN)}{f' on {_plain(action.host)}' if action.host else ''}"
        actions.append(f"{clock.at(action.at)} {_plain(words.action_words(action))} ({by})")
    yield from _list_section("Actions", actions, "acts")
    jobs: list[str] = []
    courses = {(course.job, course.session): course for course in account.phases}
    for job in account.jobs:
        begun = f"{clock.at(job.started)} started" if job.started is not None and job.started >= account.begin else "ran before"
        ended = "" if job.ended is None else f", {clock.at(job.ended)} ended"
        why = f": {_plain(job.error)}" if job.error else ""
        course = courses.get((job.id, job.session))
        phases = f" ({words.phases_words(course)})" if course is not None else ""
        jobs.append(f"{_plain(job.id + words.session_words(account, job.session))} {_plain(job.status)}, {begun}{ended}{why}{phases}")
    yield from _list_section("Jobs", jobs, "jobs")
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
    """Findings open at the end, then cleared ones; the most severe ones if there is no room for all."""
    # The sentences of as many findings as fit, the most severe first.
    found = sorted((*words.open_findings(account), *words.closed_findings(account)), key=lambda one: LEVELS.index(one.level))
    kept: list[tuple[Episode, list[str]]] = []
    for one in found:
        lines = [f"- {clock.span(one.begin, one.end)} **{one.level.upper()}** {_plain(one.text)}{words.times_words(one)}"]
        if one.remedy and one.level == "critical":
            command = remedy_command(one.action, one.about)
            lines.append(f"  → {_plain(one.remedy)}" + (f" ({_plain(command)})" if command else ""))
        if len(lines) > room:
            break
        kept.append((one, lines))
        room -= len(lines)

    # Evidence of critical findings, as far as there is still room.
    for one, lines in kept:
        if one.level == "critical" and one.evidence:
            evidence = [f"  {words.reported_at_words(one, clock)}:", *(f"  - {_plain(line)}" for line in one.evidence[:MAX_EVIDENCE])]
            if len(evidence) <= room:
                lines.extend(evidence)
                room -= len(evidence)

    still = [lines for one, lines in kept if one.end is None]
    over = [lines for one, lines in sorted(kept, key=lambda pair: pair[0].begin) if one.end is not None]
    for title, each in (("Open at the end", still), ("Cleared", over)):
        yield f"## {title}{'' if each else ': nothing'}"
        yield from chain.from_iterable(each)
    yield from _left_out(len(account.findings) - len(kept))


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
    """A table with aligned columns, readable where Markdown is not rendered."""
    cells = [titles, *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(titles))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells]
    yield lines[0]
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from lines[1:]
