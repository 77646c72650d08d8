"""Detects limits of processes and threads that a raylet's user, cgroup or host has nearly reached."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.versions import our_rays
from cockpit.model import Finding, Level, Remedy

CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Share of the limit from which on it is critical, and below which it no longer is: one engine starts hundreds of threads at once."""

MAX_TASKS = 1 << 22
"""PID_MAX_LIMIT of linux/threads.h: no host has more."""


@rests_on("rays", "processes")
def task_limits(facts: Facts) -> Iterator[Finding]:
    """One finding for each limit, even if it applies to several raylets of this cluster.

    Processes that were started before a limit was raised keep the old limit, except for limits of a cgroup or of the host.
    """
    on, met = facts.limits.tasks, set[str]()
    for host, ray in our_rays(facts, facts.snapshot.hosts.values()):
        where = facts.host_title(host)
        for one in ray.tasks or ():
            # More than the limit may be used: it is a limit of each process, and others of that user may have a higher one.
            used, limit = one.used, one.limit
            if used is None or limit is None or not 0 < (on - CLEAR_STEP_SHARE) * limit <= used <= MAX_TASKS:
                continue
            least = min(max(2 * limit, 65536), MAX_TASKS)
            if one.what == "user":
                mine = facts.index.processes_by_host.get(host.name, ())
                user = next((known.user for known in mine if known.pid == ray.pid and known.user), "Ray's user")
                subject, owner, name = f"{where} user {user}", f"User {user} on {where}", "ulimit -u"
                evidence = (f"/proc/{ray.pid}/limits: Max processes {limit}", f"ps -L -U {user} --no-headers | wc -l: {used}")
                remedy = (
                    f"kill what is not needed; for new Ray processes, as root: `prlimit --pid {ray.pid} --nproc={least}`; permanently: "
                    f"`ulimit -u {least}` before `ray start`, with nproc in /etc/security/limits.conf where that is refused"
                )
            elif one.what == "cgroup":
                path, name = one.path or "pids.max", "pids.max"
                subject, owner = f"{where} cgroup of raylet {ray.pid}", f"The cgroup of raylet (pid {ray.pid}) on {where}"
                evidence = (f"{path}: {limit}", f"{path.removesuffix('max')}current: {used}")
                remedy = (
                    "raise it where it is set: TasksMax of the systemd unit or slice, `--pids-limit` of the container, podPidsLimit of the "
                    "kubelet; fewer threads: OMP_NUM_THREADS, and the real number of CPUs for Ray (`--num-cpus` of `ray start`)"
                )
            else:
                subject, owner = f"{where} {one.what}", where
                name = "kernel.threads-max" if one.what == "threads" else "kernel.pid_max"
                evidence = (f"sysctl {name}: {limit}", f"/proc/loadavg, behind the slash: {used}")
                remedy = f"`sysctl -w {name}={least}`; fewer threads: OMP_NUM_THREADS"
            if subject in met:
                continue
            met.add(subject)
            full = facts.is_over_mark(used / limit, FULL_SHARE, FULL_CLEAR_SHARE, "task-limit-reached", subject)
            if not full and not facts.is_over_mark(used / limit, on, on - CLEAR_STEP_SHARE, "task-limit-near", subject):
                continue
            code = "task-limit-reached" if full else "task-limit-near"
            level: Level = "critical" if full else "warning"
            most = "at the limit no worker, engine or thread can be started"
            text = f"{owner} has {used} of at most {limit} processes and threads ({name}): {most}"
            about = tuple(node.key for node in facts.living_nodes if node.id and node.id == ray.node)
            yield Finding(code, level, subject, text, evidence, None, Remedy(remedy), about, facts.stale_since(host.name))
