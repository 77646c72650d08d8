"""Detects jobs that don't start and jobs that have failed, with the reasons from Ray and from their logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from cockpit.findings.causes import Cause, find_cause, find_port_in_use
from cockpit.findings.facts import Facts
from cockpit.findings.ports import find_wanted_port, last_failures
from cockpit.findings.shell_words import shell_word
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import HOPELESS, plausible_time, short_name
from cockpit.model import SUPERVISOR, Finding, Job, Level, Process, Remedy
from cockpit.text import clean
from cockpit.times.ttl_cache import TtlCache

SETUP_REMEDY = "read runtime_env_setup-*.log and dashboard_agent.log in the logs folder of the Ray session on the head"
LESS_REMEDY = (
    "submit it again with less for its entrypoint (`--entrypoint-num-cpus`, `--entrypoint-num-gpus`, …), or add a node that is large enough"
)
ROOM_REMEDY = "wait until the resources for its entrypoint are free, or stop what holds them"
UNTIL_WORDS = "`ray job stop` has no effect before it has started; Ray gives up after 15 minutes (RAY_JOB_START_TIMEOUT_SECONDS)"
MAX_LINE_CHARS, MAX_LINES = 300, 5
"""Of a message."""
MAX_COMMAND_CHARS = 100
"""Of the command of a process that listens on a port."""
_ESCAPES: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)"
_WORKER: Final = r"^\([\w.:]{1,80}(?: pid=\d+)?(?:, ip=[\w.:]+)?\)\s*"
_RAISED: Final = r"^(?:[\w]+\.){0,8}[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Fault|Refused)(?:\([\w.]{1,80}\))?(?::\s|$)"
_OOM = "Refer to the documentation on how to address the out of memory issue"
"""The end of an OutOfMemoryError's message. Ray gives only the last ten lines of a log, so the beginning is often missing."""
_NOISE: Final = r"^(?:Job entrypoint command failed|Running entrypoint for job|.{0,40}job_manager\.py:|\W*$)"


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
        level: Level
        if wait in HOPELESS and waited >= limits.waiting_hopeless:
            level = "critical"
        elif waited >= limits.job_start:
            level = "warning"
        elif waited >= limits.waiting_told:
            level = "info"
        else:
            continue

        message = (job.message or "").removeprefix("Job has not started yet.").strip()
        why = supervisor.why if supervisor and supervisor.why else _short_line(message) or "Ray gives no reason"
        remedy = LESS_REMEDY if wait in HOPELESS else ROOM_REMEDY if wait in ("held", "fragmented", "short", "label") else SETUP_REMEDY
        actor_name = json.dumps(SUPERVISOR + short_name(job.id), ensure_ascii=False)
        kill = f'ray.kill(ray.get_actor({actor_name}, "SUPERVISOR_ACTOR_RAY_NAMESPACE"))'  # Ray has no command for this
        words = Remedy(f"{remedy}; {UNTIL_WORDS}; to give up now, kill its supervisor: {kill}")

        evidence, about = [f"`ray job status {shell_word(job.id)}` reports PENDING"], [job.key]
        evidence[0] += f": {_short_line(job.message)}" if job.message else ""
        if supervisor:
            evidence.append(f"its supervisor is {short_name(supervisor.state)}")
            about.append(supervisor.key)
        elif facts.snapshot.actors_complete:
            evidence.append("Ray lists no supervisor for it")
        name, since = short_name(job.id), plausible_time(job.started, facts.now)
        text = f"Job {name} has not started: {why}"
        yield Finding("job-pending", level, f"job {name}", text, tuple(evidence), since, words, tuple(about), seen)


@rests_on("ray.jobs")
def failed_jobs(facts: Facts) -> Iterator[Finding]:
    """The last failure of each entrypoint, until it runs again or some hours have passed."""
    for job in last_failures(facts.snapshot.jobs or (), facts.now, facts.limits.job_failed):
        lines, cause = error_lines(job.message), find_cause(job.message)
        if cause and (line := _short_line(_without_prefix(re.sub(_ESCAPES, "", cause[0])))) not in " ".join(lines[-1:]):
            lines = (*lines, line)
        code = job.exit_code
        ended = None if code is None else f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
        how = ended or (job.error_type and short_name(job.error_type))  # beside an exit code the error type adds nothing
        port_lines, listening = _port_lines(facts, job, cause)
        left_over = "kill-orphans" if any(process.left_over for process in listening) else None
        name, seen = short_name(job.id), facts.last_answer_before_fault("ray.jobs")
        text = f"Job {name} failed{f': {lines[-1]}' if lines else ''}{f' ({how})' if how else ''}{'' if lines else '; Ray gives no reason'}"
        evidence = (*lines, *port_lines, f"`ray job logs {shell_word(job.id)}` shows the whole log")
        remedy = Remedy("fix the error that its log shows, and start it again: that clears this finding")
        if cause:
            remedy = Remedy(f"{cause[1].remedy}; then start it again", cause[1].action or left_over)
        since, about = plausible_time(job.ended, facts.now), (job.key, *(process.key for process in listening))
        yield Finding("job-failed", "warning", f"job {name}", text, evidence, since, remedy, about, seen)


def _port_lines(facts: Facts, job: Job, cause: tuple[str, Cause] | None) -> tuple[list[str], list[Process]]:
    """The processes that now listen on the port that the job needed, as evidence and as far as known; else a command that shows them."""
    port = find_port_in_use(cause[0]) if cause else None
    wanted = find_wanted_port(job, facts.snapshot) if port else None
    answer = next((one for one in facts.snapshot.ports if wanted and (one.host, one.port) == (wanted.host, wanted.port)), None)
    if wanted is None or answer is None or answer.listeners is None:
        return ([f"`ss -ltnp 'sport = :{port}'` on the node where it failed shows who has port {port} now"] if port else []), []
    place = clean(facts.titles.of_host(wanted.host))
    lines: list[str] = []
    processes: list[Process] = []
    for one in answer.listeners:
        listed = facts.index.processes_by_host.get(wanted.host, ())
        known = next((each for each in listed if each.pid == one.pid and one.ticks is not None and each.ticks == one.ticks), None)
        processes += [known] if known else []
        user = clean(one.user or "")[:40]
        who = f"process {one.pid}{f' of {user}' if user else ''}" if one.pid else f"a process of {user or 'another user'}"
        ray = clean(", ".join(filter(None, (known.kind, known.session)))) if known else ""
        command = clean(" ".join((one.command or "").split()))[:MAX_COMMAND_CHARS]
        what = f"{f' ({ray})' if ray else ''}{f': {command}' if command else ''}"
        lines.append(f"{who} listens on port {wanted.port} of {place} now{what}")
    return lines or [f"nothing listens on port {wanted.port} of {place} now (containers not checked)"], processes


def _find_error_lines(message: str | None) -> tuple[str, ...]:
    """The important lines of a failed job's message, the most important one last: raised errors, else its last lines."""
    bare_lines = [re.sub(_ESCAPES, "", line).rstrip() for line in (message or "").splitlines()]
    lines: list[str] = []
    for number, line in enumerate(bare_lines):
        # The text of an error may follow in the next lines, such as the versions that don't match.
        is_continued = line.endswith(":") and re.match(_RAISED, _without_prefix(line))
        more = bare_lines[number + 1 : number + 1 + MAX_LINES] if is_continued else []
        lines.append(" ".join([line, *map(str.strip, more)]))
    errors = [line for line in lines if re.match(_RAISED, line)]
    errors = errors or [line for line in map(_without_prefix, lines) if re.match(_RAISED, line)]
    if not errors and _OOM in (message or ""):
        return ("Ray's memory monitor killed one of its workers because the node was low on memory",)
    chosen = errors or [line for line in lines if line and not line[0].isspace() and not re.match(_NOISE, line)]
    chosen = chosen or list(filter(None, lines))
    return tuple(dict.fromkeys(_short_line(line) for line in chosen[-MAX_LINES:]))


error_lines = TtlCache(_find_error_lines, 256)


def _without_prefix(line: str) -> str:
    """A worker's line without Ray's `(Critic pid=12)` before it."""
    return re.sub(_WORKER, "", line)


def _short_line(text: str | None) -> str:
    return clean(" ".join((text or "")[: 4 * MAX_LINE_CHARS].split()))[:MAX_LINE_CHARS]
