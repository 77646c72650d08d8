"""Host memory: Ray's kill line is near, workers have been ended for lack of it, and a cgroup gives less of it than the host has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from cockpit.clock import CLOCK
from cockpit.findings.facts import Facts
from cockpit.findings.memory_trend import (
    DEFAULT_THRESHOLD,
    MAX_BYTES,
    Holding,
    KillLine,
    MemoryOwner,
    kill_line,
    plausible_bytes,
)
from cockpit.findings.sources import rests_on
from cockpit.findings.trend import Trend, seconds_until
from cockpit.model import SUPERVISOR, Amount, Finding, Job, Level, Node, OomKill, Process, RayProcess, Remedy
from cockpit.text import age, clean, plural, size

NEAR_CODE = "host-memory-near-kill"
MIN_NEAR_S = 10.0
"""Seconds for which it must be near: a checkpoint that is written takes memory for a moment."""
GROWTH_GAP_S = 15.0
"""Seconds for which a growth may pause: memory that is taken in portions looks still between two."""
MAX_SAMPLE_AGE_S = 45.0
"""Seconds after which nothing is told ahead: on a large cluster Ray is asked every 15 s, and its figures are 5 s old by then."""
CLEAR_STEP_SHARE = 0.03
"""By so much of the line its use must fall below the mark at which it was told."""
RAY_PROCESS_PREFIXES = ("ray::", "raylet", "gcs_server", "VLLM::")
"""How the names of Ray's processes and of engines begin."""
KERNEL = "the kernel"
KILLED_NOUNS = (("worker", "workers"), ("process", "processes"))
"""What Ray ends, and what the kernel does."""
UNNAMED_LINES = (
    "the cgroup's counter shows a kill, but not which process was killed; the kernel's log names it (`dmesg` as root on the host)",
    "`ray list workers --detail --filter exit_type=SYSTEM_ERROR` lists workers that ended unexpectedly; Ray does not record the signal",
)
EARLIER_SLACK_S = 60.0
"""By which the clocks of a node and of the host that tells of a kill may differ, and so long a node takes to start."""
MAX_HOLDERS = 3
MAX_KILL_LINES = 10
SHARED_COUNTED_SINCE = (2, 60)
"""Since then at the latest psutil, as Ray brings it along, counts shared memory as used; in 2.44 it does not."""
NEGLIGIBLE_SHARE = 0.02
"""Share of the line that makes no difference."""
KILLS_NEWEST_SINCE = (2, 56)
"""Since then Ray ends the newest leases (worker_killing_policy_by_time.cc), before it went by owners."""


@rests_on("memory")
def near_kill(facts: Facts) -> Iterator[Finding]:
    """Living nodes whose host memory is near Ray's kill line, or grows towards it."""
    seen: set[int] = set()
    least = facts.limits.memory_ahead - CLEAR_STEP_SHARE
    for node in facts.living_nodes:
        memory = facts.machine(node).memory
        most = None if memory.used is None else memory.used + (0 if node.probed else node.agent.shared or 0)
        if most is None or most < least * (memory.kill_at or DEFAULT_THRESHOLD * (memory.total or 0)):
            continue
        used, line = plausible_bytes(memory.used), kill_line(memory)
        if used is None or line is None or not line.at:
            continue
        host = facts.index.host_of(node)
        if host is not None and id(host) in seen:  # several raylets of one host share its memory
            continue
        seen.add(id(host))
        yield from _near_findings(facts, node, used, line)


def _near_findings(facts: Facts, node: Node, used: float, line: KillLine) -> Iterator[Finding]:
    limits, subject, share = facts.limits, facts.title(node), used / line.at
    most = (used + _uncounted_shared(facts, node, line)) / line.at
    trend = facts.memory.trend(node.key) if facts.now - (facts.machine(node).seen or 0.0) <= MAX_SAMPLE_AGE_S else None
    left = seconds_until(used, line.at, trend.slope) if trend and trend.steady else None
    ahead = left is not None and left <= limits.memory_forecast and share >= limits.memory_ahead
    close = facts.is_over_mark(most, limits.memory_near, limits.memory_near - CLEAR_STEP_SHARE, NEAR_CODE, subject)
    growing = facts.seconds_steady(ahead, "memory grows", subject, GROWTH_GAP_S)
    lasted = max(facts.seconds_steady(close, "memory near", subject, 0.0) or 0.0, growing or 0.0)
    soon = left is not None and ahead and (share >= limits.memory_near or left <= limits.memory_forecast / 2)
    critical = limits.memory_critical - (CLEAR_STEP_SHARE if facts.was_holding("memory urgent", subject) else 0.0)
    urgent = facts.seconds_steady(soon or share >= critical, "memory urgent", subject, 2 * GROWTH_GAP_S)
    if lasted >= MIN_NEAR_S or share >= limits.memory_critical:
        yield _near_finding(facts, node, used, line, trend, critical=urgent is not None)


def _uncounted_shared(facts: Facts, node: Node, line: KillLine) -> float:
    """Shared memory, which the kill line counts; agents of Ray before 2.60 may not, since outside of cgroups they ask psutil."""
    version, shared = _parse_version(facts.snapshot.cluster.ray_version), plausible_bytes(node.agent.shared) or 0.0
    return shared if not node.probed and version and version < SHARED_COUNTED_SINCE and shared >= NEGLIGIBLE_SHARE * line.at else 0.0


def _near_finding(facts: Facts, node: Node, used: float, line: KillLine, trend: Trend | None, *, critical: bool) -> Finding:
    title, shared = facts.title(node), _uncounted_shared(facts, node, line)
    below = line.at - used - shared
    counted = f" ({size(used + shared)} with the {size(shared)} of shared memory that Ray's agent may leave out)" if shared else ""
    where = f"{size(below)} below" if below > 0 else f"{size(-below)} above"
    host = facts.index.host_of(node)
    held = facts.memory.holdings(host.name if host else node.host)
    job = _job_to_stop(facts, held or ())
    text = (
        f"{size(used)} of host memory is in use on {title}{counted}, {where} the {size(line.at)} at which Ray kills workers"
        f"{' (by its default setting)' if line.assumed else ''}{_forecast_words(used, line, trend)}"
    )
    what = f"stop job {job.id}, or reduce its load" if job else "stop the work that you need least"
    remedy = Remedy(f"free memory before Ray kills workers: {what}", "stop-job" if job and critical else None)
    level: Level = "critical" if critical else "warning"
    return facts.node_finding(node, NEAR_CODE, level, text, _near_evidence(facts, node, line, held), remedy, (job.key,) if job else ())


def _forecast_words(used: float, line: KillLine, trend: Trend | None) -> str:
    """`; at +1.2G/min Ray starts killing in ~3 min`; nothing when it doesn't grow, or would take hours."""
    left = seconds_until(used, line.at, trend.slope) if trend and trend.steady else None
    if trend is None or not left or left > 3600:
        return ""
    soon = "in less than a minute" if left < 45 else f"in ~{left / 60:.0f} min"
    return f"; at +{size(60 * trend.slope)}/min Ray starts killing {soon}"


def _near_evidence(facts: Facts, node: Node, line: KillLine, held: list[Holding] | None) -> Iterator[str]:
    memory, title = facts.machine(node).memory, facts.title(node)
    counted = "memory.current minus file cache, of memory.max, in /sys/fs/cgroup" if memory.host_total else "`free -b`: total - available"
    yield f"{title} has {size(memory.used)} of {size(memory.total)} in use ({counted})"
    yield (
        f"the kill line is assumed: the default of RAY_memory_usage_threshold is {100 * DEFAULT_THRESHOLD:.0f}% of all memory, "
        "and the raylet's environment was not read, or its memory monitor is off"
        if line.assumed
        else f"the raylet's environment on {title} (RAY_memory_usage_threshold, RAY_min_memory_free_bytes) sets the line to {size(line.at)}"
    )
    if held is None:
        yield f"who holds it is unknown: no probe runs on {title} now; use `ps aux --sort=-rss | head` there"
    else:
        yield from (f"holds most: {_holding_words(facts, one)}" for one in held[:MAX_HOLDERS])
        growing = [one for one in held[MAX_HOLDERS:] if one.trend and one.trend.steady]
        yield from (f"also grows: {_holding_words(facts, one)}" for one in sorted(growing, key=lambda one: -_slope(one))[:MAX_HOLDERS])
    yield _kill_policy_words(facts, held)


def _slope(one: Holding) -> float:
    return one.trend.slope if one.trend else 0.0


def _holding_words(facts: Facts, one: Holding) -> str:
    more = ", ..." if len(one.processes) > MAX_HOLDERS else ""
    pids = ", ".join(f"pid {process.pid}" for process in one.processes[:MAX_HOLDERS]) + more
    grows = f", +{size(60 * _slope(one))}/min" if one.trend and one.trend.steady else ""
    return f"{_owner_words(facts, one.owner)} {size(one.used)}{grows}{f' ({pids})' if pids else ''}"


def _owner_words(facts: Facts, owner: MemoryOwner) -> str:
    if owner.actor:
        known = facts.actors.get(owner.actor)
        if known is not None and known.internal:
            return clean(f"the supervisor of job {known.name.removeprefix(SUPERVISOR)}")
        return clean(f"actor {(known.name or known.class_) if known else owner.name}{_of_job_words(facts, owner.job)}")
    return clean(f"job {facts.job_title(owner.job)}" if owner.job else f"{owner.name}{f' of {owner.user}' if owner.user else ''}")


def _of_job_words(facts: Facts, job: str | None) -> str:
    return f" of job {facts.job_title(job)}" if job else ""


def _job_to_stop(facts: Facts, held: Sequence[Holding]) -> Job | None:
    """The running job that grows most here; where none grows, that which holds most."""
    jobs = [(one, facts.jobs.get(one.owner.job or "")) for one in held]
    running = [(one, job) for one, job in jobs if job is not None and job.running]
    return max(running, key=lambda pair: (max(0.0, _slope(pair[0])), pair[0].used))[1] if running else None


def _parse_version(ray_version: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", ray_version or "")
    return (int(found[1]), int(found[2])) if found else None


def kill_order(ray_version: str | None) -> str:
    """Whom that Ray kills first for lack of memory, as far as it is known what it goes by."""
    version = _parse_version(ray_version)
    order = (
        "idle workers that hold much memory, then retriable work, the newest first, even if it holds little"
        if version is None or version >= KILLS_NEWEST_SINCE
        else "a worker of the owner with the most workers: retriable ones first, of these the newest"
    )
    return order if version else f"{order} (with Ray 2.56 or later)"


def newest_worker(held: Sequence[Holding]) -> tuple[Process, Holding] | None:
    """The worker process that was started last, and with whom it is counted."""
    workers = [(process, one) for one in held for process in one.processes if process.kind == "worker" and process.started]
    return max(workers, key=lambda pair: pair[0].started or 0.0, default=None)


def _kill_policy_words(facts: Facts, held: list[Holding] | None) -> str:
    """Whom Ray would end: what it goes by is known, what it knows of each worker is not."""
    rule = f"Ray kills {kill_order(facts.snapshot.cluster.ray_version)}; never a driver; cockpit does not know which workers are retriable"
    newest = newest_worker(held or ())
    if newest is None:
        return f"{rule}, or which one is the newest"
    process, one = newest
    return (
        f"{rule}; the newest worker process is pid {process.pid}, {_owner_words(facts, one.owner)}, "
        f"{size(process.rss)}, started {age(facts.now - (process.started or 0.0))} ago"
    )


@rests_on()
def oom_kills(facts: Facts) -> Iterator[Finding]:
    """Workers ended by Ray's memory monitor and processes ended by the kernel, by node, until an hour after the last."""
    hosts = {host.name: facts.nodes[node] for node, host in facts.index.hosts_by_node.items() if node in facts.nodes}
    found: dict[str, list[OomKill]] = {}
    for kill in facts.snapshot.oom_kills or ():
        node = facts.nodes.get(kill.node or "") or hosts.get(kill.host or "")
        if _is_recent(facts, kill) and (kill.by == "ray" or node is not None or _has_ray(facts, kill.host)):
            title = facts.title(node) if node else facts.titles.of_host(kill.host or "") or (kill.node or "")[:8] or "a node that is gone"
            found.setdefault(title, []).append(kill)
    begun = min((node.started for node in facts.snapshot.nodes or () if node.started), default=None)
    for title, kills in found.items():
        kills.sort(key=lambda kill: -(kill.moment or 0.0))
        yield _kill_finding(facts, title, kills, begun, next((node.key for node in facts.living_nodes if facts.title(node) == title), None))


def _is_recent(facts: Facts, kill: OomKill) -> bool:
    """A moment ahead of ours is that of a clock that goes ahead; one far ahead tells nothing."""
    return kill.moment is None or -facts.limits.oom_told <= facts.now - kill.moment < facts.limits.oom_told


def _has_ray(facts: Facts, host: str | None) -> bool:
    """A host of which the kernel may have ended the raylet itself; what it ends elsewhere is not of this cluster."""
    known = facts.snapshot.hosts.get(host or "")
    return known is not None and bool(facts.index.node_ids_on(known) or known.sessions)


def _relation(kill: OomKill, begun: float | None) -> Literal["earlier", "ours", "foreign", "unknown"]:
    """To this cluster, as far as that can be told. Who tells of no pid has the counter of the container that Ray is in."""
    if kill.by == "kernel" and kill.moment is not None and begun is not None and kill.moment < begun - EARLIER_SLACK_S:
        return "earlier"  # than there was this cluster: Ray itself tells only of its own
    known = kill.by == "ray" or kill.rays is True or kill.pid is None or (kill.name or "").startswith(RAY_PROCESS_PREFIXES)
    if known and kill.ours is not False:
        return "ours"
    return "foreign" if kill.ours is False or kill.rays is False else "unknown"


def _kill_finding(facts: Facts, title: str, kills: list[OomKill], begun: float | None, node: str | None) -> Finding:
    counter: Counter[str] = Counter()
    for kill in kills:
        counter[_killer_words(kill)] += kill.count
    counts = sorted(counter.items(), key=lambda item: item[0] == KERNEL)
    told = [f"{by}{'' if at else ' killed'} {plural(number, *KILLED_NOUNS[by == KERNEL])}" for at, (by, number) in enumerate(counts)]
    moments = [kill.moment for kill in kills if kill.moment is not None]
    since = max(0.0, facts.now - moments[0]) if moments else None
    relations = {_relation(kill, begun) for kill in kills}
    young = (kill for kill in kills if kill.moment is not None and facts.now - kill.moment < facts.limits.oom_fresh)
    fresh = any(_relation(kill, begun) == "ours" for kill in young)
    when = "" if since is None else f", the last {age(since)} ago" if counter.total() > 1 else f" {age(since)} ago"
    strange = "ours" not in relations and all(kill.by == "kernel" for kill in kills)
    earlier = relations == {"earlier"}
    doubt = ", none of them known to belong to Ray" if len(kills) > 1 else ", not known to belong to Ray"
    other = ", before this Ray session started" if earlier else doubt if strange else ""
    text = f"{' and '.join(told)} on {title}{when} (out of memory): {_victim_words(facts, kills[0])}{other}"
    return Finding(
        code="workers-killed-oom",
        level="critical" if fresh else "info" if relations <= {"earlier", "foreign"} else "warning",
        subject=title,
        text=text[:1].upper() + text[1:],
        evidence=tuple(_kill_lines(facts, kills)),
        since=min(moments, default=None),
        remedy=None
        if earlier
        else Remedy(
            "run fewer workers there at once, reduce the memory of each (batch, offload), or give the node more memory; "
            "Ray spreads tasks that declare memory=; RAY_memory_usage_threshold sets the kill line"
        ),
        about=(node,) if node else (),
    )


def _victim_words(facts: Facts, kill: OomKill) -> str:
    if kill.pid is None:
        return f"which {'process it was' if kill.count == 1 else 'processes they were'} is unknown{_limit_words(kill)}"
    name, held = clean(kill.name or "")[:80], plausible_bytes(kill.held)
    holding = (f", which held {size(held)}" if held is not None else "") + _limit_words(kill)
    another = " of another Ray session" if kill.ours is False else ""
    if name.startswith(SUPERVISOR):
        return f"the supervisor of job {name.removeprefix(SUPERVISOR).partition(':')[0]}{another} (the job ends with it){holding}"
    if kill.actor:
        known = facts.actors.get(kill.actor)
        name = f"actor {clean(known.name or known.class_) if known else name.removesuffix('.__init__') or kill.actor}"
    elif name and kill.by == "ray":
        name = f"task {name}"
    name = name or f"pid {kill.pid}"
    return f"{name}{_of_job_words(facts, kill.job)}{another}{holding}"


def _limit_words(kill: OomKill) -> str:
    """The limit at which a known process was killed; else the one that holds there, which need not be the reason."""
    limit, used = plausible_bytes(kill.limit), plausible_bytes(kill.used)
    if limit is None:
        return ""
    whose = f"Slurm job {kill.slurm}" if kill.slurm else "its container" if kill.pid is None else "its cgroup"
    if kill.pid is not None:
        return f", at the limit of {size(limit)} of {whose}"
    now = "" if used is None else f", {size(used)} in use after the kill"
    return f"; {whose} may use {size(limit)} of memory there{now}"


def _killer_words(kill: OomKill) -> str:
    if kill.by == "kernel":
        return KERNEL
    return f"another Ray session ({kill.session or 'unknown session'})" if kill.ours is False else "Ray"


def _kill_lines(facts: Facts, kills: list[OomKill]) -> Iterator[str]:
    for kill in kills[:MAX_KILL_LINES]:
        says = f": {clean(kill.text)[:300]}" if kill.text else ""
        victim = plural(kill.count, "process", "processes") if kill.pid is None else f"pid {kill.pid}, {_victim_words(facts, kill)}"
        before = "" if kill.within is None else f" (or up to {kill.within:.0f} s earlier)"
        yield f"{_time_words(kill.moment)}{before} {_killer_words(kill)} killed {victim}{says}"
    if len(kills) > MAX_KILL_LINES:
        yield f"and {len(kills) - MAX_KILL_LINES} more"
    if any(kill.by == "ray" for kill in kills):
        yield "`ray list workers --detail --filter exit_type=NODE_OUT_OF_MEMORY` lists them; raylet.out on the node shows why"
    if any(kill.by == "kernel" for kill in kills):
        yield "`dmesg -T | grep -i 'killed process'` on the host lists them"
    if any(kill.pid is None for kill in kills):
        yield from UNNAMED_LINES
    if any(kill.pid is None and kill.slurm for kill in kills):
        yield "if a step had an out-of-memory kill, its output says so at its end: `slurmstepd: error: Detected 1 oom-kill event(s)`"


def _time_words(moment: float | None) -> str:
    try:
        return "at an unknown time" if moment is None else f"{datetime.fromtimestamp(moment - CLOCK.shift()).astimezone():%H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        return "at an unknown time"


@rests_on("memory", "rays")
def cgroup_limit(facts: Facts) -> Iterator[Finding]:
    """Nodes to which a cgroup gives less memory than their host has: a container's is what Ray counts against, a job's of Slurm's not."""
    raylets = {ray.node: ray for host in facts.fresh_hosts for ray in host.rays or () if ray.slurm and ray.slurm_memory}
    for node in facts.living_nodes:
        if (raylet := raylets.get(node.id)) and (found := _slurm_limit(facts, node, raylet)):
            yield found
            continue
        memory = facts.machine(node).memory
        whole, limit = memory.host_total, plausible_bytes(memory.total)
        if limit and whole and limit < whole < MAX_BYTES:
            title = facts.title(node)
            text = f"Ray may use {size(limit)} of memory on {title}, not the host's {size(whole)}: a cgroup limits it"
            line = f"memory.max below /sys/fs/cgroup on {title} is {int(limit)}; MemTotal in /proc/meminfo is {int(whole)}"
            remedy = Remedy("if that is too little, raise the container's or pod's memory limit, and restart Ray there")
            yield facts.node_finding(node, "memory-limit-cgroup", "info", text, [line], remedy)


def _slurm_limit(facts: Facts, node: Node, raylet: RayProcess) -> Finding | None:
    """Ray's memory monitor reads a container's limit alone (memory_monitor_utils.cc), so it ends no worker before Slurm's limit does."""
    known, memory = raylet.slurm_memory or Amount(), facts.machine(node).memory
    limit, counted = plausible_bytes(known.total), plausible_bytes(memory.total)
    if not limit or not counted or limit >= counted:
        return None
    title, job, line = facts.title(node), raylet.slurm, plausible_bytes(memory.kill_at)
    now = "" if known.used is None else f" ({size(known.used)} in use now)"
    kills = "its kill line is unknown" if line is None else f"it kills workers at {size(line)} in use on the whole host"
    level: Level = "info" if line is not None and line <= limit else "warning"
    text = (
        f"Slurm job {job} may use {size(limit)} of memory on {title}{now}: above that its processes are killed, "
        f"but Ray assumes {size(counted)}"
    )
    evidence = (
        f"the cgroup of raylet (pid {raylet.pid}) on {title}, in Slurm job {job}, has a memory limit of {int(limit)}",
        f"Ray assumes {size(counted)} there, and {kills}",
    )
    remedy = Remedy(
        "ask Slurm for more memory (`sbatch --mem=`, all of a node: `--mem=0`), or let Ray kill workers before Slurm does: "
        f"RAY_memory_usage_threshold={int(950 * limit / counted) / 1000} in the environment of its `ray start`; "
        "Ray also counts the memory that other jobs use there"
    )
    return facts.node_finding(node, "memory-limit-cgroup", level, text, evidence, remedy)
