"""Network interfaces that NCCL or Gloo is told to use, and that are not there: the processes of a job can't find each other."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Process, Remedy
from cockpit.text import clean, plural

MAX_AGE_S = 3600.0
"""Seconds of a process's life after which it has set up its groups, whatever it was told: PyTorch gives that half an hour at most."""
MAX_NAMED = 6


@rests_on("nvml", "processes")
def missing_interfaces(facts: Facts) -> Iterator[Finding]:
    """One for each job, host and variable, of processes that hold GPU memory: others may have been told, but don't join a group."""
    found: dict[tuple[str, str, str, str], list[Process]] = {}
    for host in facts.fresh_hosts:
        for process in facts.index.processes_by_host.get(host.name, ()):
            is_young = process.started is not None and facts.now - process.started <= MAX_AGE_S
            if process.sockets and process.gpus and process.ours is not False and is_young:
                for variable, value in _in_vain(process):
                    told = (facts.host_title(host), facts.job_title(process.job), variable, clean(value))
                    found.setdefault(told, []).append(process)
    for told, processes in found.items():
        yield _finding(facts, *told, processes)


def _in_vain(process: Process) -> Iterator[tuple[str, str]]:
    sockets = process.sockets
    if sockets is None or not sockets.there:
        return
    if sockets.nccl and not _is_found_by_nccl(sockets.nccl, sockets.there):
        yield "NCCL_SOCKET_IFNAME", sockets.nccl
    if sockets.gloo and not set(filter(None, sockets.gloo.split(","))) <= set(sockets.there):
        yield "GLOO_SOCKET_IFNAME", sockets.gloo


def _is_found_by_nccl(value: str, there: tuple[str, ...]) -> bool:
    """It looks for names that begin so, with `=` first for whole names, and with `^` first for all others."""
    names = [name for name in value.removeprefix("=").split(",") if name]
    if value.startswith("^") or ":" in value or not names:
        return True
    return any(name == one if value.startswith("=") else one.startswith(name) for name in names for one in there)


def _finding(facts: Facts, host: str, job: str, variable: str, value: str, processes: list[Process]) -> Finding:
    first, of_job = processes[0], f" of job {job}" if job else ""
    there = [clean(name) for name in (first.sockets.there if first.sockets else ()) if name != "lo"]
    has = f"it has {', '.join(there[:MAX_NAMED])}" if there else "it has only lo"
    return Finding(
        code="interface-missing",
        level="warning",
        subject=f"{host} {variable} {value}{of_job}",
        text=f"{variable} is {value} for {plural(len(processes), 'process', 'processes')}{of_job} on {host}, "
        f"which has no such network interface ({has}): the processes of the job can't find each other",
        evidence=(
            *(f"/proc/{one.pid}/environ on {facts.place(one)}: {variable}={value}" for one in processes[:MAX_NAMED]),
            *_default_lines(facts, first.host, first.job),
        ),
        remedy=Remedy(
            f"set {variable} to an interface that every node has (for NCCL a prefix is enough), or remove it from the job's "
            "env_vars and from the environment of `ray start`; where nodes differ, set it on each before `ray start`"
        ),
        about=tuple(one.key for one in processes),
    )


def _default_lines(facts: Facts, at: str, job: str | None) -> Iterator[str]:
    """Over which interface traffic goes there that is told nothing; and where else the job is, if it is called otherwise there."""
    by_host = {host.name: _find_defaults(facts, host, job) for host in facts.fresh_hosts}
    here = by_host.pop(at, frozenset())
    others = [(host, names) for host, names in by_host.items() if names and names != here] if job else []
    for host, names in [(at, here), *others[:MAX_NAMED]]:
        if names:
            yield f"`ip route show default` on {clean(host)}: {', '.join(sorted(names))}"


def _find_defaults(facts: Facts, host: Host, job: str | None) -> frozenset[str]:
    """Of its processes of that job; containers may have their own."""
    mine = (one for one in facts.index.processes_by_host.get(host.name, ()) if one.job == job and one.ours is not False)
    return frozenset(clean(one.sockets.default)[:40] for one in mine if one.sockets and one.sockets.default)
