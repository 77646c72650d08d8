"""Jobs: status, GPUs, entrypoint, duration, message; and which user has and has used how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.findings.jobs import error_lines
from cockpit.model import Job
from cockpit.report.usage import gpu_hours, idle_words
from cockpit.text import UNKNOWN, count, percent, ratio, size
from cockpit.ui import cells
from cockpit.ui.pages.page import Page
from cockpit.ui.section import MAX_TEXT_LINES, Column, Section
from cockpit.ui.view import View
from cockpit.usage import HourSums, UserUsage


class JobsPage(Page):
    """Those that run first, then the newest; below them who uses what."""

    title = "Jobs"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """Jobs, and users."""
        jobs = view.snapshot.jobs
        rows = None if jobs is None else sorted(jobs, key=lambda job: (not job.running, -(job.started or 0)))
        return (_section(rows), _users_section(view))


def _section(rows: list[Job] | None) -> Section[Job]:
    columns: tuple[Column[Job], ...] = (
        Column("JOBS", 22, lambda job, _: job.id, sort=lambda job, _: job.id),
        Column("STATUS", 11, lambda job, view: cells.state(job.status, view), sort=lambda job, _: job.status),
        Column("STARTED", 7, lambda job, view: cells.ago(job.started, view), sort=lambda job, _: job.started, right=True, rank=3),
        Column("RUNTIME", 7, cells.run_time, sort=_run_seconds, right=True),
        Column("GPU MEM", 7, _memory, sort=lambda job, view: view.index.job_gpus.get(job.job or "", (0, 0))[0], right=True, rank=1),
        Column("GPUS", 5, _gpus, sort=lambda job, view: _had_now(job, view), right=True),
        Column("GPU-H", 6, _hours, sort=lambda job, view: _sums(job, view).had, right=True, rank=4),
        Column("BUSY", 4, _busy, sort=lambda job, view: _busy_share(_sums(job, view)), right=True, rank=5),
        Column(
            "ENTRYPOINT",
            18,
            lambda job, _: cells.shorten_command(job.entrypoint or UNKNOWN),
            sort=lambda job, _: job.entrypoint,
            grow=True,
            fold=MAX_TEXT_LINES,
        ),
        Column("MESSAGE", 18, lambda job, _: ((last_line(job), "dim"),), rank=2, grow=True, fold=MAX_TEXT_LINES),
    )
    nothing = "no jobs" if rows is not None else "not known: no answer from Ray yet"
    return Section("jobs", "JOBS", columns, rows, nothing, lambda job: f"{job.id} {job.job} {job.status} {job.entrypoint} {job.message}")


def _users_section(view: View) -> Section[UserRow]:
    columns: tuple[Column[UserRow], ...] = (
        Column("USERS", 22, lambda row, _: row.used.user or UNKNOWN, sort=lambda row, _: row.used.user),
        Column("JOBS", 5, lambda row, _: str(row.used.jobs), sort=lambda row, _: row.used.jobs, right=True),
        Column("GPUS", 5, lambda row, _: count(row.used.gpus or 0), sort=lambda row, _: row.used.gpus or 0, right=True),
        Column("GPU-H", 6, lambda row, _: gpu_hours(row.used.sums.had), sort=lambda row, _: row.used.sums.had, right=True),
        Column("BUSY", 4, lambda row, _: _percent(row.used.sums), sort=lambda row, _: _busy_share(row.used.sums), right=True),
        Column("GPU MEM", 7, lambda row, _: size(row.used.gpu_memory), sort=lambda row, _: row.used.gpu_memory, right=True),
        Column("HOST MEM", 8, lambda row, _: size(row.used.host_memory), sort=lambda row, _: row.used.host_memory, right=True, rank=1),
        Column("IDLE", 20, lambda row, _: ((idle_words(row.used.sums.idle), "dim"),), grow=True, rank=2),
    )
    usage = view.history.usage
    rows = None if usage.begin is None else [UserRow(used) for used in usage.users()]
    return Section("users", "USERS", columns, rows, "none seen" if rows is not None else "not watched yet", lambda row: row.used.user or "")


@dataclass(frozen=True)
class UserRow:
    """A user, with what is theirs."""

    used: UserUsage
    about = None
    """Nothing opens on Enter."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"user:{self.used.user}"


def _sums(job: Job, view: View) -> HourSums:
    known = view.history.usage.of_job(job)
    return known.sums if known else HourSums()


def _had_now(job: Job, view: View) -> float | None:
    known = view.history.usage.of_job(job)
    return known.now.had if known and known.now else None


def _gpus(job: Job, view: View) -> str:
    now = _had_now(job, view)
    return count(now) if now is not None else "" if not job.running else UNKNOWN


def _hours(job: Job, view: View) -> str:
    sums = _sums(job, view)
    return gpu_hours(sums.had) if sums.had else ""


def _busy(job: Job, view: View) -> str:
    return _percent(_sums(job, view))


def _percent(sums: HourSums) -> str:
    share = _busy_share(sums)
    return percent(None if share is None else 100 * share) if sums.had else ""


def _busy_share(sums: HourSums) -> float | None:
    """Of the time of which it is known whether they worked."""
    return ratio(sums.busy, sums.had - sums.unknown)


def _run_seconds(job: Job, view: View) -> float | None:
    return None if job.started is None else (job.ended or view.now) - job.started


def _memory(job: Job, view: View) -> str:
    if not job.running:
        return ""
    held = view.index.job_gpus.get(job.job or "")
    if held is None:
        return UNKNOWN if view.index.holders_unknown else "0B"
    return (">" if view.index.holders_unknown else "") + size(held[0])


def last_line(job: Job) -> str:
    """What a failed job raised, as its finding says it; of any other the last line of its message."""
    if job.status == "FAILED":
        return next(reversed(error_lines(job.message)), "")
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
