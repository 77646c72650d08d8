"""Jobs: status, entrypoint, duration, message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.model import Job
from cockpit.text import UNKNOWN, size
from cockpit.ui import cells
from cockpit.ui.pages.page import Page
from cockpit.ui.section import MAX_TEXT_LINES, Column, Section
from cockpit.ui.view import View


class JobsPage(Page):
    """Those that run first, then the newest."""

    title = "Jobs"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """One list."""
        jobs = view.snapshot.jobs
        rows = None if jobs is None else sorted(jobs, key=lambda job: (not job.running, -(job.started or 0)))
        return (_section(rows),)


def _section(rows: list[Job] | None) -> Section[Job]:
    columns: tuple[Column[Job], ...] = (
        Column("JOBS", 22, lambda job, _: job.id, sort=lambda job, _: job.id),
        Column("STATUS", 11, lambda job, view: cells.state(job.status, view), sort=lambda job, _: job.status),
        Column("STARTED", 7, lambda job, view: cells.ago(job.started, view), sort=lambda job, _: job.started, right=True, rank=2),
        Column("RUNTIME", 7, cells.run_time, sort=_run_seconds, right=True),
        Column("GPU MEM", 7, _memory, sort=lambda job, view: view.index.job_gpus.get(job.job or "", (0, 0))[0], right=True, rank=3),
        Column(
            "ENTRYPOINT",
            18,
            lambda job, _: cells.shorten_command(job.entrypoint or UNKNOWN),
            sort=lambda job, _: job.entrypoint,
            grow=True,
            fold=MAX_TEXT_LINES,
        ),
        Column("MESSAGE", 18, lambda job, _: ((last_line(job), "dim"),), rank=1, grow=True, fold=MAX_TEXT_LINES),
    )
    nothing = "no jobs" if rows is not None else "not known: no answer from Ray yet"
    return Section("jobs", "JOBS", columns, rows, nothing, lambda job: f"{job.id} {job.job} {job.status} {job.entrypoint} {job.message}")


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
    """The line of the message that matters most is the last one that says something."""
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
