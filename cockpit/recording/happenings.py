"""What happened between two snapshots: findings and faults that began or ended, jobs that began or ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cockpit.model import Fault, Finding, Job, Snapshot
from cockpit.recording.events import Event, EventKind

FAILED = ("FAILED",)


def has_news(before: Snapshot, now: Snapshot) -> bool:
    """Whether there may be events between them; cheap enough to be asked with every snapshot."""
    return (
        _keys(before.findings) != _keys(now.findings)
        or _keys(before.faults) != _keys(now.faults)
        or (before.jobs is not now.jobs and _statuses(before) != _statuses(now))
    )


def _keys(things: Iterable[Finding | Fault]) -> frozenset[str]:
    return frozenset(thing.key for thing in things)


def _statuses(snapshot: Snapshot) -> Mapping[str, str] | None:
    return None if snapshot.jobs is None else {job.id: job.status for job in snapshot.jobs}


def events_between(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    """What has happened; `Snapshot()` comes before the first."""
    yield from _differences("finding", before.findings, now.findings, now.taken)
    yield from _differences("fault", before.faults, now.faults, now.taken)
    if before.jobs is not None and now.jobs is not None:
        yield from _jobs({job.id: job for job in before.jobs}, now.jobs, now.taken)


def _differences(kind: EventKind, before: Iterable[Any], now: Iterable[Any], at: float) -> Iterator[Event]:
    old, new = {one.key: one for one in before}, {one.key: one for one in now}
    yield from (_event(kind, new[key], at, "begin") for key in new.keys() - old.keys())
    yield from (_event(kind, old[key], at, "end") for key in old.keys() - new.keys())


def _event(kind: EventKind, thing: Finding | Fault, at: float, phase: Any) -> Event:
    if isinstance(thing, Finding):
        return Event(at, kind, thing.text, phase, thing.subject, thing.level, thing.key, thing.about)
    return Event(at, kind, thing.text, phase, thing.host or thing.source, None, thing.key)


def _jobs(before: Mapping[str, Job], now: Iterable[Job], at: float) -> Iterator[Event]:
    for job in now:
        old = before.get(job.id)
        if old is None:
            yield _job_event(job, job.started or at, "begin", f"job {job.id} was submitted" if job.submission else f"job {job.id} began")
        if not job.running and (old is None or old.running):
            why = f": {job.message.splitlines()[0]}" if job.message else ""
            yield _job_event(job, job.ended or at, "end", f"job {job.id} ended: {job.status}{why if job.status in FAILED else ''}")


def _job_event(job: Job, at: float, phase: Any, text: str) -> Event:
    return Event(at, "job", text, phase, job.id, "critical" if phase == "end" and job.status in FAILED else None, job.key, (job.key,))
