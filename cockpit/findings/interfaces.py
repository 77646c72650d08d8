"""Detects settings of NCCL and Gloo that name network interfaces which a host does not have."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Process, Remedy
from cockpit.text import clean, plural

MAX_AGE_S = 3600.0
"""Age of a process in seconds from which on its groups are set up in any case: PyTorch allows half an hour for that."""
MAX_NAMED = 6


@rests_on("nvml", "processes")
def missing_interfaces(facts: Facts) -> Iterator[Finding]:
    """One finding for each job, host and variable. Only processes with GPU memory count: others don't join a group."""
    found: dict[tuple[str, str, str, str], list[Process]] = {}
    for host in facts.fresh_hosts:
        for process in facts.index.processes_by_host.get(host.name, ()):
            sockets = process.sockets
            is_young = process.started is not None and facts.now - process.started <= MAX_AGE_S
            if not sockets or not sockets.there or not process.gpus or process.ours is False or not is_young:
                continue
            missing: dict[str, str] = {}
            if sockets.nccl and not _is_found_by_nccl(sockets.nccl, sockets.there):
                missing["NCCL_SOCKET_IFNAME"] = sockets.nccl
            if sockets.gloo and not set(filter(None, sockets.gloo.split(","))) <= set(sockets.there):
                missing["GLOO_SOCKET_IFNAME"] = sockets.gloo
            for variable, value in missing.items():
                setting = (facts.host_title(host), facts.job_title(process.job), variable, clean(value))
                found.setdefault(setting, []).append(process)
    for (title, job, variable, value), processes in found.items():
        first, of_job = processes[0], f" of job {job}" if job else ""
        there = [clean(name) for name in (first.sockets.there if first.sockets else ()) if name != "lo"]
        has = f"it has {', '.join(there[:MAX_NAMED])}" if there else "it has only lo"
        text = (
            f"{variable} is {value} for {plural(len(processes), 'process', 'processes')}{of_job} on {title}, "
            f"which has no such network interface ({has}): the processes of the job can't find each other"
        )
        evidence = [f"/proc/{one.pid}/environ on {facts.place(one)}: {variable}={value}" for one in processes[:MAX_NAMED]]
        evidence += _default_lines(facts, first.host, first.job)
        remedy = Remedy(
            f"set {variable} to an interface that every node has (for NCCL a prefix is enough), or remove it from the job's "
            "env_vars and from the environment of `ray start`; where nodes differ, set it on each before `ray start`"
        )
        subject, about = f"{title} {variable} {value}{of_job}", tuple(one.key for one in processes)
        yield Finding("interface-missing", "warning", subject, text, tuple(evidence), remedy=remedy, about=about)


def _is_found_by_nccl(value: str, there: tuple[str, ...]) -> bool:
    """NCCL looks for names with this prefix; after `=` for whole names; after `^` for all other names."""
    names = [name for name in value.removeprefix("=").split(",") if name]
    if value.startswith("^") or ":" in value or not names:
        return True
    return any(name == one if value.startswith("=") else one.startswith(name) for name in names for one in there)


def _default_lines(facts: Facts, at: str, job: str | None) -> Iterator[str]:
    """The interface of the default route on this host, and on other hosts of the job if it has another name there."""
    by_host: dict[str, frozenset[str]] = {}
    for host in facts.fresh_hosts:  # by process, since containers may have their own interfaces
        mine = (one for one in facts.index.processes_by_host.get(host.name, ()) if one.job == job and one.ours is not False)
        by_host[host.name] = frozenset(clean(one.sockets.default)[:40] for one in mine if one.sockets and one.sockets.default)
    here = by_host.pop(at, frozenset())
    others = [(name, names) for name, names in by_host.items() if names and names != here] if job else []
    for name, names in [(at, here), *others[:MAX_NAMED]]:
        if names:
            yield f"`ip route show default` on {clean(name)}: {', '.join(sorted(names))}"
