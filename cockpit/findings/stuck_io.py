"""Detects processes of jobs that wait in the kernel for minutes (D state), and the file system that they wait for."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Process, Remedy, StuckProcess
from cockpit.text import age, clean, plural

MAX_NAMED = 6
Where = tuple[str, str, str]
"""Title of the job, title of the host, and the words for what it waits for."""


@rests_on("processes", "stuck")
def stuck_processes(facts: Facts) -> Iterator[Finding]:
    """One finding for each job, host and file system. A process counts if it is in D state in every sample; a single sample finds none."""
    if facts.is_single_sample:
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
    for (job, title, what), processes in found.items():
        processes.sort(key=lambda each: (-each[0], each[1].pid))
        seconds, first = processes[0]
        pids = ", ".join(str(process.pid) for _, process in processes[:MAX_NAMED])
        more = f" and {len(processes) - MAX_NAMED} more" if len(processes) > MAX_NAMED else ""
        waits, goes = ("waits", "it goes") if len(processes) == 1 else ("wait", "they go")
        text = (
            f"{plural(len(processes), 'process', 'processes')} of job {job} on {title} (pid {pids}{more}) {waits}{what}, in D state "
            f"for {age(seconds)}: {goes} on only when that answers"
        )
        evidence = (f"cat /proc/{first.pid}/stack on {title} (as root)", f"ps -o pid,stat,wchan:32,cmd -p {first.pid}")
        remedy = "look at the kernel's log (`dmesg`) for that disk, driver or server"
        if what.startswith(" for "):  # a mount
            remedy = (
                "see whether its server answers (`df` on that path hangs if not) and `dmesg` for its messages; the job goes on when it does"
            )
        subject, about = f"job {job} on {title}{what.partition(' (')[0]}", tuple(process.key for _, process in processes)
        yield Finding("job-stuck-io", "warning", subject, text, evidence, remedy=Remedy(remedy), about=about)


def _waits_for(stuck: StuckProcess | None) -> str:
    """The thing that the process waits for, in words; empty if unknown."""
    if stuck is None:
        return ""
    if stuck.mount is None:
        return f" in the kernel's {clean(stuck.waits_in)}" if stuck.waits_in else ""
    of = f" of {clean(stuck.source)}" if stuck.source else ""
    doubt = "" if stuck.certain else ", probably"
    return f" for {clean(stuck.mount)} ({clean(stuck.kind or 'file system')}{of}){doubt}"
