"""Limits of processes and threads that a raylet's user, cgroup or host has nearly reached: what it starts next fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.findings.versions import is_ours
from cockpit.model import Finding, Host, RayProcess, Remedy, TaskLimit

CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Shares of the limit from which on it is critical, and below which no more: one more engine starts hundreds of threads at once."""

MAX_TASKS = 1 << 22
"""PID_MAX_LIMIT of linux/threads.h: nowhere are more."""


class _Near(NamedTuple):
    """One limit that is nearly reached, with whose it is in words."""

    host: Host
    raylet: RayProcess
    what: TaskLimit
    used: int
    limit: int
    user: str

    @property
    def share(self) -> float:
        return self.used / self.limit


def task_limits(facts: Facts) -> Iterator[Finding]:
    """One finding for each limit, however many raylets of this cluster are below it."""
    found: dict[str, _Near] = {}
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            if ray.tasks and is_ours(facts, ray):
                for near in _list_near(facts, host, ray):
                    found.setdefault(_subject(facts, near), near)
    for subject, near in found.items():
        yield from _findings(facts, subject, near)


def _list_near(facts: Facts, host: Host, ray: RayProcess) -> Iterator[_Near]:
    """There may be more than the limit: it is each process's own, and others of that user may have a higher one."""
    least = facts.limits.tasks - CLEAR_STEP_SHARE
    for one in ray.tasks or ():
        if one.used is not None and one.limit is not None and 0 < least * one.limit <= one.used <= MAX_TASKS:
            user = next((known.user for known in facts.processes.get(host.name, ()) if known.pid == ray.pid and known.user), "Ray's user")
            yield _Near(host, ray, one, one.used, one.limit, user)


def _subject(facts: Facts, near: _Near) -> str:
    where = facts.host_title(near.host)
    return {
        "user": f"{where} user {near.user}",
        "cgroup": f"{where} cgroup of raylet {near.raylet.pid}",
        "threads": f"{where} threads",
        "pids": f"{where} pids",
    }[near.what.what]


def _findings(facts: Facts, subject: str, near: _Near) -> Iterator[Finding]:
    on = facts.limits.tasks
    full = facts.is_over_mark(near.share, FULL_SHARE, FULL_CLEAR_SHARE, "task-limit-reached", subject)
    if not full and not facts.is_over_mark(near.share, on, on - CLEAR_STEP_SHARE, "task-limit-near", subject):
        return
    yield Finding(
        code="task-limit-reached" if full else "task-limit-near",
        level="critical" if full else "warning",
        subject=subject,
        text=f"{_owner(facts, near)} {_has(near)} {near.used} of at most {near.limit} processes and threads ({_name(near)}): "
        "at the limit no worker, engine or thread can be started",
        evidence=_evidence(near),
        remedy=Remedy(_remedy(near)),
        about=tuple(node.key for node in facts.living_nodes if node.id and node.id == near.raylet.node),
        seen=facts.stale_since(near.host.name),
    )


def _owner(facts: Facts, near: _Near) -> str:
    where = facts.host_title(near.host)
    return {
        "user": f"the processes of {near.user} on {where}",
        "cgroup": f"the cgroup of raylet {near.raylet.pid} on {where}",
    }.get(near.what.what, where)


def _has(near: _Near) -> str:
    return "have" if near.what.what == "user" else "has"


def _name(near: _Near) -> str:
    return {"user": "ulimit -u", "cgroup": "pids.max", "threads": "kernel.threads-max", "pids": "kernel.pid_max"}[near.what.what]


def _evidence(near: _Near) -> tuple[str, ...]:
    pid, path = near.raylet.pid, near.what.path or "pids.max"
    if near.what.what == "user":
        return (f"/proc/{pid}/limits: Max processes {near.limit}", f"ps -L -U {near.user} --no-headers | wc -l: {near.used}")
    if near.what.what == "cgroup":
        return (f"{path}: {near.limit}", f"{path.removesuffix('max')}current: {near.used}")
    return (f"sysctl {_name(near)}: {near.limit}", f"/proc/loadavg, behind the slash: {near.used}")


def _remedy(near: _Near) -> str:
    """What was started before a limit was raised keeps the old one, except in a cgroup and on the host."""
    least = min(max(2 * near.limit, 65536), MAX_TASKS)
    return {
        "user": f"end what is not needed; for what Ray starts from now on `prlimit --pid {near.raylet.pid} --nproc={least}`; permanently: "
        f"`ulimit -u {least}` before `ray start`, with nproc in /etc/security/limits.conf where that is refused",
        "cgroup": "raise it where it is set: TasksMax of the systemd unit or slice, `--pids-limit` of the container, podPidsLimit of the "
        "kubelet; fewer threads: OMP_NUM_THREADS, and the real number of CPUs for Ray (`ray start --num-cpus`)",
    }.get(near.what.what, f"`sysctl -w {_name(near)}={least}`; fewer threads: OMP_NUM_THREADS")
