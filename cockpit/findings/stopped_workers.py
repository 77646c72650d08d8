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
        lasting = [(process, facts.seconds_lasting("stopped by a signal", process.key)) for process in find_stopped(facts, job)]
        stopped = [process for process, seconds in lasting if seconds >= STOPPED_AFTER_S]
        if not stopped:
            continue
        lasted = max(seconds for _, seconds in lasting)
        have, it = ("has", "it") if len(stopped) == 1 else ("have", "them")
        first = stopped[0]
        yield Finding(
            CODE,
            "warning",
            job_subject(job),
            f"{name_processes(facts, stopped)} of {job_subject(job)} {have} been stopped by a signal (state T) for {age(lasted)}: "
            f"whatever needs an answer of {it} waits",
            tuple(f"ps -o pid,stat,lstart,cmd -p {process.pid} on {facts.place(process)}" for process in stopped[:3]),
            facts.now - lasted,
            Remedy(
                f"if nobody stopped it on purpose, as a debugger does: let it go on (`kill -CONT {first.pid}` on {facts.place(first)}); "
                "if the others have given up meanwhile, start the job again"
            ),
            (job.key, *(process.key for process in stopped)),
        )
