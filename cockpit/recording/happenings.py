"""What happened between two snapshots: findings and faults that began, got worse or ended, jobs that began or ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cockpit.findings.jobs import error_lines
from cockpit.model import LEVELS, Fault, Finding, Job, Level, Snapshot
from cockpit.recording.events import Event, Phase


def has_news(before: Snapshot, now: Snapshot) -> bool:
    """Whether there may be events between them; cheap enough to be asked with every snapshot."""
    return (
        _levels(before.findings) != _levels(now.findings)
        or _keys(before.faults) != _keys(now.faults)
        or (before.jobs is not now.jobs and _statuses(before) != _statuses(now))
    )


def _levels(findings: Iterable[Finding]) -> Mapping[str, Level]:
    return {finding.key: finding.level for finding in findings}


def _keys(faults: Iterable[Fault]) -> frozenset[str]:
    return frozenset(fault.key for fault in faults)


def _statuses(snapshot: Snapshot) -> Mapping[str, str] | None:
    return None if snapshot.jobs is None else {job.id: job.status for job in snapshot.jobs}


def events_between(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    """What has happened; `Snapshot()` comes before the first."""
    yield from _differences(before.findings, now.findings, now.taken)
    yield from _worsened(_levels(before.findings), now)
    yield from _outages(before.faults, now.faults, now.taken)
    if before.jobs is not None and now.jobs is not None:
        yield from _jobs({job.id: job for job in before.jobs}, now.jobs, now.taken)


def _differences(before: Iterable[Finding | Fault], now: Iterable[Finding | Fault], at: float) -> Iterator[Event]:
    old, new = {one.key: one for one in before}, {one.key: one for one in now}
    yield from (_event(new[key], at, "begin") for key in new.keys() - old.keys())
    yield from (_event(old[key], at, "end") for key in old.keys() - new.keys())


def _outages(before: Iterable[Fault], now: Iterable[Fault], at: float) -> Iterator[Event]:
    """Of faults of several sources with one text, as where a dashboard has ended, the first that begins and the last that ends."""
    said = {"begin": {fault.text for fault in before}, "end": {fault.text for fault in now}}
    for event in _differences(before, now, at):
        if event.text not in said[event.phase]:
            said[event.phase].add(event.text)
            yield event


def _worsened(before: Mapping[str, Level], now: Snapshot) -> Iterator[Event]:
    for finding in now.findings:
        if LEVELS.index(finding.level) < LEVELS.index(before.get(finding.key, "critical")):
            yield _event(finding, now.taken, "worse")


def _event(thing: Finding | Fault, at: float, phase: Phase) -> Event:
    if isinstance(thing, Finding):
        return Event(at, "finding", thing.text, phase, thing.subject, thing.level, thing.key, thing.about)
    return Event(at, "fault", thing.text, phase, thing.host or thing.source, None, thing.key)


def _jobs(before: Mapping[str, Job], now: Iterable[Job], at: float) -> Iterator[Event]:
    """At the moment whose state shows it, some seconds after Ray's own time: whoever goes there sees it."""
    for job in now:
        old = before.get(job.id)
        if old is None:
            yield _job_event(job, at, "begin", f"job {job.id} was submitted" if job.submission else f"job {job.id} started")
        if not job.running and (old is None or old.running):
            why = "".join(f": {line}" for line in error_lines(job.message)[-1:])
            yield _job_event(job, at, "end", f"job {job.id} ended: {job.status}{why if job.status == 'FAILED' else ''}")


def _job_event(job: Job, at: float, phase: Phase, text: str) -> Event:
    return Event(at, "job", text, phase, job.id, "critical" if phase == "end" and job.status == "FAILED" else None, job.key, (job.key,))
