"""Reads a recording from one moment to another, and gathers findings, faults, actions, jobs and usage for a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from cockpit import __version__
from cockpit.findings.failures import last_reason
from cockpit.model import Actor, Fault, Job, PlacementGroup, Process, Snapshot
from cockpit.recording.events import Event
from cockpit.recording.recording import Recording
from cockpit.report.faults import by_cause
from cockpit.report.incident.account import Account, ActionDone, Episode, FaultEpisode, JobCourse, JobSpan
from cockpit.report.incident.downsampling import Course, point_of
from cockpit.report.incident.episodes import Span, Spans, complete_spans, event_spans, worse_finding
from cockpit.report.incident.phase_course import PhaseCourses
from cockpit.report.incident.session_usage import SessionUsages
from cockpit.secrets import redact_within
from cockpit.text import clean
from cockpit.text.grouping import group_by

STEPS = 3_000
"""About the largest number of snapshots that are read."""
LEAST_STEP_S, MAX_STEP_S = 5.0, 30.0
"""Seconds between two snapshots: more than a minute would count as not watched."""
MAX_LOOK_UPS = 200
"""Snapshots read for findings that began and ended between two steps: 40 ms each at 100 nodes."""
MAX_JOBS = 500
MAX_TEXT_CHARS = 4_000
"""Characters of one text from the cluster; a message can be as long as a log."""


class _Gatherer:
    """Everything gathered from the snapshots so far."""

    def __init__(self, job: str | None, begin: float, end: float) -> None:
        self.job = job
        self.usage = SessionUsages()
        self.phases = PhaseCourses(begin, end)
        self.course = Course()
        self.findings, self.faults = Spans(worse_finding), Spans[Fault]()
        self.titles: dict[str, str] = {}
        """Titles of hosts on which a source failed, by name."""
        self.jobs: dict[tuple[str | None, str], Job] = {}
        """By Ray session and key."""
        self.reasons: dict[tuple[str | None, str], str] = {}
        """By Ray session and key: why the job failed."""
        self.related: set[str] = set()
        """Keys of things that belong to `job`."""

    def add(self, snapshot: Snapshot) -> None:
        if self.usage.add(snapshot):
            self.course.add(point_of(snapshot, self.usage.last.fleet))
        self.phases.add(snapshot, self.usage.last.session)
        now = snapshot.taken
        self.findings.see(now, {each.key: (each, each.since or now) for each in snapshot.findings})
        self.titles.update({fault.host: snapshot.index.titles.of_host(fault.host) for fault in snapshot.faults if fault.host})
        self.faults.see(now, {each.key: (each, each.since) for each in by_cause(snapshot.faults)})
        for job in snapshot.jobs or ():
            if (key := (self.usage.last.session, job.key)) in self.jobs or len(self.jobs) < MAX_JOBS:
                self.jobs[key] = job
                # What its log shows is known some seconds after its end, and forgotten some hours later.
                has_read = any(failure.about == job.key and failure.text for failure in snapshot.failures)
                if job.status == "FAILED" and (has_read or key not in self.reasons) and (reason := last_reason(job, snapshot)):
                    self.reasons[key] = reason
        if (name := self.job) is None:
            return
        # Things that belong to the only job of the report.
        mine = {job.job for job in snapshot.jobs or () if name in (job.id, job.job, job.submission)} - {None} | {name}
        things: Iterator[Actor | PlacementGroup | Process | Job] = chain(
            snapshot.actors or (), snapshot.placement_groups or (), snapshot.processes or (), snapshot.jobs or ()
        )
        self.related |= {f"job:{name}", *(thing.key for thing in things if thing.job in mine)}
        for used in self.usage.last.owners:
            if used.owner.name in mine and used.now is not None:
                self.related |= used.now.nodes

    @property
    def job_names(self) -> Mapping[str, str]:
        """Names of jobs by Ray's own id; ids that two sessions gave to different jobs are left out."""
        found = group_by((job for job in self.jobs.values() if job.job), lambda job: job.job or "")
        return {name: jobs[0].id for name, jobs in found.items() if len({job.id for job in jobs}) == 1}

    def concerns(self, about: Iterable[str]) -> bool:
        """Whether a finding about these keys belongs to the job, or to the whole cluster."""
        keys = tuple(about)
        return self.job is None or not keys or any(key in self.related or key.rpartition(":")[0] in self.related for key in keys)


def make_account(recording: Recording, begin: float | None = None, end: float | None = None, job: str | None = None) -> Account:
    """The report of a recording between two moments, perhaps of one job; without secrets and terminal control characters."""
    begin = max(recording.begin, recording.begin if begin is None else begin)
    end = min(recording.end, recording.end if end is None else end)
    seen, step = _Gatherer(job, begin, end), min(MAX_STEP_S, max(LEAST_STEP_S, (end - begin) / STEPS))
    for snapshot in recording.walk(begin, end, step):
        seen.add(snapshot)
    seen.phases.finish()

    # Only events know findings that began and ended between two steps. The snapshot of their beginning has evidence and remedy.
    usage, events = seen.usage, recording.events(begin, end)
    from_events = event_spans(events, end)
    spans = complete_spans(seen.findings.all, from_events)
    missed = [span for span in spans if any(span is one for one in from_events)]
    moments = list(dict.fromkeys(span.begin for span in missed))[:MAX_LOOK_UPS]
    states = {moment: recording.snapshot_at(moment) for moment in moments}
    for span in missed:
        state = states.get(span.begin)
        span.thing = next((one for one in (state.findings if state else ()) if one.key == span.key), span.thing)

    faults: list[FaultEpisode] = []
    for each in seen.faults.all:
        fault = each.thing
        faults.append(FaultEpisode(fault.source, fault.host, fault.text, each.begin, each.end, seen.titles.get(fault.host or "")))

    cluster = recording.cluster
    account = Account(
        address=cluster.address,
        ray_version=cluster.ray_version,
        session=cluster.session,
        earlier_sessions=tuple(one for one in usage.sessions if one != cluster.session),
        begin=begin,
        end=end,
        job=seen.job,
        watched_s=usage.watched_s,
        unwatched_s=usage.unwatched_s,
        gaps=tuple((max(begin, one), min(end, other)) for one, other in recording.gaps if other > begin and one < end),
        damage=tuple(recording.damage),
        findings=tuple(_episode(span) for span in spans if seen.concerns(span.thing.about)),
        faults=tuple(faults),
        actions=tuple(_actions(events, seen.job_names)),
        jobs=tuple(_jobs(seen, begin)),
        phases=tuple(_courses(seen)),
        usage=tuple(usage.rows(seen.job)),
        users=tuple(usage.user_rows()) if seen.job is None else (),
        fleet=usage.fleet(),
        course=seen.course.points,
        cockpit=__version__,
    )
    return make_safe(account)


def _episode(span: Span[Any]) -> Episode:
    finding, remedy = span.thing, span.thing.remedy
    return Episode(
        code=finding.code,
        level=finding.level,
        subject=finding.subject,
        text=finding.text,
        told_at=span.begin if span.told_at is None else span.told_at,
        begin=span.begin,
        end=span.end,
        times=span.times,
        evidence=finding.evidence,
        remedy=remedy.text if remedy else None,
        action=remedy.action if remedy else None,
        about=finding.about,
    )


def _actions(events: Iterable[Event], job_names: Mapping[str, str]) -> Iterator[ActionDone]:
    """Actions with their end, outcome and targets; also those that began before the report."""
    listed = [event for event in events if event.kind == "act"]
    ends: Mapping[str | None, Event] = {event.key: event for event in listed if event.phase == "end"}
    begun = [event for event in listed if event.phase == "begin"]
    known = {event.key for event in begun}
    for event in sorted([*begun, *(event for event in ends.values() if event.key not in known)], key=lambda event: event.at):
        data, over = event.data or {}, ends.get(event.key)
        outcome = (over.data or {}).get("outcome") if over else None
        yield ActionDone(
            at=event.at,
            action=str(data.get("act") or ""),
            text=over.text if over else event.text,
            user=_text_or_none(data.get("user")),
            host=_text_or_none(data.get("host")),
            end=over.at if over else None,
            outcome=outcome if isinstance(outcome, dict) else None,
            targets=tuple(_target_names(outcome, data.get("plan"), job_names)),
        )


def _target_names(outcome: object, plan: object, job_names: Mapping[str, str]) -> Iterator[str]:
    """Targets that the action changed or tried to change; before its end, the targets of its plan."""
    tried = [outcome.get(word) for word in ("done", "failed", "refused")] if isinstance(outcome, Mapping) else []
    rows = [row for rows in tried or [plan] if isinstance(rows, list | tuple) for row in rows if isinstance(row, Mapping)]
    for row in rows:
        name, job = _text_or_none(row.get("target")), _text_or_none(row.get("job"))
        if name is not None:
            yield name if job is None or name.startswith("job ") else f"{name} of job {job_names.get(job, job)}"


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _jobs(seen: _Gatherer, begin: float) -> Sequence[JobSpan]:
    """Jobs that ran during the report, in the order in which they started."""
    spans: list[JobSpan] = []
    for (session, _), job in seen.jobs.items():
        if (job.ended is not None and job.ended < begin) or seen.job not in (None, job.id, job.job, job.submission):
            continue
        ended = seen.usage.ended(session) if job.ended is None else job.ended
        error = seen.reasons.get((session, job.key)) if job.status == "FAILED" else None
        spans.append(JobSpan(job.id, session, job.status, job.started, ended, job.entrypoint, job.message, error))
    return sorted(spans, key=lambda span: span.started or begin)


def _courses(seen: _Gatherer) -> Iterator[JobCourse]:
    """The phases of the jobs of the report."""
    for (session, _), job in sorted(seen.jobs.items(), key=lambda pair: pair[1].started or 0.0):
        if seen.job in (None, job.id, job.job, job.submission) and (course := seen.phases.of(job, session)) is not None:
            yield course


def make_safe(account: Account) -> Account:
    """The report with every text on one line, without secrets and without terminal control characters."""
    return msgspec.convert(_safe(msgspec.to_builtins(account)), Account)


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return clean(redact_within(value[:MAX_TEXT_CHARS])).strip()
    if isinstance(value, dict):
        return {_safe(key): _safe(item) for key, item in value.items()}
    return [_safe(item) for item in value] if isinstance(value, list | tuple) else value
