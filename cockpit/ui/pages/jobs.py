"""Jobs: status, GPUs, entrypoint, duration, message; and which user has and has used how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.findings.jobs import error_lines
from cockpit.model import Job
from cockpit.model.titles import shorten_command
from cockpit.report.usage import gpu_hours, idle_words
from cockpit.text import UNKNOWN, age, count, ratio, share_percent
from cockpit.ui import cells
from cockpit.ui.columns import age_column, number_column, text_column
from cockpit.ui.section import MAX_TEXT_LINES, Column, Item, Page, Section
from cockpit.ui.view import View
from cockpit.usage import HourSums, UserUsage


class JobsPage(Page):
    """Those that run first, then the newest; below them who uses what."""

    title = "Jobs"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        jobs = view.snapshot.jobs
        rows = None if jobs is None else sorted(jobs, key=lambda job: (not job.running, -(job.started or 0)))
        return (_section(rows), _users_section(view))


def _section(rows: list[Job] | None) -> Section[Job]:
    columns: tuple[Column[Job], ...] = (
        text_column("JOBS", 22, lambda job, _: job.id, name=True),
        Column("STATUS", 11, lambda job, view: cells.state(job.status, view), sort=lambda job, _: job.status),
        age_column("STARTED", 7, lambda job, _: job.started, rank=3),
        number_column("RUNTIME", 7, cells.run_seconds, age),
        Column("GPU MEM", 7, _memory, sort=cells.job_memory_bytes, right=True, rank=1),
        Column("GPUS", 5, _gpus, sort=_had_now, right=True),
        number_column("GPU-H", 6, lambda job, view: _sums(job, view).had, _hours, rank=4),
        Column(
            "BUSY", 4, lambda job, view: _busy(_sums(job, view)), sort=lambda job, view: _busy_share(_sums(job, view)), right=True, rank=5
        ),
        text_column("ENTRYPOINT", 18, _entrypoint, grow=True, fold=MAX_TEXT_LINES),
        Column("MESSAGE", 18, lambda job, _: ((last_line(job), "dim"),), rank=2, grow=True, fold=MAX_TEXT_LINES),
    )
    return Section(
        "jobs",
        "JOBS",
        columns,
        rows,
        "no jobs",
        lambda job: f"{job.id} {job.job} {job.status} {job.entrypoint} {job.message}",
        cells.is_listed_long_ago,
    )


def _users_section(view: View) -> Section[Item[UserUsage]]:
    columns: tuple[Column[Item[UserUsage]], ...] = (
        text_column("USERS", 22, lambda row, _: row.of.user or None, name=True),
        number_column("JOBS", 5, lambda row, _: row.of.jobs, str),
        number_column("GPUS", 5, lambda row, _: row.of.gpus or 0, count),
        number_column("GPU-H", 6, lambda row, _: row.of.sums.had, gpu_hours),
        Column("BUSY", 4, lambda row, _: _busy(row.of.sums), sort=lambda row, _: _busy_share(row.of.sums), right=True),
        number_column("GPU MEM", 7, lambda row, _: row.of.gpu_memory),
        number_column("HOST MEM", 8, lambda row, _: row.of.host_memory, rank=1),
        Column("IDLE", 20, lambda row, _: ((idle_words(row.of.sums.idle), "dim"),), grow=True, rank=2),
    )
    usage = view.history.usage
    rows = None if usage.begin is None else [Item(f"user:{used.user}", used) for used in usage.users()]
    return Section("users", "USERS", columns, rows, "none seen", lambda row: row.of.user or "", unknown="not watched yet")


def _entrypoint(job: Job, _: View) -> str | None:
    return shorten_command(job.entrypoint) if job.entrypoint else None


def _sums(job: Job, view: View) -> HourSums:
    return known.sums if (known := view.history.usage.of_job(job)) else HourSums()


def _had_now(job: Job, view: View) -> float | None:
    return known.now.had if (known := view.history.usage.of_job(job)) and known.now else None


def _gpus(job: Job, view: View) -> str:
    now = _had_now(job, view)
    return count(now) if now is not None else "" if not job.running else UNKNOWN


def _hours(seconds: float) -> str:
    return gpu_hours(seconds) if seconds else ""


def _busy(sums: HourSums) -> str:
    return share_percent(_busy_share(sums)) if sums.had else ""


def _busy_share(sums: HourSums) -> float | None:
    """Of the time of which it is known whether they worked."""
    return ratio(sums.busy, sums.had - sums.unknown)


def _memory(job: Job, view: View) -> str:
    return cells.job_gpus(job, view)[0] if job.running else ""


def last_line(job: Job) -> str:
    """What a failed job raised, as its finding says it; of any other the last line of its message."""
    if job.status == "FAILED":
        return next(reversed(error_lines(job.message)), "")
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
