"""Detects workers of running jobs that a signal has stopped: they compute nothing, and all that need their answer wait."""

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
"""Seconds that a process must be stopped: tools that look into a process stop it for a moment."""


@rests_on("ray.jobs", "processes")
def stopped_workers(facts: Facts) -> Iterator[Finding]:
    """Stopped processes of each running job. A job that is known to be stuck in its phase has a finding that names them already."""
    for job in facts.snapshot.jobs or ():
        if not job.running or facts.was_found(PHASE_CODE, job_subject(job)):
            continue
        what = "stopped by a signal"
        stopped = [one for one in find_stopped(facts, job) if facts.seconds_lasting(what, one.key) >= STOPPED_AFTER_S]
        if not stopped:
            continue
        since = facts.first_seen(what, stopped[0].key)
        lasted = "" if since is None else f" for {age(facts.now - since)}"
        answer = "an answer of it" if len(stopped) == 1 else "their answer"
        first = stopped[0]
        yield Finding(
            CODE,
            "warning",
            job_subject(job),
            f"Stopped by a signal (state T){lasted}: {name_processes(facts, stopped)} of {job_subject(job)}; whatever needs {answer} waits",
            tuple(f"ps -o pid,stat,lstart,cmd -p {process.pid} on {facts.place(process)}" for process in stopped[:3]),
            since,
            Remedy(
                f"if nobody stopped it on purpose, as a debugger does: let it go on (`kill -CONT {first.pid}` on {facts.place(first)}); "
                "if the others have given up meanwhile, start the job again"
            ),
            (job.key, *(process.key for process in stopped)),
        )
