"""Detects host memory near Ray's kill line, kills for lack of memory, and cgroups that allow less memory than the host has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal

from cockpit.findings.facts import Facts
from cockpit.findings.memory_trend import (
    DEFAULT_THRESHOLD,
    MAX_BYTES,
    Holding,
    KillLine,
    MemoryOwner,
    charge_left,
    kill_line,
    plausible_bytes,
)
from cockpit.findings.sources import rests_on
from cockpit.findings.trend import Trend, seconds_until
from cockpit.model import SUPERVISOR, Amount, Finding, Level, Node, OomKill, Process, Remedy
from cockpit.text import age, clean, plural, size
from cockpit.times.clock import CLOCK

NEAR_CODE = "host-memory-near-kill"
MIN_NEAR_S = 10.0
"""Memory must be near the line for so many seconds: writing a checkpoint takes memory for a moment."""
GROWTH_GAP_S = 15.0
"""Seconds for which growth may pause: memory that is allocated in portions stands still between two of them."""
MAX_SAMPLE_AGE_S = 45.0
"""Older samples are not extrapolated: on a large cluster Ray is asked every 15 s, and its figures are 5 s old by then."""
CLEAR_STEP_SHARE = 0.03
"""Share of the line by which use must fall below a mark before its finding ends."""
RAY_PROCESS_PREFIXES = ("ray::", "raylet", "gcs_server", "VLLM::")
"""Beginnings of the names of Ray's and vLLM's processes."""
KERNEL = "the kernel"
KILLED_NOUNS = (("worker", "workers"), ("process", "processes"))
"""Ray kills workers, the kernel any process."""
UNNAMED_LINES = (
    "the cgroup's counter shows a kill, but not which process was killed; the kernel's log names it (`dmesg` as root on the host)",
    "`ray list workers --detail --filter exit_type=SYSTEM_ERROR` lists workers that ended unexpectedly; Ray does not record the signal",
)
EARLIER_SLACK_S = 60.0
"""Seconds by which a kill must precede the cluster's first node: host clocks differ, and a node needs time to start."""
MAX_HOLDERS = 3
MAX_KILL_LINES = 10
SHARED_COUNTED_SINCE = (2, 60)
"""From this Ray on at the latest, the psutil bundled with Ray counts shared memory as used; in 2.44 it does not."""
NEGLIGIBLE_SHARE = 0.02
"""Share of the line that makes no difference."""
KILLS_NEWEST_SINCE = (2, 56)
"""From this Ray on it kills the newest leases (worker_killing_policy_by_time.cc); before, it grouped workers by owner."""


@rests_on("memory")
def near_kill(facts: Facts) -> Iterator[Finding]:
    """Living nodes whose host memory is near Ray's kill line, or grows towards it."""
    return _near_kill(facts, [node for node in facts.living_nodes if facts.index.machine(node).memory.whole is None])


@rests_on("memory", "rays")
def near_own_kill(facts: Facts) -> Iterator[Finding]:
    """Living nodes near the kill line whose raylet does not count the memory of the host: it counts that of its workers, or swap too."""
    return _near_kill(facts, [node for node in facts.living_nodes if facts.index.machine(node).memory.whole is not None])


def _near_kill(facts: Facts, nodes: Sequence[Node]) -> Iterator[Finding]:
    seen: set[int] = set()
    limits = facts.limits
    least = limits.memory_ahead - CLEAR_STEP_SHARE
    for node in nodes:
        memory = facts.index.machine(node).memory
        most = None if memory.used is None else memory.used + (0 if node.probed else node.agent.shared or 0)
        left_to_charge = charge_left(memory)
        if most is not None and left_to_charge is not None:
            most = max(most, (memory.kill_at or 0) - left_to_charge)
        if most is None or most < least * (memory.kill_at or DEFAULT_THRESHOLD * (memory.total or 0)):
            continue
        used, line = plausible_bytes(memory.used), kill_line(memory)
        if used is None or line is None or not line.at:
            continue
        host = facts.index.host_of(node)
        if host is not None and id(host) in seen and not memory.isolation:  # several raylets of one host share its memory
            continue
        seen.add(id(host))

        # Near the line now, or steady growth that reaches it soon.
        subject, share = facts.title(node), used / line.at
        most_share = (used + _uncounted_shared(facts, node, line)) / line.at
        if left_to_charge is not None:
            most_share = max(most_share, 1 - left_to_charge / line.at)
        trend = facts.memory.trend(node.key) if facts.now - (facts.index.machine(node).seen or 0.0) <= MAX_SAMPLE_AGE_S else None
        left = seconds_until(used, line.at, trend.slope) if trend and trend.steady else None
        will_reach = left is not None and left <= limits.memory_forecast and share >= limits.memory_ahead
        is_near = facts.is_over_mark(most_share, limits.memory_near, limits.memory_near - CLEAR_STEP_SHARE, NEAR_CODE, subject)
        growing = facts.seconds_steady(will_reach, "memory grows", subject, GROWTH_GAP_S)
        lasted = max(facts.seconds_steady(is_near, "memory near", subject, 0.0) or 0.0, growing or 0.0)

        # Critical: almost at the line, or growth that reaches it very soon.
        soon = left is not None and will_reach and (share >= limits.memory_near or left <= limits.memory_forecast / 2)
        critical = limits.memory_critical - (CLEAR_STEP_SHARE if facts.was_holding("memory urgent", subject) else 0.0)
        urgent = facts.seconds_steady(soon or share >= critical, "memory urgent", subject, 2 * GROWTH_GAP_S)
        if lasted >= MIN_NEAR_S or share >= limits.memory_critical:
            yield _near_finding(facts, node, used, line, trend, critical=urgent is not None)


def _uncounted_shared(facts: Facts, node: Node, line: KillLine) -> float:
    """Bytes of shared memory that the kill line counts but the agent may not: outside cgroups, agents before Ray 2.60 ask psutil."""
    version, shared = _parse_version(facts.snapshot.cluster.ray_version), plausible_bytes(node.agent.shared) or 0.0
    return shared if not node.probed and version and version < SHARED_COUNTED_SINCE and shared >= NEGLIGIBLE_SHARE * line.at else 0.0


def _near_finding(facts: Facts, node: Node, used: float, line: KillLine, trend: Trend | None, *, critical: bool) -> Finding:
    title, shared = facts.title(node), _uncounted_shared(facts, node, line)
    below = line.at - used - shared
    counted = f" ({size(used + shared)} with the {size(shared)} of shared memory that Ray's agent may leave out)" if shared else ""
    where = f"{size(below)} below" if below > 0 else f"{size(-below)} above"
    host = facts.index.host_of(node)
    held = facts.memory.holdings(host.name if host else node.host)

    # When the line will be reached, if memory grows and that takes less than an hour.
    forecast, left = "", seconds_until(used, line.at, trend.slope) if trend and trend.steady else None
    if trend is not None and left and left <= 3600:
        soon = "in less than a minute" if left < 45 else f"in ~{left / 60:.0f} min"
        forecast = f"; at +{size(60 * trend.slope)}/min Ray starts killing {soon}"

    # The job to stop: the running job that grows most here; if none grows, the one that holds most.
    jobs = [(one, facts.index.jobs.get(one.owner.job or "")) for one in held or ()]
    running = [(one, job) for one, job in jobs if job is not None and job.running]
    job = max(running, key=lambda pair: (max(0.0, _slope(pair[0])), pair[0].used))[1] if running else None
    what = f"stop job {job.id}, or reduce its load" if job else "stop the work that you need least"
    remedy = Remedy(f"free memory before Ray kills workers: {what}", "stop-job" if job and critical else None)
    memory = facts.index.machine(node).memory
    of_what = "host memory" if memory.whole is None else "memory" if memory.isolation else "host memory and swap"
    by = " by Ray's workers" if memory.isolation else ""
    at, left_to_charge = line.at, charge_left(memory)
    if (
        left_to_charge is not None and left_to_charge < below and used < facts.limits.memory_near * line.at
    ):  # file cache makes the difference
        used, by, forecast = memory.charged or 0, " by Ray's workers and their file cache", ""
        at = int(used) + left_to_charge
        where = f"{size(left_to_charge)} below" if left_to_charge > 0 else f"{size(-left_to_charge)} above"
    text = (
        f"{size(used)} of {of_what} is in use{by} on {title}{counted}, {where} the {size(at)} at which Ray kills workers"
        f"{' (by its default setting)' if line.assumed else ''}{forecast}"
    )
    level: Level = "critical" if critical else "warning"
    return facts.node_finding(node, NEAR_CODE, level, text, _near_evidence(facts, node, line, held), remedy, (job.key,) if job else ())


def _near_evidence(facts: Facts, node: Node, line: KillLine, held: list[Holding] | None) -> Iterator[str]:
    memory, title = facts.index.machine(node).memory, facts.title(node)
    counted = "memory.current minus file cache, of memory.max, in /sys/fs/cgroup" if memory.host_total else "`free -b`: total - available"
    whole = memory.whole or memory
    yield f"{title} has {size(whole.used)} of {size(whole.total)} in use ({counted})"
    if memory.isolation:
        folder = clean(memory.isolation)
        yield f"Ray counts anon and shmem in {folder}/user/memory.stat and shmem in {folder}/system/memory.stat: {size(memory.used)}"
        yield f"{folder}/user/memory.high sets the line to {size(line.at)}: all but --system-reserved-memory of ray start"
        current = f"{folder}/user/memory.current"
        yield f"Ray also kills when {current}, which has the file cache too, reaches memory.high: it is {size(memory.charged)}"
    elif memory.whole:
        yield f"RAY_count_swap_in_memory_monitor is set: Ray counts swap too, {size(memory.used)} of {size(memory.total)}"
    if line.assumed:
        yield (
            f"the kill line is assumed: the default of RAY_memory_usage_threshold is {100 * DEFAULT_THRESHOLD:.0f}% of all memory, "
            "and the raylet's environment or its cgroups were not read, or its memory monitor is off"
        )
    elif not memory.isolation:
        settings = "RAY_memory_usage_threshold, RAY_min_memory_free_bytes"
        yield f"the raylet's environment on {title} ({settings}) sets the line to {size(line.at)}"
    if held is None:
        yield f"who holds it is unknown: no probe runs on {title} now; use `ps aux --sort=-rss | head` there"
    else:
        yield from (f"holds most: {_holding_words(facts, one)}" for one in held[:MAX_HOLDERS])
        growing = [one for one in held[MAX_HOLDERS:] if one.trend and one.trend.steady]
        yield from (f"also grows: {_holding_words(facts, one)}" for one in sorted(growing, key=lambda one: -_slope(one))[:MAX_HOLDERS])

    # Ray's policy is known, but not which of the workers are retriable: the newest one is only a candidate.
    rule = f"Ray kills {kill_order(facts.snapshot.cluster.ray_version)}; never a driver; cockpit does not know which workers are retriable"
    newest = newest_worker(held or ())
    if newest is None:
        yield f"{rule}, or which one is the newest"
        return
    process, one = newest
    yield (
        f"{rule}; the newest worker process is pid {process.pid}, {_owner_words(facts, one.owner)}, "
        f"{size(process.rss)}, started {age(facts.now - (process.started or 0.0))} ago"
    )


def _slope(one: Holding) -> float:
    return one.trend.slope if one.trend else 0.0


def _holding_words(facts: Facts, one: Holding) -> str:
    more = ", ..." if len(one.processes) > MAX_HOLDERS else ""
    pids = ", ".join(f"pid {process.pid}" for process in one.processes[:MAX_HOLDERS]) + more
    grows = f", +{size(60 * _slope(one))}/min" if one.trend and one.trend.steady else ""
    return f"{_owner_words(facts, one.owner)} {size(one.used)}{grows}{f' ({pids})' if pids else ''}"


def _owner_words(facts: Facts, owner: MemoryOwner) -> str:
    if owner.actor:
        known = facts.index.actors.get(owner.actor)
        if known is not None and known.internal:
            return clean(f"the supervisor of job {known.name.removeprefix(SUPERVISOR)}")
        return clean(f"actor {(known.name or known.class_) if known else owner.name}{_of_job_words(facts, owner.job)}")
    return clean(f"job {facts.job_title(owner.job)}" if owner.job else f"{owner.name}{f' of {owner.user}' if owner.user else ''}")


def _of_job_words(facts: Facts, job: str | None) -> str:
    return f" of job {facts.job_title(job)}" if job else ""


def _parse_version(ray_version: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", ray_version or "")
    return (int(found[1]), int(found[2])) if found else None


def kill_order(ray_version: str | None) -> str:
    """The order, in words, in which Ray's memory monitor kills processes. An unknown version counts as a recent one."""
    version = _parse_version(ray_version)
    if version is not None and version < KILLS_NEWEST_SINCE:
        return "a worker of the owner with the most workers: retriable ones first, of these the newest"
    order = "idle workers that hold much memory, then retriable work, the newest first, even if it holds little"
    return order if version else f"{order} (with Ray 2.56 or later)"


def newest_worker(held: Sequence[Holding]) -> tuple[Process, Holding] | None:
    """The worker process that started last, and the holding that counts it."""
    workers = [(process, one) for one in held for process in one.processes if process.kind == "worker" and process.started]
    return max(workers, key=lambda pair: pair[0].started or 0.0, default=None)


@rests_on()
def oom_kills(facts: Facts) -> Iterator[Finding]:
    """Workers killed by Ray's memory monitor and processes killed by the kernel, by node, until an hour after the last kill."""
    hosts = {host.name: facts.index.nodes[node] for node, host in facts.index.hosts_by_node.items() if node in facts.index.nodes}
    found: dict[str, list[OomKill]] = {}
    keep = facts.limits.oom_told
    for kill in facts.snapshot.oom_kills or ():
        if kill.moment is not None and not -keep <= facts.now - kill.moment < keep:
            continue  # too old; or far in the future, by a clock that can't be trusted
        node = facts.index.nodes.get(kill.node or "") or hosts.get(kill.host or "")
        host = facts.snapshot.hosts.get(kill.host or "")
        # On a host with a Ray session the kernel may have killed the raylet itself; on other hosts its kills don't concern this cluster.
        if kill.by == "ray" or node is not None or (host is not None and (facts.index.node_ids_on(host) or host.sessions)):
            title = facts.title(node) if node else facts.titles.of_host(kill.host or "") or (kill.node or "")[:8] or "a node that is gone"
            found.setdefault(title, []).append(kill)
    begun = min((node.started for node in facts.snapshot.nodes or () if node.started), default=None)
    for title, kills in found.items():
        kills.sort(key=lambda kill: -(kill.moment or 0.0))
        yield _kill_finding(facts, title, kills, begun, next((node.key for node in facts.living_nodes if facts.title(node) == title), None))


def _relation(kill: OomKill, begun: float | None) -> Literal["earlier", "ours", "foreign", "unknown"]:
    """Whether a kill concerns this cluster. A kill without a pid comes from the memory counter of the container that Ray runs in."""
    if kill.by == "kernel" and kill.moment is not None and begun is not None and kill.moment < begun - EARLIER_SLACK_S:
        return "earlier"  # before this cluster existed; Ray itself reports only its own kills
    known = kill.by == "ray" or kill.rays is True or kill.pid is None or (kill.name or "").startswith(RAY_PROCESS_PREFIXES)
    if known and kill.ours is not False:
        return "ours"
    return "foreign" if kill.ours is False or kill.rays is False else "unknown"


def _kill_finding(facts: Facts, title: str, kills: list[OomKill], begun: float | None, node: str | None) -> Finding:
    """`kills`: the newest first; `begun`: when the cluster's first node started."""
    counter: Counter[str] = Counter()
    for kill in kills:
        counter[_killer_words(kill)] += kill.count
    counts = sorted(counter.items(), key=lambda item: item[0] == KERNEL)
    parts = [f"{by}{'' if at else ' killed'} {plural(number, *KILLED_NOUNS[by == KERNEL])}" for at, (by, number) in enumerate(counts)]
    moments = [kill.moment for kill in kills if kill.moment is not None]
    last = age(max(0.0, facts.now - moments[0])) if moments else None
    when = "" if last is None else f", the last {last} ago" if counter.total() > 1 else f" {last} ago"

    # Whether the kills concern this cluster.
    relations = [_relation(kill, begun) for kill in kills]
    earlier, is_foreign = set(relations) == {"earlier"}, set(relations) <= {"earlier", "foreign"}
    other = ""
    if earlier:
        other = ", before this Ray session started"
    elif "ours" not in relations and all(kill.by == "kernel" for kill in kills):
        other = ", none of them known to belong to Ray" if len(kills) > 1 else ", not known to belong to Ray"
    fresh = any(
        relation == "ours" and kill.moment is not None and facts.now - kill.moment < facts.limits.oom_fresh
        for kill, relation in zip(kills, relations, strict=True)
    )
    level: Level = "critical" if fresh else "info" if is_foreign else "warning"
    text = f"{' and '.join(parts)} on {title}{when} (out of memory): {_victim_words(facts, kills[0])}{other}"
    text = text[:1].upper() + text[1:]
    remedy = Remedy(
        "run fewer workers there at once, reduce the memory of each (batch, offload), or give the node more memory; "
        "Ray spreads tasks that declare memory=; RAY_memory_usage_threshold sets the kill line"
    )
    evidence, since, about = tuple(_kill_evidence(facts, kills)), min(moments, default=None), (node,) if node else ()
    return Finding("workers-killed-oom", level, title, text, evidence, since, None if earlier else remedy, about)


def _victim_words(facts: Facts, kill: OomKill) -> str:
    # A kill without a pid has the limit of the container, which need not be the reason for the kill.
    limit, used = plausible_bytes(kill.limit), plausible_bytes(kill.used)
    if kill.pid is None:
        container = f"Slurm job {kill.slurm}" if kill.slurm else "its container"
        now = "" if used is None else f", {size(used)} in use after the kill"
        allowed = "" if limit is None else f"; {container} may use {size(limit)} of memory there{now}"
        return f"which {'process it was' if kill.count == 1 else 'processes they were'} is unknown{allowed}"

    cgroup = f"Slurm job {kill.slurm}" if kill.slurm else "its cgroup"
    name, held = clean(kill.name or "")[:80], plausible_bytes(kill.held)
    holding = f", which held {size(held)}" if held is not None else ""
    holding += f", at the limit of {size(limit)} of {cgroup}" if limit is not None else ""
    another = " of another Ray session" if kill.ours is False else ""
    if name.startswith(SUPERVISOR):
        return f"the supervisor of job {name.removeprefix(SUPERVISOR).partition(':')[0]}{another} (the job ends with it){holding}"
    if kill.actor:
        known = facts.index.actors.get(kill.actor)
        name = f"actor {clean(known.name or known.class_) if known else name.removesuffix('.__init__') or kill.actor}"
    elif name and kill.by == "ray":
        name = f"task {name}"
    name = name or f"pid {kill.pid}"
    return f"{name}{_of_job_words(facts, kill.job)}{another}{holding}"


def _killer_words(kill: OomKill) -> str:
    if kill.by == "kernel":
        return KERNEL
    return f"another Ray session ({kill.session or 'unknown session'})" if kill.ours is False else "Ray"


def _kill_evidence(facts: Facts, kills: list[OomKill]) -> Iterator[str]:
    for kill in kills[:MAX_KILL_LINES]:
        when = "at an unknown time"
        if kill.moment is not None:
            with suppress(ValueError, OverflowError, OSError):  # a clock that is far off
                when = f"{datetime.fromtimestamp(kill.moment - CLOCK.shift()).astimezone():%H:%M:%S}"
        log_line = f": {clean(kill.text)[:300]}" if kill.text else ""
        victim = plural(kill.count, "process", "processes") if kill.pid is None else f"pid {kill.pid}, {_victim_words(facts, kill)}"
        before = "" if kill.within is None else f" (or up to {kill.within:.0f} s earlier)"
        yield f"{when}{before} {_killer_words(kill)} killed {victim}{log_line}"
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


@rests_on("memory", "rays")
def cgroup_limit(facts: Facts) -> Iterator[Finding]:
    """Nodes to which a cgroup gives less memory than their host has. Ray takes a container's limit into account, a Slurm job's not."""
    raylets = {ray.node: ray for host in facts.fresh_hosts for ray in host.rays or () if ray.slurm and ray.slurm_memory}
    for node in facts.living_nodes:
        memory = facts.index.machine(node).memory
        counted, whole = plausible_bytes((memory.whole or memory).total), memory.host_total
        level: Level = "info"

        # Ray's memory monitor reads only a container's limit (memory_monitor_utils.cc): it kills no worker before Slurm's limit is reached.
        raylet = raylets.get(node.id)
        known = (raylet.slurm_memory if raylet else None) or Amount()
        limit = plausible_bytes(known.total)
        if raylet and limit and counted and limit < counted:
            title, line = facts.title(node), plausible_bytes(memory.kill_at)
            level = "info" if line is not None and line <= limit else "warning"
            now = "" if known.used is None else f" ({size(known.used)} in use now)"
            text = (
                f"Slurm job {raylet.slurm} may use {size(limit)} of memory on {title}{now}: above that its processes are killed, "
                f"but Ray assumes {size(counted)}"
            )
            kills = "its kill line is unknown" if line is None else f"it kills workers at {size(line)} in use on the whole host"
            evidence = [
                f"the cgroup of raylet (pid {raylet.pid}) on {title}, in Slurm job {raylet.slurm}, has a memory limit of {int(limit)}",
                f"Ray assumes {size(counted)} there, and {kills}",
            ]
            remedy = (
                "ask Slurm for more memory (`sbatch --mem=`, all of a node: `--mem=0`), or let Ray kill workers before Slurm does: "
                f"RAY_memory_usage_threshold={int(950 * limit / counted) / 1000} in the environment of its `ray start`; "
                "Ray also counts the memory that other jobs use there"
            )
        elif counted and whole and counted < whole < MAX_BYTES:
            title = facts.title(node)
            text = f"Ray may use {size(counted)} of memory on {title}, not the host's {size(whole)}: a cgroup limits it"
            evidence = [f"memory.max below /sys/fs/cgroup on {title} is {int(counted)}; MemTotal in /proc/meminfo is {int(whole)}"]
            remedy = "if that is too little, raise the container's or pod's memory limit, and restart Ray there"
        else:
            continue
        yield facts.node_finding(node, "memory-limit-cgroup", level, text, evidence, Remedy(remedy))
