"""Detects workers of running jobs that a signal has stopped. They compute nothing, and other processes wait for their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cockpit.findings.facts import Facts
from cockpit.findings.rank_words import find_stopped, name_processes
from cockpit.findings.sources import rests_on
from cockpit.findings.stalls import PHASE_CODE, job_subject
from cockpit.model import Finding, Remedy
from cockpit.text import age

CODE: Final = "worker-stopped"
STOPPED_AFTER_S: Final = 30.0
"""A process counts as stopped after so many seconds. Debugging tools stop a process for a moment."""


@rests_on("ray.jobs", "processes")
def stopped_workers(facts: Facts) -> Iterator[Finding]:
    """Stopped processes of each running job. If the job is stuck in a phase, the finding about that already names them."""
    for job in facts.snapshot.jobs or ():
        if not job.running or facts.was_found(PHASE_CODE, job_subject(job)):
            continue
        what = "stopped by a signal"
        stopped = [one for one in find_stopped(facts, job) if facts.seconds_lasting(what, one.key) >= STOPPED_AFTER_S]
        if not stopped:
            continue
        since = facts.first_seen(what, stopped[0].key)
        lasted = "" if since is None else f" for {age(facts.now - since)}"
        answer = "its answer" if len(stopped) == 1 else "their answers"
        first = stopped[0]
        yield Finding(
            CODE,
            "warning",
            job_subject(job),
            f"Stopped by a signal (state T){lasted}: {name_processes(facts, stopped)} of {job_subject(job)}; "
            f"processes that need {answer} wait",
            tuple(f"ps -o pid,stat,lstart,cmd -p {process.pid} on {facts.place(process)}" for process in stopped[:3]),
            since,
            Remedy(
                "if nobody stopped it on purpose, for example with a debugger, "
                f"let it continue (`kill -CONT {first.pid}` on {facts.place(first)}); "
                "if the others have given up meanwhile, start the job again"
            ),
            (job.key, *(process.key for process in stopped)),
        )
