"""Finds the events between two snapshots: findings, faults and jobs that began or ended, and findings that got worse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cockpit.findings.failures import last_reason
from cockpit.model import LEVELS, Fault, Finding, Job, Snapshot
from cockpit.recording.events import Event, Phase


def has_news(before: Snapshot, now: Snapshot) -> bool:
    """Whether findings, faults or jobs have changed, so that the snapshot is recorded at once."""

    def key_facts(snapshot: Snapshot) -> tuple[object, ...]:
        levels = {finding.key: finding.level for finding in snapshot.findings}
        statuses = None if snapshot.jobs is None else {job.id: job.status for job in snapshot.jobs}
        return levels, {fault.key for fault in snapshot.faults}, statuses

    return key_facts(before) != key_facts(now)


def events_between(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    """The events since `before`; `Snapshot()` comes before the first snapshot."""
    at = now.taken
    yield from _differences(before.findings, now.findings, at)
    levels = {finding.key: finding.level for finding in before.findings}
    for finding in now.findings:
        if LEVELS.index(finding.level) < LEVELS.index(levels.get(finding.key, "critical")):
            yield _event(finding, at, "worse")
    # If a dashboard ends, several sources have a fault with the same text: only the first that begins and the last that ends count.
    seen = {"begin": {fault.text for fault in before.faults}, "end": {fault.text for fault in now.faults}}
    for event in _differences(before.faults, now.faults, at):
        if event.text not in seen[event.phase]:
            seen[event.phase].add(event.text)
            yield event
    # Jobs have the time of the snapshot, some seconds after Ray's own: there a reader sees their new state.
    if before.jobs is None or now.jobs is None:
        return
    jobs = {job.id: job for job in before.jobs}
    for job in now.jobs:
        old = jobs.get(job.id)
        if old is None:
            yield _job_event(job, at, "begin", f"job {job.id} was submitted" if job.submission else f"job {job.id} started")
        if not job.running and (old is None or old.running):
            why = last_reason(job, now) if job.status == "FAILED" else ""
            yield _job_event(job, at, "end", f"job {job.id} ended: {job.status}{f': {why}' if why else ''}")
    # The log of a failed job is read after its end, and may show another reason than Ray's message.
    read_before = {failure.about for failure in before.failures if failure.text}
    read_now = {failure.about for failure in now.failures if failure.text} - read_before
    for job in now.jobs if read_now else ():
        old = jobs.get(job.id)
        if job.key in read_now and job.status == "FAILED" and old is not None and old.status == "FAILED":
            why = last_reason(job, now)
            if why != last_reason(old, before):
                yield _job_event(job, at, "end", f"job {job.id} failed: {why}")


def _differences(before: Iterable[Finding | Fault], now: Iterable[Finding | Fault], at: float) -> Iterator[Event]:
    old, new = {one.key: one for one in before}, {one.key: one for one in now}
    yield from (_event(thing, at, "begin") for key, thing in new.items() if key not in old)
    yield from (_event(thing, at, "end") for key, thing in old.items() if key not in new)


def _event(thing: Finding | Fault, at: float, phase: Phase) -> Event:
    if isinstance(thing, Finding):
        return Event(at, "finding", thing.text, phase, thing.subject, thing.level, thing.key, thing.about)
    return Event(at, "fault", thing.text, phase, thing.host or thing.source, None, thing.key)


def _job_event(job: Job, at: float, phase: Phase, text: str) -> Event:
    return Event(at, "job", text, phase, job.id, "critical" if phase == "end" and job.status == "FAILED" else None, job.key, (job.key,))
