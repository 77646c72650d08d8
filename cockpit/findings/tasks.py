"""Limits of processes and threads that a raylet's user, cgroup or host has nearly reached: what it starts next fails."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.versions import is_ours
from cockpit.model import Finding, Host, RayProcess, Remedy, TaskLimit

CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Shares of the limit from which on it is critical, and below which no more: one more engine starts hundreds of threads at once."""

MAX_TASKS = 1 << 22
"""PID_MAX_LIMIT of linux/threads.h: nowhere are more."""


class _Near(msgspec.Struct, frozen=True):
    """One limit that is nearly reached."""

    host: Host
    raylet: RayProcess
    used: int
    limit: int
    words: _Words


class _Words(msgspec.Struct, frozen=True):
    """Whose limit it is and who has so many, what it is called, where both numbers stand, and what to do."""

    subject: str
    owner_has: str
    name: str
    evidence: tuple[str, ...]
    remedy: str


@rests_on("rays", "processes")
def task_limits(facts: Facts) -> Iterator[Finding]:
    """One finding for each limit, however many raylets of this cluster are below it."""
    found: dict[str, _Near] = {}
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            if ray.tasks and is_ours(facts, ray):
                for near in _list_near(facts, host, ray):
                    found.setdefault(near.words.subject, near)
    for near in found.values():
        yield from _findings(facts, near)


def _list_near(facts: Facts, host: Host, ray: RayProcess) -> Iterator[_Near]:
    """There may be more than the limit: it is each process's own, and others of that user may have a higher one."""
    least = facts.limits.tasks - CLEAR_STEP_SHARE
    for one in ray.tasks or ():
        if one.used is not None and one.limit is not None and 0 < least * one.limit <= one.used <= MAX_TASKS:
            user = next(
                (known.user for known in facts.index.processes_by_host.get(host.name, ()) if known.pid == ray.pid and known.user),
                "Ray's user",
            )
            yield _Near(host, ray, one.used, one.limit, _words(one, facts.host_title(host), ray.pid, user))


def _words(one: TaskLimit, where: str, pid: int, user: str) -> _Words:
    """What was started before a limit was raised keeps the old one, except in a cgroup and on the host."""
    used, limit, path = one.used or 0, one.limit or 0, one.path or "pids.max"
    least = min(max(2 * limit, 65536), MAX_TASKS)
    if one.what == "user":
        return _Words(
            f"{where} user {user}",
            f"User {user} on {where} has",
            "ulimit -u",
            (f"/proc/{pid}/limits: Max processes {limit}", f"ps -L -U {user} --no-headers | wc -l: {used}"),
            f"kill what is not needed; for new Ray processes, as root: `prlimit --pid {pid} --nproc={least}`; permanently: "
            f"`ulimit -u {least}` before `ray start`, with nproc in /etc/security/limits.conf where that is refused",
        )
    if one.what == "cgroup":
        return _Words(
            f"{where} cgroup of raylet {pid}",
            f"The cgroup of raylet (pid {pid}) on {where} has",
            "pids.max",
            (f"{path}: {limit}", f"{path.removesuffix('max')}current: {used}"),
            "raise it where it is set: TasksMax of the systemd unit or slice, `--pids-limit` of the container, podPidsLimit of the "
            "kubelet; fewer threads: OMP_NUM_THREADS, and the real number of CPUs for Ray (`--num-cpus` of `ray start`)",
        )
    name = "kernel.threads-max" if one.what == "threads" else "kernel.pid_max"
    lines = (f"sysctl {name}: {limit}", f"/proc/loadavg, behind the slash: {used}")
    return _Words(f"{where} {one.what}", f"{where} has", name, lines, f"`sysctl -w {name}={least}`; fewer threads: OMP_NUM_THREADS")


def _findings(facts: Facts, near: _Near) -> Iterator[Finding]:
    on, share, words = facts.limits.tasks, near.used / near.limit, near.words
    full = facts.is_over_mark(share, FULL_SHARE, FULL_CLEAR_SHARE, "task-limit-reached", words.subject)
    if not full and not facts.is_over_mark(share, on, on - CLEAR_STEP_SHARE, "task-limit-near", words.subject):
        return
    yield Finding(
        code="task-limit-reached" if full else "task-limit-near",
        level="critical" if full else "warning",
        subject=words.subject,
        text=f"{words.owner_has} {near.used} of at most {near.limit} processes and threads ({words.name}): "
        "at the limit no worker, engine or thread can be started",
        evidence=words.evidence,
        remedy=Remedy(words.remedy),
        about=tuple(node.key for node in facts.living_nodes if node.id and node.id == near.raylet.node),
        seen=facts.stale_since(near.host.name),
    )
