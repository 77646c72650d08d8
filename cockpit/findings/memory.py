"""Host memory: Ray's kill line is near, workers have been ended for lack of it, and a cgroup gives less of it than the host has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from cockpit.findings.facts import Facts
from cockpit.memory import DEFAULT_THRESHOLD, MOST, Holding, KillLine, Owner, Trend, kill_line, reaches, sane
from cockpit.model import SUPERVISOR, Finding, Job, Node, OomKill, Remedy
from cockpit.text import age, clean, plural, size

NEAR = "host-memory-near-kill"
HELD = 10.0
"""Seconds for which it must be near: a checkpoint that is written takes memory for a moment."""
GAP = 15.0
"""Seconds for which a growth may pause: memory that is taken in portions looks still between two."""
SILENT = 45.0
"""Seconds after which nothing is told ahead: on a large cluster Ray is asked every 15 s, and its figures are 5 s old by then."""
AGAIN = 0.03
"""By so much of the line its use must fall below the mark at which it was told."""
RAYS = ("ray::", "raylet", "gcs_server", "VLLM::")
"""How the names of Ray's processes and of engines begin."""
TOP = 3
LINES = 10
ALL_COUNTED = (2, 60)
"""Since then at the latest psutil, as Ray brings it along, counts shared memory as used; in 2.44 it does not."""
LITTLE = 0.02
"""Share of the line that makes no difference."""
BY_TIME = (2, 56)
"""Since then Ray ends the newest leases (worker_killing_policy_by_time.cc), before it went by owners."""


def near_kill(facts: Facts) -> Iterator[Finding]:
    """Living nodes whose host memory is near Ray's kill line, or grows towards it."""
    seen: set[int] = set()
    least = facts.limits.memory_ahead - AGAIN
    for node in facts.alive:
        memory = node.memory
        most = None if memory.used is None else memory.used + (0 if node.probed else node.shared or 0)
        if most is None or most < least * (memory.kill_at or DEFAULT_THRESHOLD * (memory.total or 0)):
            continue
        used, line = sane(memory.used), kill_line(memory)
        if used is None or line is None or not line.at:
            continue
        host = facts.hosts.get(node.id or "")
        if host is not None and id(host) in seen:  # several raylets of one host share its memory
            continue
        seen.add(id(host))
        yield from _near(facts, node, used, line)


def _near(facts: Facts, node: Node, used: float, line: KillLine) -> Iterator[Finding]:
    limits, subject, share = facts.limits, facts.title(node), used / line.at
    most = (used + _uncounted(facts, node, line)) / line.at
    trend = facts.memory.trend(node.key) if facts.now - (node.seen or 0.0) <= SILENT else None
    left = reaches(used, line.at, trend.slope) if trend and trend.steady else None
    ahead = left is not None and left <= limits.memory_forecast and share >= limits.memory_ahead
    close = facts.over(most, limits.memory_near, limits.memory_near - AGAIN, NEAR, subject)
    growing = facts.steady(ahead, "memory grows", subject, GAP)
    lasted = max(facts.steady(close, "memory near", subject, 0.0) or 0.0, growing or 0.0)
    soon = left is not None and ahead and (share >= limits.memory_near or left <= limits.memory_forecast / 2)
    urgent = facts.steady(soon or share >= limits.memory_critical, "memory urgent", subject, 2 * GAP)
    if lasted >= HELD or share >= limits.memory_critical:
        yield _told(facts, node, used, line, trend, critical=urgent is not None)


def _uncounted(facts: Facts, node: Node, line: KillLine) -> float:
    """Shared memory, which the kill line counts; agents of Ray before 2.60 may not, since outside of cgroups they ask psutil."""
    version, shared = _version(facts), sane(node.shared) or 0.0
    return shared if not node.probed and version and version < ALL_COUNTED and shared >= LITTLE * line.at else 0.0


def _told(facts: Facts, node: Node, used: float, line: KillLine, trend: Trend | None, *, critical: bool) -> Finding:
    title, shared = facts.title(node), _uncounted(facts, node, line)
    below = line.at - used - shared
    counted = f"; with {size(shared)} of shared memory that its agent may have left out it is {size(used + shared)}" if shared else ""
    where = f"{size(below)} below" if below > 0 else f"{size(-below)} above"
    host = facts.hosts.get(node.id or "")
    held = facts.memory.holdings(host.name if host else node.host)
    job = _job(facts, held or ())
    return Finding(
        code=NEAR,
        level="critical" if critical else "warning",
        subject=title,
        text=f"{size(used)} of host memory are in use on {title}{counted}, {where} the {size(line.at)} at which Ray kills"
        f"{' if its setting is the default' if line.assumed else ''}{_forecast(used, line, trend)}",
        evidence=tuple(_evidence(facts, node, line, held)),
        remedy=Remedy(
            "free memory before Ray does it: " + (f"stop job {job.id}, or run less of it at once" if job else "end what needs it least"),
            "stop-job" if job and critical else None,
        ),
        about=(node.key, *([job.key] if job else ())),
        seen=facts.oldest((node,)),
    )


def _forecast(used: float, line: KillLine, trend: Trend | None) -> str:
    """`; at +1.2G/min Ray starts killing in ~3 min`; nothing when it doesn't grow, or would take hours."""
    left = reaches(used, line.at, trend.slope) if trend and trend.steady else None
    if trend is None or not left or left > 3600:
        return ""
    soon = "in less than a minute" if left < 45 else f"in ~{left / 60:.0f} min"
    return f"; at +{size(60 * trend.slope)}/min Ray starts killing {soon}"


def _evidence(facts: Facts, node: Node, line: KillLine, held: list[Holding] | None) -> Iterator[str]:
    memory, title = node.memory, facts.title(node)
    counted = "memory.current less file cache, of memory.max, in /sys/fs/cgroup" if memory.host_total else "`free -b`: total - available"
    yield f"{title} has {size(memory.used)} of {size(memory.total)} in use ({counted})"
    yield (
        f"the line is assumed: {100 * DEFAULT_THRESHOLD:.0f} % of all is RAY_memory_usage_threshold where nobody has set it, "
        "and the raylet's environment was not read, or its monitor is off"
        if line.assumed
        else f"the raylet's environment on {title} (RAY_memory_usage_threshold, RAY_min_memory_free_bytes) puts the line at {size(line.at)}"
    )
    if held is None:
        yield f"who holds it is not known: no probe looks at {title} now; `ps aux --sort=-rss | head` there tells"
    else:
        yield from (f"holds most: {_held(facts, one)}" for one in held[:TOP])
        growing = [one for one in held[TOP:] if one.trend and one.trend.steady]
        yield from (f"grows too: {_held(facts, one)}" for one in sorted(growing, key=lambda one: -_slope(one))[:TOP])
    yield _policy(facts, held)


def _slope(one: Holding) -> float:
    return one.trend.slope if one.trend else 0.0


def _held(facts: Facts, one: Holding) -> str:
    pids = ", ".join(f"pid {process.pid}" for process in one.processes[:TOP]) + (", ..." if len(one.processes) > TOP else "")
    grows = f", +{size(60 * _slope(one))}/min" if one.trend and one.trend.steady else ""
    return f"{_owner(facts, one.owner)} {size(one.used)}{grows}{f' ({pids})' if pids else ''}"


def _owner(facts: Facts, owner: Owner) -> str:
    if owner.actor:
        known = facts.actors.get(owner.actor)
        if known is not None and known.internal:
            return clean(f"the supervisor of job {known.name.removeprefix(SUPERVISOR)}")
        return clean(f"actor {(known.name or known.class_) if known else owner.name}{_of_job(facts, owner.job)}")
    return clean(f"job {facts.job_title(owner.job)}" if owner.job else f"{owner.name}{f' of {owner.user}' if owner.user else ''}")


def _of_job(facts: Facts, job: str | None) -> str:
    return f" of job {facts.job_title(job)}" if job else ""


def _job(facts: Facts, held: Sequence[Holding]) -> Job | None:
    """The running job that grows most here; where none grows, that which holds most."""
    jobs = [(one, facts.jobs.get(one.owner.job or "")) for one in held]
    running = [(one, job) for one, job in jobs if job is not None and job.running]
    return max(running, key=lambda pair: (max(0.0, _slope(pair[0])), pair[0].used))[1] if running else None


def _version(facts: Facts) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", facts.snapshot.cluster.ray_version or "")
    return (int(found[1]), int(found[2])) if found else None


def _policy(facts: Facts, held: list[Holding] | None) -> str:
    """Whom Ray would end: what it goes by is known, what it knows of each worker is not."""
    version = _version(facts)
    new = version is None or version >= BY_TIME
    rule = (
        "Ray ends idle workers that hold much, then what may be retried, the newest first, however little it holds; never a driver"
        if new
        else "Ray ends a worker of the owner that has most of them, what may be retried first, and of these the newest; never a driver"
    )
    rule = f"{'' if version else 'if it is 2.56 or later, '}{rule}; which may be retried is not known here"
    workers = [(process, one) for one in held or () for process in one.processes if process.kind == "worker" and process.started]
    if not workers:
        return f"{rule}, nor which is the newest"
    process, one = max(workers, key=lambda pair: pair[0].started or 0.0)
    return (
        f"{rule}; the newest worker process is pid {process.pid}, {_owner(facts, one.owner)}, "
        f"{size(process.rss)}, started {age(facts.now - (process.started or 0.0))} ago"
    )


def oom_kills(facts: Facts) -> Iterator[Finding]:
    """Workers ended by Ray's memory monitor and processes ended by the kernel, by node, until an hour after the last."""
    hosts = {host.name: facts.nodes[node] for node, host in facts.hosts.items() if node in facts.nodes}
    found: dict[str, list[OomKill]] = {}
    for kill in facts.snapshot.oom_kills or ():
        node = facts.nodes.get(kill.node or "") or hosts.get(kill.host or "")
        if _recent(facts, kill) and (kill.by == "ray" or node is not None or _rays(facts, kill.host)):
            title = facts.title(node) if node else kill.host or (kill.node or "")[:8] or "a node that is gone"
            found.setdefault(title, []).append(kill)
    for title, kills in found.items():
        kills.sort(key=lambda kill: -(kill.moment or 0.0))
        yield _killed(facts, title, kills, next((node.key for node in facts.alive if facts.title(node) == title), None))


def _recent(facts: Facts, kill: OomKill) -> bool:
    """A moment ahead of ours is that of a clock that goes ahead; one far ahead tells nothing."""
    return kill.moment is None or -facts.limits.oom_told <= facts.now - kill.moment < facts.limits.oom_told


def _rays(facts: Facts, host: str | None) -> bool:
    """A host of which the kernel may have ended the raylet itself; what it ends elsewhere is not of this cluster."""
    known = facts.snapshot.hosts.get(host or "")
    return known is not None and bool(known.nodes or known.sessions)


def _rays_own(kill: OomKill) -> bool:
    """Not somebody else's on the same host. Who tells of no pid has the counter of the container that Ray is in."""
    return kill.by == "ray" or kill.rays is True or kill.pid is None or (kill.name or "").startswith(RAYS)


def _killed(facts: Facts, title: str, kills: list[OomKill], node: str | None) -> Finding:
    rays, kernels = (sum(kill.by == by for kill in kills) for by in ("ray", "kernel"))
    told = [f"Ray ended {plural(rays, 'worker')}"] if rays else []
    told += [f"the kernel {'ended ' if not rays else ''}{plural(kernels, 'process', 'processes')}"] if kernels else []
    moments = [kill.moment for kill in kills if kill.moment is not None]
    since = max(0.0, facts.now - moments[0]) if moments else None
    lost = [kill for kill in kills if _rays_own(kill)]
    fresh = any(kill.moment is not None and facts.now - kill.moment < facts.limits.oom_fresh for kill in lost)
    when = "" if since is None else f", the last {age(since)} ago" if len(kills) > 1 else f" {age(since)} ago"
    other = "" if lost else ", none of which is known to be Ray's" if len(kills) > 1 else ", which is not known to be Ray's"
    text = f"{' and '.join(told)} on {title} for lack of memory{when}: {_victim(facts, kills[0])}{other}"
    return Finding(
        code="workers-killed-oom",
        level="critical" if fresh else "info" if not lost and all(kill.rays is False for kill in kills) else "warning",
        subject=title,
        text=text[:1].upper() + text[1:],
        evidence=tuple(_kill_lines(facts, kills)),
        since=min(moments, default=None),
        remedy=Remedy(
            "let less run at once there or let each hold less (batch, offload, number of workers), or give the node more memory; "
            "tasks that declare memory= are spread by it; RAY_memory_usage_threshold moves the line"
        ),
        about=(node,) if node else (),
    )


def _victim(facts: Facts, kill: OomKill) -> str:
    name, held = clean(kill.name or "")[:80], sane(kill.held)
    holding = f", which held {size(held)}" if held is not None else ""
    if name.startswith(SUPERVISOR):
        return f"the supervisor of job {name.removeprefix(SUPERVISOR).partition(':')[0]}, without which the job ends{holding}"
    if kill.actor:
        known = facts.actors.get(kill.actor)
        name = f"actor {clean(known.name or known.class_) if known else name.removesuffix('.__init__') or kill.actor}"
    elif name and kill.by == "ray":
        name = f"task {name}"
    name = name or ("which one is not known" if kill.pid is None else f"pid {kill.pid}")
    return f"{name}{_of_job(facts, kill.job)}{holding}"


def _kill_lines(facts: Facts, kills: list[OomKill]) -> Iterator[str]:
    for kill in kills[:LINES]:
        says = f": {clean(kill.text)[:300]}" if kill.text else ""
        victim = "a process" if kill.pid is None else f"pid {kill.pid}, {_victim(facts, kill)}"
        yield f"{_clock(kill.moment)} {'Ray' if kill.by == 'ray' else 'the kernel'} ended {victim}{says}"
    if len(kills) > LINES:
        yield f"and {len(kills) - LINES} more"
    if any(kill.by == "ray" for kill in kills):
        yield "`ray list workers --detail --filter exit_type=NODE_OUT_OF_MEMORY` lists them; raylet.out on the node tells what it weighed"
    if any(kill.by == "kernel" for kill in kills):
        yield "`dmesg -T | grep -i 'killed process'` on the host lists them"


def _clock(moment: float | None) -> str:
    try:
        return "at an unknown time" if moment is None else f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        return "at an unknown time"


def cgroup_limit(facts: Facts) -> Iterator[Finding]:
    """Nodes to which a cgroup gives less memory than their host has: then Ray counts against that."""
    for node in facts.alive:
        whole = node.memory.host_total
        limit = None if whole is None else sane(node.memory.total)
        if limit and whole and limit < whole < MOST:
            title = facts.title(node)
            yield Finding(
                code="memory-limit-cgroup",
                level="info",
                subject=title,
                text=f"Ray may use {size(limit)} of memory on {title}, not the host's {size(whole)}: its cgroup's limit counts",
                evidence=(f"memory.max below /sys/fs/cgroup on {title} is {int(limit)}; MemTotal in /proc/meminfo is {int(whole)}",),
                remedy=Remedy("if that is too little, raise the container's or pod's memory limit, and start Ray anew there"),
                about=(node.key,),
                seen=facts.oldest((node,)),
            )
