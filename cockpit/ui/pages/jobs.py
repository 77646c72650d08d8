"""Makes the page of jobs, and of the GPUs that each user has and has used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cockpit.findings.failures import last_reason
from cockpit.model import Job
from cockpit.model.titles import shorten_command
from cockpit.report.phases import JobPhases, phase_words, phases_by_job, step_words
from cockpit.report.usage import gpu_hours, idle_words
from cockpit.text import UNKNOWN, age, count, ratio, share_percent
from cockpit.ui import cells
from cockpit.ui.columns import age_column, number_column, text_column
from cockpit.ui.section import MAX_TEXT_LINES, Cell, Column, Item, Page, Row, Section
from cockpit.ui.view import View
from cockpit.usage import HourSums, UserUsage


class JobsPage(Page):
    """Running jobs first, then the newest; below them the use of each user."""

    title = "Jobs"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        jobs = view.snapshot.jobs
        rows = None if jobs is None else sorted(jobs, key=lambda job: (not job.running, -(job.started or 0)))
        return (_jobs_section(rows, has_phases=bool(view.snapshot.activities)), _users_section(view))


def _jobs_section(rows: list[Job] | None, *, has_phases: bool) -> Section[Job]:
    def sums(job: Job, view: View) -> HourSums:
        return known.sums if (known := view.history.usage.of_job(job)) else HourSums()

    def gpus_now(job: Job, view: View) -> float | None:
        return known.now.had if (known := view.history.usage.of_job(job)) and known.now else None

    def gpus(job: Job, view: View) -> str:
        now = gpus_now(job, view)
        return count(now) if now is not None else "" if not job.running else UNKNOWN

    def gpu_memory(job: Job, view: View) -> str:
        return cells.job_gpus(job, view)[0] if job.running else ""

    def entrypoint(job: Job, _: View) -> str | None:
        return shorten_command(job.entrypoint) if job.entrypoint else None

    def reason(job: Job, view: View) -> Cell:
        return ((last_reason(job, view.snapshot), "" if job.status == "FAILED" else "dim"),)

    def phases(job: Job, view: View) -> JobPhases | None:
        """`None`: it does not run."""
        return view.index.of(phases_by_job).get(job.key, JobPhases()) if job.status == "RUNNING" else None

    def phase(job: Job, view: View) -> str:
        return phase_words(known.activity) if (known := phases(job, view)) else ""

    def step(job: Job, view: View) -> str:
        return step_words(known.activity) if (known := phases(job, view)) else ""

    def step_number(job: Job, view: View) -> int | None:
        return known.activity.step if (known := phases(job, view)) and known.activity else None

    def step_seconds(job: Job, view: View) -> float | None:
        return known.step_seconds if (known := phases(job, view)) else None

    def step_time(job: Job, view: View) -> str:
        return age(step_seconds(job, view)) if job.status == "RUNNING" else ""

    # Where nothing failed or waits, a narrow screen has the room for the entrypoints.
    has_reasons = any(job.status in ("FAILED", "PENDING") for job in rows or ())
    reasons: tuple[Column[Job], ...] = (
        (Column("REASON", 18 if has_phases else 22, reason, rank=1, grow=True, fold=MAX_TEXT_LINES),) if has_reasons else ()
    )
    phase_columns: tuple[Column[Job], ...] = (
        Column("PHASE", 11, phase, sort=phase, grow=True),
        Column("STEP", 5, step, sort=step_number, right=True, rank=2),
        Column("STEP TIME", 9, step_time, sort=step_seconds, right=True, rank=4),
    )
    columns: tuple[Column[Job], ...] = (
        text_column("JOBS", 20 if has_phases else 22, lambda job, _: job.id, name=True),
        Column("STATUS", 11, lambda job, view: cells.state(job.status, view), sort=lambda job, _: job.status),
        age_column("STARTED", 7, lambda job, _: job.started, rank=7),
        number_column("RUNTIME", 7, cells.run_seconds, age),
        *(phase_columns if has_phases else ()),
        Column("GPU MEM", 7, gpu_memory, sort=cells.job_memory_bytes, right=True, rank=6),
        Column("GPUS", 5, gpus, sort=gpus_now, right=True, rank=3 if has_phases else 0),
        number_column("GPU-H", 6, lambda job, view: sums(job, view).had, lambda seconds: gpu_hours(seconds) if seconds else "", rank=8),
        _busy_column(sums, rank=9),
        *reasons,
        text_column("ENTRYPOINT", 18, entrypoint, rank=5, grow=True, fold=MAX_TEXT_LINES),
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
        text_column("USERS", 22, lambda row, _: row.value.user or None, name=True),
        number_column("JOBS", 5, lambda row, _: row.value.jobs, str),
        number_column("GPUS", 5, lambda row, _: row.value.gpus or 0, count),
        number_column("GPU-H", 6, lambda row, _: row.value.sums.had, gpu_hours),
        _busy_column(lambda row, _: row.value.sums),
        number_column("GPU MEM", 7, lambda row, _: row.value.gpu_memory),
        number_column("HOST MEM", 8, lambda row, _: row.value.host_memory, rank=1),
        Column("IDLE", 20, lambda row, _: ((idle_words(row.value.sums.idle), "dim"),), grow=True, rank=2),
    )
    usage = view.history.usage
    rows = None if usage.begin is None else [Item(f"user:{used.user}", used) for used in usage.users()]
    return Section("users", "USERS", columns, rows, "none seen", lambda row: row.value.user or "", unknown="not watched yet")


def _busy_column(sums: Callable[[Row, View], HourSums], rank: int = 0) -> Column[Row]:
    """The share of the GPU-hours in which the GPUs worked, leaving out the time for which that is unknown."""

    def share(row: Row, view: View) -> float | None:
        had = sums(row, view)
        return ratio(had.busy, had.had - had.unknown)

    return Column("BUSY", 4, lambda row, view: share_percent(share(row, view)) if sums(row, view).had else "", share, right=True, rank=rank)
