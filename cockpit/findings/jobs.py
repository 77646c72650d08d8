"""Jobs that don't start, and jobs that have failed: with what Ray and their logs say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from cockpit.config.thresholds import Limits
from cockpit.findings.causes import Cause, find_cause, find_port_in_use
from cockpit.findings.facts import Facts
from cockpit.findings.ports import find_wanted_port, known_process, last_failures, listener_line, listeners_of
from cockpit.findings.shell_words import shell_word
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import HOPELESS, plausible_time, short_name
from cockpit.model import SUPERVISOR, Actor, Finding, Job, Level, Process, Remedy
from cockpit.recent import Recent
from cockpit.text import clean

SETUP_REMEDY = "read runtime_env_setup-*.log and dashboard_agent.log in the logs folder of the Ray session on the head"
LESS_REMEDY = (
    "submit it again with less for its entrypoint (`--entrypoint-num-cpus`, `--entrypoint-num-gpus`, …), or add a node that is large enough"
)
ROOM_REMEDY = "wait until the resources for its entrypoint are free, or stop what holds them"
UNTIL_WORDS = "`ray job stop` has no effect before it has started; Ray gives up after 15 minutes (RAY_JOB_START_TIMEOUT_SECONDS)"
SAID, LINES = 300, 5
"""Of a message: so long a line, so many lines."""
_ESCAPES: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)"
_WORKER: Final = r"^\([\w.:]{1,80}(?: pid=\d+)?(?:, ip=[\w.:]+)?\)\s*"
_RAISED: Final = r"^(?:[\w]+\.){0,8}[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Fault|Refused)(?:\([\w.]{1,80}\))?(?::\s|$)"
_OOM = "Refer to the documentation on how to address the out of memory issue"
"""How the message of an OutOfMemoryError ends: its other lines fill the last ten of a log, which are all that Ray gives."""
_NOISE: Final = r"^(?:Job entrypoint command failed|Running entrypoint for job|.{0,40}job_manager\.py:|\W*$)"


@rests_on("ray.jobs")
def pending_jobs(facts: Facts) -> Iterator[Finding]:
    """Submitted jobs whose supervisor Ray has not started."""
    waiting = [job for job in facts.snapshot.jobs or () if job.status == "PENDING"]
    own = [actor for actor in facts.snapshot.actors or () if actor.internal and actor.name.startswith(SUPERVISOR)] if waiting else []
    supervisors = {actor.name.removeprefix(SUPERVISOR): actor for actor in own}  # by the submission
    seen = facts.last_heard_before_fault("ray.jobs")
    for job in waiting:
        supervisor = supervisors.get(job.submission or "")
        if level := _pending_level(job, supervisor, seen or facts.now, facts.limits):
            yield _pending_finding(job, supervisor, level, facts)


def _pending_level(job: Job, supervisor: Actor | None, now: float, limits: Limits) -> Level | None:
    waited = now - (plausible_time(job.started, now) or now)
    if supervisor is not None and supervisor.wait in HOPELESS and waited >= limits.waiting_hopeless:
        return "critical"
    return "warning" if waited >= limits.job_start else "info" if waited >= limits.waiting_told else None


def _pending_finding(job: Job, supervisor: Actor | None, level: Level, facts: Facts) -> Finding:
    said = (job.message or "").removeprefix("Job has not started yet.").strip()
    why = supervisor.why if supervisor and supervisor.why else _short_line(said) or "Ray gives no reason"
    return Finding(
        code="job-pending",
        level=level,
        subject=f"job {short_name(job.id)}",
        text=f"Job {short_name(job.id)} has not started: {why}",
        evidence=(
            f"`ray job status {shell_word(job.id)}` reports PENDING" + (f": {_short_line(job.message)}" if job.message else ""),
            *([f"its supervisor is {short_name(supervisor.state)}"] if supervisor else []),
            *(["Ray lists no supervisor for it"] if supervisor is None and facts.snapshot.actors_complete else []),
        ),
        since=plausible_time(job.started, facts.now),
        remedy=Remedy(f"{_start_remedy(supervisor)}; {UNTIL_WORDS}; to give up now, kill its supervisor: {_end_command(job)}"),
        about=(job.key, *([supervisor.key] if supervisor else [])),
        seen=facts.last_heard_before_fault("ray.jobs"),
    )


def _start_remedy(supervisor: Actor | None) -> str:
    wait = supervisor.wait if supervisor else None
    return LESS_REMEDY if wait in HOPELESS else ROOM_REMEDY if wait in ("held", "fragmented", "short", "label") else SETUP_REMEDY


def _end_command(job: Job) -> str:
    """In Python, since no command does it."""
    name = json.dumps(SUPERVISOR + short_name(job.id), ensure_ascii=False)
    return f'ray.kill(ray.get_actor({name}, "SUPERVISOR_ACTOR_RAY_NAMESPACE"))'


@rests_on("ray.jobs")
def failed_jobs(facts: Facts) -> Iterator[Finding]:
    """The last failure of each entrypoint, until it runs again or some hours have passed."""
    for job in last_failures(facts.snapshot.jobs or (), facts.now, facts.limits.job_failed):
        yield _failed_finding(job, facts)


def _failed_finding(job: Job, facts: Facts) -> Finding:
    lines, cause = error_lines(job.message), find_cause(job.message)
    if cause and (line := _short_line(_without_prefix(re.sub(_ESCAPES, "", cause[0])))) not in " ".join(lines[-1:]):
        lines = (*lines, line)
    code = job.exit_code
    ended = None if code is None else f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
    how = ended or (job.error_type and short_name(job.error_type))  # with an exit code the type says only that there is one
    port_lines, listening = _port_lines(facts, job, cause)
    left_over = "kill-orphans" if any(process.left_over for process in listening) else None
    return Finding(
        code="job-failed",
        level="warning",
        subject=f"job {short_name(job.id)}",
        text=f"Job {short_name(job.id)} failed"
        + (f": {lines[-1]}" if lines else "")
        + (f" ({how})" if how else "")
        + ("" if lines else "; Ray gives no reason"),
        evidence=(*lines, *port_lines, f"`ray job logs {shell_word(job.id)}` shows the whole log"),
        since=plausible_time(job.ended, facts.now),
        remedy=Remedy(f"{cause[1].remedy}; then start it again", cause[1].act or left_over)
        if cause
        else Remedy("fix the error that its log shows, and start it again: that clears this finding"),
        about=(job.key, *(process.key for process in listening)),
        seen=facts.last_heard_before_fault("ray.jobs"),
    )


def _port_lines(facts: Facts, job: Job, cause: tuple[str, Cause] | None) -> tuple[tuple[str, ...], tuple[Process, ...]]:
    """Who has the port now that it wanted, and those of them that are known; else how to find out on the node that its log names."""
    port = find_port_in_use(cause[0]) if cause else None
    wanted = find_wanted_port(job, facts.snapshot) if port else None
    listeners = listeners_of(facts.snapshot, wanted) if wanted else None
    if wanted is None or listeners is None:
        return ((f"`ss -ltnp 'sport = :{port}'` on the node where it failed shows who has port {port} now",) if port else ()), ()
    place = facts.titles.of_host(wanted.host)
    known = [known_process(one, facts.index.processes_by_host.get(wanted.host, ())) for one in listeners]
    lines = tuple(listener_line(wanted, place, one, process) for one, process in zip(listeners, known, strict=True))
    free = (f"nothing listens on port {wanted.port} of {clean(place)} now (containers not checked)",)
    return lines or free, tuple(filter(None, known))


def _find_error_lines(message: str | None) -> tuple[str, ...]:
    """The lines of a failed job's message that matter, the one that matters most last: what was raised, else how it ended."""
    lines = list(_joined_lines([re.sub(_ESCAPES, "", line).rstrip() for line in (message or "").splitlines()]))
    bare = [line for line in lines if re.match(_RAISED, line)]
    raised = bare or [line for line in map(_without_prefix, lines) if re.match(_RAISED, line)]
    if not raised and _OOM in (message or ""):
        return ("Ray's memory monitor killed one of its workers because the node was low on memory",)
    said = raised or [line for line in lines if line and not line[0].isspace() and not re.match(_NOISE, line)] or list(filter(None, lines))
    return tuple(dict.fromkeys(_short_line(line) for line in said[-LINES:]))


error_lines = Recent(_find_error_lines, 256)


def _joined_lines(lines: list[str]) -> Iterator[str]:
    """What is raised may say only in the next lines what it is: the versions that don't match, say."""
    for number, line in enumerate(lines):
        more = lines[number + 1 : number + 1 + LINES] if line.endswith(":") and re.match(_RAISED, _without_prefix(line)) else []
        yield " ".join([line, *map(str.strip, more)])


def _without_prefix(line: str) -> str:
    """What a worker wrote, without Ray's `(Critic pid=12)` before it."""
    return re.sub(_WORKER, "", line)


def _short_line(text: str | None) -> str:
    return clean(" ".join((text or "")[: 4 * SAID].split()))[:SAID]
