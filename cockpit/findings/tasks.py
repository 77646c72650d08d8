"""Detects limits of processes and threads that a raylet's user, cgroup or host has nearly reached."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.versions import is_ours
from cockpit.model import Finding, Remedy, TaskLimit

CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Share of the limit from which on it is critical, and below which it no longer is: one engine starts hundreds of threads at once."""

MAX_TASKS = 1 << 22
"""PID_MAX_LIMIT of linux/threads.h: no host has more."""


class _Words(msgspec.Struct, frozen=True):
    """The texts for a limit: subject, beginning of the sentence, name of the limit, evidence for both numbers, remedy."""

    subject: str
    owner_has: str
    name: str
    evidence: tuple[str, ...]
    remedy: str


@rests_on("rays", "processes")
def task_limits(facts: Facts) -> Iterator[Finding]:
    """One finding for each limit, even if it applies to several raylets of this cluster."""
    on, met = facts.limits.tasks, set[str]()
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            if not ray.tasks or not is_ours(facts, ray):
                continue
            for one in ray.tasks:
                # More than the limit may be used: it is a limit of each process, and others of that user may have a higher one.
                if one.used is None or one.limit is None or not 0 < (on - CLEAR_STEP_SHARE) * one.limit <= one.used <= MAX_TASKS:
                    continue
                mine = facts.index.processes_by_host.get(host.name, ())
                user = next((known.user for known in mine if known.pid == ray.pid and known.user), "Ray's user")
                words = _words(one, facts.host_title(host), ray.pid, user)
                if words.subject in met:
                    continue
                met.add(words.subject)
                share = one.used / one.limit
                full = facts.is_over_mark(share, FULL_SHARE, FULL_CLEAR_SHARE, "task-limit-reached", words.subject)
                if not full and not facts.is_over_mark(share, on, on - CLEAR_STEP_SHARE, "task-limit-near", words.subject):
                    continue
                code = "task-limit-reached" if full else "task-limit-near"
                most = "at the limit no worker, engine or thread can be started"
                text = f"{words.owner_has} {one.used} of at most {one.limit} processes and threads ({words.name}): {most}"
                about = tuple(node.key for node in facts.living_nodes if node.id and node.id == ray.node)
                remedy, seen = Remedy(words.remedy), facts.stale_since(host.name)
                yield Finding(code, "critical" if full else "warning", words.subject, text, words.evidence, None, remedy, about, seen)


def _words(one: TaskLimit, where: str, pid: int, user: str) -> _Words:
    """Processes started before a limit was raised keep the old limit, except for limits of a cgroup or of the host."""
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
