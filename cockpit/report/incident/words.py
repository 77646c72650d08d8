"""Writes moments, time spans, usage and summaries in words, for the HTML and the Markdown report alike."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from cockpit.model import LEVELS
from cockpit.report.incident.account import Account, ActionDone, Episode, FaultEpisode, Hours, JobCourse, MemoryStatus, UsageRow, UserRow
from cockpit.report.usage import hours_words
from cockpit.text import UNKNOWN, age, count, plural, ratio, share_percent, size
from cockpit.usage import CAUSES, IdleCause

_SESSION_TIME = "%Y-%m-%d_%H-%M-%S"


def duration_words(begin: float | None, end: float | None) -> str:
    """The duration; `–` if a moment is unknown or implausible."""
    seconds = math.nan if begin is None or end is None else end - begin
    return age(seconds) if math.isfinite(seconds) else UNKNOWN


def _date(moment: float | None, form: str) -> str:
    """The moment in this format; `–` if it is no valid date: a recording may contain anything."""
    try:
        return UNKNOWN if moment is None else time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


class MomentFormatter:
    """Writes moments of one report: with the day if the report covers more than one."""

    def __init__(self, begin: float, end: float) -> None:
        same = _date(begin, "%F") == _date(end, "%F")
        self._format = "%H:%M:%S" if same else "%b %d %H:%M:%S"

    def at(self, moment: float | None) -> str:
        """`03:10:22`."""
        return _date(moment, self._format)

    def span(self, begin: float, end: float | None) -> str:
        """`03:10:22 – 03:25:00 (14m38s)`."""
        if end is None:
            return f"{self.at(begin)} – not cleared"
        return f"{self.at(begin)} – {self.at(end)} ({duration_words(begin, end)})"


def long_date(moment: float) -> str:
    """`2026-11-23 03:10:22 UTC`."""
    return _date(moment, "%Y-%m-%d %H:%M:%S %Z")


def cluster_words(account: Account) -> str:
    """The cluster of the report: its Ray, address and sessions."""
    ray = f"Ray {account.ray_version or UNKNOWN} at {account.address or UNKNOWN}"
    before = f"before it {', '.join(account.earlier_sessions)}" if account.earlier_sessions else ""
    return ", ".join(filter(None, (f"job {account.job}" if account.job else "", ray, account.session or "", before)))


def session_words(account: Account, session: str | None) -> str:
    """` (Ray of Nov 22 08:06)` for `session_2026-11-22_08-06-42_896130_410`; empty for the last session, or if there is only one."""
    if session in (None, account.session) or not account.earlier_sessions:
        return ""
    try:
        return f" (Ray of {time.strftime('%b %d %H:%M', time.strptime(session[8:27], _SESSION_TIME))})"
    except ValueError:
        return f" ({session})"


def watched_words(account: Account) -> str:
    """The time of the report, and how much of it was not recorded."""
    missing = f"; {age(account.unwatched_s)} of it was not recorded, see the gaps" if account.unwatched_s >= 1 else ""
    return f"{long_date(account.begin)} to {long_date(account.end)} ({duration_words(account.begin, account.end)}{missing})"


def summary(account: Account) -> str:
    """The report in one sentence."""
    kills, restarts = sum(row.kills for row in account.usage), sum(row.restarts for row in account.usage)
    return (
        f"{_found(account, 'critical', 'critical finding')}, {_found(account, 'warning', 'warning')}, "
        f"{plural(len(account.actions), 'action')}, {plural(len(account.jobs), 'job')}, {plural(restarts, 'restart')} of actors, "
        f"{plural(kills, 'out-of-memory kill')}."
    )


def _found(account: Account, level: str, noun: str) -> str:
    """`8 critical findings (3 open at the end)`."""
    found = [one for one in account.findings if one.level == level]
    still = sum(one.end is None for one in found)
    return f"{plural(len(found), noun)}{f' ({still} open at the end)' if still else ''}"


def open_findings(account: Account) -> Sequence[Episode]:
    """Findings that were open at the end, the most severe first, then the oldest."""
    return sorted((one for one in account.findings if one.end is None), key=lambda one: (LEVELS.index(one.level), one.begin))


def closed_findings(account: Account) -> Sequence[Episode]:
    """Findings that had cleared, in the order in which they began."""
    return [one for one in account.findings if one.end is not None]


def reported_at_words(episode: Episode, clock: MomentFormatter) -> str:
    """`as reported at 03:10:22`: the text of a finding is in the present tense of that moment."""
    return f"as reported at {clock.at(episode.told_at)}"


def fleet_words(account: Account) -> str:
    """All GPU-hours and their shares: reserved, busy, idle, unknown."""
    fleet = account.fleet
    if not fleet.there:
        return "No GPU was seen."
    unknown = f", unknown {_share(fleet.unknown, fleet.there)}" if fleet.unknown else ""
    return (
        f"{hours_words(fleet.there)} GPU-hours: reserved {_share(fleet.reserved, fleet.there)}, busy {_share(fleet.busy, fleet.there)}, "
        f"idle {_share(fleet.idle, fleet.there)}{unknown}."
    )


def _share(part: float, whole: float) -> str:
    return share_percent(ratio(part, whole))


def had(given: Hours) -> float:
    """The hours in which the GPUs were reserved or held, so that nobody else could use them."""
    return given.busy + given.idle + given.unknown


def user_cells(row: UserRow) -> tuple[str, ...]:
    """A user's row in a table; busy is a share of the hours with known use."""
    hours = row.hours
    return (
        row.user or UNKNOWN,
        str(row.jobs),
        hours_words(had(hours)),
        _share(hours.busy, hours.busy + hours.idle),
        count(row.gpus_at_end or 0),
        size(row.gpu_memory_at_end),
        size(row.host_memory_at_end),
    )


def causes(idle: Mapping[IdleCause, float]) -> str:
    """Idle hours by cause, the most first."""
    return ", ".join(f"{hours_words(value)} {CAUSES[cause]}" for cause, value in sorted(idle.items(), key=lambda item: -item[1]))


def owner_words(row: UsageRow, account: Account) -> str:
    """The owner of GPU-hours: a job, or another owner with its kind."""
    name = row.name or UNKNOWN if row.kind == "job" else f"{row.kind}: {row.name or UNKNOWN}"
    return f"{name}{session_words(account, row.session)}"


def memory_words(memory: MemoryStatus | None) -> str:
    """Memory in use on the fullest host, as a share of Ray's kill line."""
    if memory is None:
        return UNKNOWN
    line = f"{_share(memory.used, memory.kill_at)} of the kill line" if memory.kill_at else f"{_share(memory.used, memory.total)} used"
    return f"{size(memory.used)} on {memory.node}, {line}"


def times_words(episode: Episode) -> str:
    """`, 3 times`; empty if it began only once."""
    return f", {episode.times} times" if episode.times > 1 else ""


def phases_words(course: JobCourse) -> str:
    """`rollout 45%, training 31%, scoring 24%; 412 steps of 6m35s`."""
    whole = sum(course.seconds.values())
    most = sorted(course.seconds.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{phase} {_share(seconds, whole)}" for phase, seconds in most if seconds >= 0.01 * whole)
    steps = f"{plural(course.steps, 'step')} of {age(course.step_seconds)}" if course.steps else ""
    return "; ".join(filter(None, (shares, steps)))


MAX_TARGETS = 3
"""Targets of an action that are named; the rest are counted."""


def action_words(action: ActionDone) -> str:
    """The action and its targets: jobs, processes or folders."""
    more = f" and {len(action.targets) - MAX_TARGETS} more" if len(action.targets) > MAX_TARGETS else ""
    return action.text + (f": {', '.join(action.targets[:MAX_TARGETS])}{more}" if action.targets else "")


def fault_words(fault: FaultEpisode) -> str:
    """The source, its host, and its error."""
    return f"{fault.source}{f' on {fault.title or fault.host}' if fault.host else ''}: {fault.text}"
