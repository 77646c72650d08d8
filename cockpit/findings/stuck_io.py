"""Processes of jobs that wait in the kernel for minutes (D state), and the file system that they wait for."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Process, Remedy, StuckProcess
from cockpit.text import age, clean, plural

MAX_NAMED = 6
Where = tuple[str, str, str]
"""Of which job, on which host, waiting for what."""


@rests_on("processes", "stuck")
def stuck_processes(facts: Facts) -> Iterator[Finding]:
    """One for each job, host and file system. A process counts while it is in D state at every look; a single look can't tell."""
    if facts.is_single_look:
        return
    found: dict[Where, list[tuple[float, Process]]] = {}
    for host in facts.fresh_hosts:
        known = {(one.pid, one.ticks): one for one in host.stuck or ()}
        for process in facts.index.processes_by_host.get(host.name, ()):
            if process.state == "D" and process.job and process.ours is not False:
                seconds = facts.seconds_lasting("waits in the kernel", process.key)
                if seconds >= facts.limits.stuck_age:
                    where = facts.job_title(process.job), facts.host_title(host), _waits_for(known.get((process.pid, process.ticks)))
                    found.setdefault(where, []).append((seconds, process))
    for (job, host_title, what), processes in found.items():
        yield _finding(job, host_title, what, sorted(processes, key=lambda each: (-each[0], each[1].pid)))


def _waits_for(stuck: StuckProcess | None) -> str:
    """In words; empty: unknown."""
    if stuck is None:
        return ""
    if stuck.mount is None:
        return f" in the kernel's {clean(stuck.waits_in)}" if stuck.waits_in else ""
    of = f" of {clean(stuck.source)}" if stuck.source else ""
    doubt = "" if stuck.certain else ", as far as can be told"
    return f" for {clean(stuck.mount)} ({clean(stuck.kind or 'file system')}{of}){doubt}"


def _finding(job: str, host: str, what: str, processes: list[tuple[float, Process]]) -> Finding:
    seconds, first = processes[0]
    pids = ", ".join(str(process.pid) for _, process in processes[:MAX_NAMED])
    more = f" and {len(processes) - MAX_NAMED} more" if len(processes) > MAX_NAMED else ""
    waits = "waits" if len(processes) == 1 else "wait"
    is_mount = what.startswith(" for ")
    return Finding(
        code="job-stuck-io",
        level="warning",
        subject=f"job {job} on {host}{what.partition(' (')[0]}",
        text=f"{plural(len(processes), 'process', 'processes')} of job {job} on {host} (pid {pids}{more}) {waits}{what}, in D state for "
        f"{age(seconds)}: {'it goes' if len(processes) == 1 else 'they go'} on only when that answers",
        evidence=(
            f"cat /proc/{first.pid}/stack on {host} (as root)",
            f"ps -o pid,stat,wchan:32,cmd -p {first.pid}",
        ),
        remedy=Remedy(
            "see whether its server answers (`df` on that path hangs if not) and `dmesg` for its messages; the job goes on when it does"
            if is_mount
            else "look at the kernel's log (`dmesg`) for that disk, driver or server"
        ),
        about=tuple(process.key for _, process in processes),
    )
