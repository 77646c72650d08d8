"""Reads, in the background, the last lines of running jobs' logs, to find the steps that frameworks print."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Job, LogSteps, Snapshot
from cockpit.monitor.log_folder import Way
from cockpit.monitor.logs import LogFinder
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.phases.step_lines import StepLines, find_steps, log_steps
from cockpit.sources.source import SourceError, wait_within

MAX_STEP_LINES: Final = 200
MAX_STEP_BYTES: Final = 64 << 10
MAX_STEP_JOBS: Final = 8
"""The logs of so many jobs are read, of the newest ones."""
EVERY_S, SELDOM_S = 60.0, 120.0
"""Seconds between two reads of a log: a quarter of the time of the last step, within these bounds."""
JOBS_AT_FULL_PACE: Final = 4
"""With more jobs, each log is read less often: one read takes a probe a tenth of a second of CPU."""
MISSES: Final = 2
"""After so many reads without a step, the pause is `SELDOM_S`."""
RAY_EVERY_S: Final = 30.0
"""Seconds between two reads through Ray, for all jobs together: its dashboard has other users too."""
READ_TIMEOUT_S: Final = 10.0
KEPT_S: Final = 300.0
"""If a log can't be read again, its steps are forgotten after so many seconds."""


class _JobLog(msgspec.Struct):
    """The state of the log of one job."""

    due: float = 0.0
    misses: int = 0
    wrote: float | None = None
    """When the log had last grown, as the probe of its host reported at the last read."""
    found: StepLines | None = None
    steps: LogSteps | None = None


class StepReader:
    """Reads one log at a time. If the host of the log has a probe, that probe reads it, and Ray is not asked.

    A log that has not grown is not read again. Only numbers and phases are kept, no text.
    """

    def __init__(self, poller: Poller, logs: LogFinder) -> None:
        self._poller, self._logs = poller, logs
        self._session: str | None = None
        self._jobs: dict[str, _JobLog] = {}
        self._running: list[Job] = []
        self._ray_due = 0.0
        self._reading = Reading()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget jobs that have ended, and read the logs that are due."""
        session = snapshot.cluster.session
        if snapshot.jobs is None or (session is not None and self._session is not None and session != self._session):
            self.close()
            self._session, self._ray_due = None, 0.0
            self._jobs.clear()
        self._session = session or self._session
        nodes = snapshot.index.nodes
        jobs = [job for job in snapshot.jobs or () if job.running and job.submission and job.driver_node in nodes]
        self._running = sorted(jobs, key=lambda job: -(job.started or 0.0))[:MAX_STEP_JOBS]
        self._jobs = {job.key: self._jobs.get(job.key) or _JobLog() for job in self._running}
        now = self._poller.clock()
        for log in self._jobs.values():
            if log.steps is not None and now - log.steps.read > KEPT_S:
                log.steps = log.found = log.wrote = None
        self._publish()
        if self._find_due(snapshot) is not None and not self._reading.is_running:
            self._reading.start(self._read_due())

    async def read_once(self, patience: float) -> None:
        """Read the logs of the jobs in the newest snapshot; give up after `patience` seconds."""
        self.on_snapshot(self._poller.snapshot)
        await self._reading.finish(patience)

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def _publish(self) -> None:
        self._poller.set_log_steps(tuple(log.steps for log in self._jobs.values() if log.steps is not None))

    def _find_due(self, snapshot: Snapshot) -> tuple[Job, Way] | None:
        """The job whose log has been due the longest, and whether a probe or Ray reads it."""
        now = self._poller.clock()
        due: list[tuple[float, Job, Way]] = []
        for job in self._running:
            log = self._jobs[job.key]
            if log.due > now:
                continue
            wrote, is_probed = _find_growth(job, snapshot)
            if is_probed and wrote is not None and wrote == log.wrote:
                if log.steps is not None:  # the log has nothing new, so its steps are as fresh as after a read
                    log.steps = msgspec.structs.replace(log.steps, read=now)
                log.due = now + EVERY_S
            elif is_probed or now >= self._ray_due:
                due.append((log.due, job, "probe" if is_probed else "ray"))
        return min(due, key=lambda each: each[0])[1:] if due else None

    async def _read_due(self) -> None:
        while (due := self._find_due(self._poller.snapshot)) is not None:
            job, way = due
            log = self._jobs[job.key]
            log.due = self._poller.clock() + SELDOM_S  # after any error, the read is not repeated at once
            if way == "ray":
                self._ray_due = self._poller.clock() + RAY_EVERY_S
            wrote = _find_growth(job, self._poller.snapshot)[0]
            try:
                lines = await wait_within(READ_TIMEOUT_S, self._logs.read_job_end(job, MAX_STEP_LINES, MAX_STEP_BYTES, way))
            except (SourceError, asyncio.TimeoutError):
                continue
            framework = next((one.framework for one in self._poller.snapshot.activities if one.job == job.key), None)
            found = await asyncio.to_thread(find_steps, lines, framework, job.entrypoint or "")
            if self._jobs.get(job.key) is log:  # else the job is no longer watched
                self._take(log, job, found, wrote)
                self._publish()

    def _take(self, log: _JobLog, job: Job, found: StepLines | None, wrote: float | None) -> None:
        now = self._poller.clock()
        log.wrote = wrote
        if found is None:
            # Hundreds of other lines may follow those of a step, so the known steps stay for a while.
            log.misses += 1
            log.due = now + (SELDOM_S if log.misses > MISSES else EVERY_S)
            return
        before, log.misses = log.steps, 0
        is_new_growth = wrote is not None and (before is None or wrote > before.read)
        is_old_phase = log.found is not None and log.found.phase_line == found.phase_line
        written = min(wrote, now) if wrote is not None and is_new_growth else now
        log.steps = log_steps(found, job.key, now, written, before, is_old_phase=is_old_phase)
        log.found = found
        last = log.steps.ended[-1].seconds if log.steps.ended else 0.0
        pause = EVERY_S if found.phase is not None else min(max(EVERY_S, last / 4), SELDOM_S)
        log.due = now + pause * max(1.0, len(self._jobs) / JOBS_AT_FULL_PACE)


def _find_growth(job: Job, snapshot: Snapshot) -> tuple[float | None, bool]:
    """When the probe of its host last saw the log of the job grow, and whether there is such a probe."""
    node = snapshot.index.nodes.get(job.driver_node or "")
    host = snapshot.index.host_of(node) if node is not None else None
    if host is None or host.taken is None or snapshot.taken - host.taken > STALE_AFTER_S:
        return None, False
    return host.wrote.get(snapshot.cluster.session or "", {}).get(job.submission or ""), True
