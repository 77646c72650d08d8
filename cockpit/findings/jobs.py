"""Detects jobs that don't start and jobs that have failed, with the reasons from Ray and from their logs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cockpit.failures.describe import safe_line
from cockpit.findings.added_facts import added_facts
from cockpit.findings.facts import Facts
from cockpit.findings.failures import failure_of, group_key, how_it_ended, reason_of
from cockpit.findings.ports import last_failures
from cockpit.findings.shell_words import shell_word
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import HOPELESS, find_trouble, plausible_time, short_name, silent_words
from cockpit.model import SUPERVISOR, Failure, Finding, Job, Level, Remedy
from cockpit.text import clean, plural
from cockpit.text.grouping import group_by

SETUP_REMEDY = "read runtime_env_setup-*.log and dashboard_agent.log in the logs folder of the Ray session on the head"
LESS_REMEDY = (
    "submit it again with less for its entrypoint (`--entrypoint-num-cpus`, `--entrypoint-num-gpus`, …), or add a node that is large enough"
)
ROOM_REMEDY = "wait until the resources for its entrypoint are free, or stop what holds them"
UNTIL_WORDS = "`ray job stop` has no effect before it has started; Ray gives up after 15 minutes (RAY_JOB_START_TIMEOUT_SECONDS)"
MAX_LINES = 5
"""Of an error, in the evidence; and of other jobs that failed for the same reason."""
MAX_GPUS_NAMED = 8


@rests_on("ray.jobs")
def pending_jobs(facts: Facts) -> Iterator[Finding]:
    """Submitted jobs whose supervisor Ray has not started."""
    pending, limits = [job for job in facts.snapshot.jobs or () if job.status == "PENDING"], facts.limits
    own = [actor for actor in facts.snapshot.actors or () if actor.internal and actor.name.startswith(SUPERVISOR)] if pending else []
    supervisors = {actor.name.removeprefix(SUPERVISOR): actor for actor in own}  # by submission id
    seen = facts.last_answer_before_fault("ray.jobs")
    now = seen or facts.now
    for job in pending:
        supervisor = supervisors.get(job.submission or "")
        wait = supervisor.wait if supervisor else None
        waited = now - (plausible_time(job.started, now) or now)
        trouble = find_trouble(facts, supervisor.why, [supervisor]) if supervisor else None
        level: Level
        if wait in HOPELESS and waited >= limits.waiting_hopeless:
            level = "critical"
        elif waited >= limits.job_start or (trouble and trouble.fails and waited >= limits.waiting_hopeless):
            level = "warning"
        elif waited >= limits.waiting_told:
            level = "info"
        else:
            continue

        message = (job.message or "").removeprefix("Job has not started yet.").strip()
        why = (
            f"{supervisor.why}{silent_words(facts, trouble)}"
            if supervisor and supervisor.why
            else safe_line(message) or "Ray gives no reason"
        )
        remedy = (
            trouble.remedy
            if trouble and trouble.remedy
            else LESS_REMEDY
            if wait in HOPELESS
            else ROOM_REMEDY
            if wait in ("held", "fragmented", "short", "label")
            else SETUP_REMEDY
        )
        actor_name = json.dumps(SUPERVISOR + short_name(job.id), ensure_ascii=False)
        kill = f'ray.kill(ray.get_actor({actor_name}, "SUPERVISOR_ACTOR_RAY_NAMESPACE"))'  # Ray has no command for this
        words = Remedy(f"{remedy}; {UNTIL_WORDS}; to give up now, kill its supervisor: {kill}")

        evidence, about = [f"`ray job status {shell_word(job.id)}` reports PENDING"], [job.key]
        evidence[0] += f": {safe_line(job.message)}" if job.message else ""
        if supervisor:
            evidence.append(f"its supervisor is {short_name(supervisor.state)}")
            about.append(supervisor.key)
        elif facts.snapshot.actors_complete:
            evidence.append("Ray lists no supervisor for it")
        name, since = short_name(job.id), plausible_time(job.started, facts.now)
        text = f"Job {name} has not started: {why or 'Ray gives no reason'}"
        yield Finding("job-pending", level, f"job {name}", text, tuple(evidence), since, words, tuple(about), seen)


@rests_on("ray.jobs")
def failed_jobs(facts: Facts) -> Iterator[Finding]:
    """Failed jobs by their reason, the newest first: the last failure of each entrypoint, until it runs again or some hours have passed."""
    failed = sorted(last_failures(facts.snapshot.jobs or (), facts.now, facts.limits.job_failed), key=lambda job: -(job.ended or 0.0))
    failures = [(job, failure_of(job, facts.snapshot)) for job in failed]
    for same in group_by(failures, lambda pair: group_key(pair[1]) or pair[0].key).values():
        yield _failed_finding(facts, same)


def _failed_finding(facts: Facts, same: list[tuple[Job, Failure]]) -> Finding:
    """One finding for jobs that failed for the same reason, the newest first."""
    job, failure = same[0]
    name, how, added = short_name(job.id), how_it_ended(job), added_facts(facts, job, failure)
    others = f" and {plural(len(same) - 1, 'other job')}" if len(same) > 1 else ""
    ended = f"{name}{others} failed{f' ({how})' if how else ''}"
    if reason := reason_of(failure):
        # An error that is not known is shown in its own words; names such as vLLM keep their letters.
        is_sentence = failure.cause is not None and reason.partition(" ")[0].islower()
        first = reason[:1].upper() + reason[1:] if is_sentence else reason
        text = f"{first}{added.words}{_place_words(facts, failure)}; job {ended}"
    else:
        text = f"Job {ended}{'; its log shows no reason' if failure.file else ''}"

    evidence = [line for line in (failure.text or "").split("\n") if line][:MAX_LINES]
    if failure.raised_at:
        evidence.append(f"raised at {failure.raised_at}")
    if failure.also:
        evidence.append(f"{plural(failure.also, 'other process reports', 'other processes report')} the same error")
    if failure.others:
        when = f" {failure.earlier_s:.0f} s later" if failure.earlier_s else ""
        evidence.append(f"{plural(failure.others_count, 'other process reports', 'other processes report')}{when}: {failure.others}")
    if failure.unread:
        evidence.append(f"its log was not read: {failure.unread}")
    evidence += [f"job {short_name(other.id)} failed for the same reason" for other, _ in same[1:MAX_LINES]]
    evidence += [*added.evidence, f"`ray job logs {shell_word(job.id)}` shows the whole log"]

    if failure.remedy:
        again = "" if failure.remedy.endswith("start it again") else "; then start it again"
        remedy = Remedy(f"{failure.remedy}{again}", added.action)
    else:
        where = f" around the line of {failure.raised_at}" if failure.raised_at else ""
        remedy = Remedy(f"read its log (`l`){where}; starting the job again clears this finding", added.action)
    about = (job.key, *added.about, *(other.key for other, _ in same[1:]))
    since, seen = plausible_time(job.ended, facts.now), facts.last_answer_before_fault("ray.jobs")
    return Finding("job-failed", "warning", f"job {name}", text, tuple(evidence), since, remedy, about, seen)


def _place_words(facts: Facts, failure: Failure) -> str:
    """` on rank 3 (w1 GPU 3)`, ` (rank 3 on w1)`: as far as they are known; a cluster of one node needs no name."""
    node = facts.index.nodes.get(failure.node or "")
    title = clean(facts.title(node)) if node and failure.pid and len(facts.snapshot.nodes or ()) > 1 else ""
    rank = f"rank {failure.rank}" if failure.rank is not None else ""
    labels = [gpu.label for gpu in (facts.index.machine(node).gpus if node else None) or () if gpu.index in failure.gpus]
    if labels:
        place = f"{title} GPU {', '.join(labels[:MAX_GPUS_NAMED])}".strip()
        return f" on {rank} ({place})" if rank else f" (on {place})"
    who = " ".join(filter(None, (rank, f"on {title}" if title else "")))
    return f" ({who})" if who else ""
