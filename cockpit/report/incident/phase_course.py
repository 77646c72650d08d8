"""Reduces the phases of each job to a fixed number of parts."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model import Job, Snapshot
from cockpit.report.incident.account import JobCourse, PhasePart
from cockpit.report.phases import Band

PARTS = 240
"""The time of a report is divided into so many parts. Each has the phase that took the most of it."""
LOOK_EVERY_S = 30.0
"""Seconds between two snapshots that are used. A snapshot has the last phases of a job for much longer."""
JobKey = tuple[str | None, str]
"""The Ray session of a job, and its key."""


class PhaseCourses:
    """Collects the phases of all jobs from snapshots. They must be added in order."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._end = begin, end
        self._bands: dict[JobKey, Band] = {}
        self._known_until: dict[JobKey, float] = {}
        self._steps: dict[JobKey, tuple[int, float, float]] = {}
        """By job: the number of steps, their seconds, and the end of the last one."""
        self._looked = float("-inf")
        self._last: tuple[Snapshot, str | None] | None = None

    def add(self, snapshot: Snapshot, session: str | None) -> None:
        """Add a snapshot of a session."""
        if self._last is not None and self._last[1] != session:
            self.finish()
        self._last = (snapshot, session)
        if snapshot.taken - self._looked >= LOOK_EVERY_S:
            self._look(snapshot, session, is_last=False)

    def finish(self) -> None:
        """End the session: phases that run in its last snapshot end with that snapshot."""
        if self._last is not None:
            self._look(*self._last, is_last=True)
        self._last = None

    def _look(self, snapshot: Snapshot, session: str | None, *, is_last: bool) -> None:
        self._looked = snapshot.taken
        for span in snapshot.spans:
            key = (session, span.job)
            if (span.ended is None and not is_last) or span.began < self._known_until.get(key, float("-inf")):
                continue
            ended = self._known_until[key] = max(span.began, span.ended if span.ended is not None else snapshot.taken)
            if ended > self._begin:
                self._bands.setdefault(key, Band(self._begin, self._end, PARTS)).add(span.phase, span.began, ended)
        for step in snapshot.steps:
            key = (session, step.job)
            count, seconds, until = self._steps.get(key, (0, 0.0, self._begin))
            if step.ended > until:
                self._steps[key] = (count + 1, seconds + step.seconds, step.ended)

    def of(self, job: Job, session: str | None) -> JobCourse | None:
        """The phases of a job; `None`: unknown."""
        key = (session, job.key)
        if (band := self._bands.get(key)) is None:
            return None
        count, seconds, _ = self._steps.get(key, (0, 0.0, 0.0))
        return JobCourse(
            job=job.id,
            session=session,
            parts=tuple(_parts(band)),
            seconds={phase or "unknown": round(each, 1) for phase, each in band.seconds.items()},
            steps=count,
            step_seconds=round(seconds / count, 1) if count else None,
        )


def _parts(band: Band) -> Sequence[PhasePart]:
    """The parts of a band with a known phase. Neighbouring parts with the same phase are joined."""
    width = (band.end - band.begin) / PARTS
    parts: list[PhasePart] = []
    for number, phase in enumerate(band.phases):
        begin = band.begin + number * width
        if phase is None:
            continue
        if parts and parts[-1].phase == phase and abs(parts[-1].end - begin) < width / 2:
            parts[-1] = PhasePart(phase, parts[-1].begin, begin + width)
        else:
            parts.append(PhasePart(phase, begin, begin + width))
    return parts
