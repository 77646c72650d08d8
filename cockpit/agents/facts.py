"""Selects what an agent needs of a snapshot, findings first (pure). Sizes are bytes, times seconds, an unknown fact is `None`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cockpit.findings.failures import failure_of
from cockpit.model import Actor, Finding, Gpu, Job, Node, PlacementGroup, Process, Quantity, Session, Snapshot
from cockpit.model.about import find_things
from cockpit.placement import needs_words
from cockpit.report.commands import remedy_command
from cockpit.report.faults import also_down, by_cause
from cockpit.report.grouping import alike_groups, bundles_words
from cockpit.report.phases import activity_words, phases_by_job, wait_words
from cockpit.report.snapshot_text import hosts_probed, node_state
from cockpit.report.status import JobStatus, RankStatus, job_status
from cockpit.report.usage import usage_pairs
from cockpit.sources.source import SourceError
from cockpit.text.grouping import group_by
from cockpit.usage import OwnerUsage

Row = Mapping[str, Any]
MAX_NEXT: Final = 5
"""Calls that `explain` suggests."""
STATUS_FINDINGS, STATUS_JOBS, STATUS_ROWS = 12, 8, 6
HANGS: Final = frozenset({"job-hung", "job-stalled", "phase-stuck", "rank-behind", "engine-stuck", "steps-slower", "worker-stopped"})
"""Findings whose cause stands in the stacks of processes."""
WAITS: Final = frozenset({"actor-pending", "placement-group-pending", "task-pending", "job-pending", "deadlock", "actor-leaked"})
"""Findings about something that waits for a place, or keeps one."""


class NotFoundError(SourceError):
    """Nothing has the name that the agent has given."""


def seconds_since(moment: float | None, now: float) -> float | None:
    """Return the age of a moment in whole seconds."""
    return None if moment is None else max(0, round(now - moment))


# The state


def state(snapshot: Snapshot) -> Row:
    """The whole cluster at one moment, worst things first."""
    cluster, now = snapshot.cluster, snapshot.taken
    running = [job for job in snapshot.jobs or () if job.running]
    left_over = [process for process in snapshot.processes or () if process.left_over]
    phases = phases_by_job(snapshot)

    def running_job(job: Job) -> Row:
        known = phases.get(job.key)
        activity = known.activity if known is not None else None
        return {
            "job": job.id,
            "status": job.status,
            "for_s": seconds_since(job.started, now),
            "does": activity_words(known, now) if known is not None and activity is not None else None,
            "waits": (wait_words(job, activity, snapshot) if activity is not None else "") or None,
        }

    return {
        "cluster": {name: getattr(cluster, name) for name in ("address", "ray_version", "session", "reachable")},
        "findings": [brief_finding(finding, now) for finding in snapshot.findings[:STATUS_FINDINGS]],
        "more_findings": max(0, len(snapshot.findings) - STATUS_FINDINGS) or None,
        "jobs_running": None if snapshot.jobs is None else [running_job(job) for job in running[:STATUS_JOBS]],
        "jobs": None if snapshot.jobs is None else dict(Counter(job.status for job in snapshot.jobs)),
        "nodes": None if snapshot.nodes is None else dict(Counter(node_state(node, snapshot) for node in snapshot.nodes)),
        "gpus": _gpu_sums(snapshot),
        "actors": None if snapshot.actor_counts is None else {key: value for key, value in snapshot.actor_counts.items() if value},
        "waiting": {"actors": _count_pending(snapshot.actors), "placement_groups": _count_pending(snapshot.placement_groups)},
        "left_over": {
            "processes": None if snapshot.processes is None else len(left_over),
            "looked_at": hosts_probed(snapshot),
            "gpu_memory": sum(process.gpu_memory or 0 for process in left_over) or None,
            "dead_sessions": None if snapshot.sessions is None else sum(session.live is False for session in snapshot.sessions),
        },
        "failing_sources": [
            {
                "source": fault.source,
                "host": fault.host,
                "text": f"{fault.text}{also_down(fault)}",
                "for_s": seconds_since(fault.since, now),
            }
            for fault in by_cause(snapshot.faults)[:STATUS_ROWS]
        ],
    }


def _count_pending(things: Sequence[Actor | PlacementGroup] | None) -> int | None:
    return None if things is None else sum(thing.pending for thing in things)


def _gpu_sums(snapshot: Snapshot) -> Row | None:
    """How many GPUs Ray has and has reserved, and how busy they are. Reserved is what Ray has promised, not what is used."""
    if snapshot.nodes is None:
        return None
    nodes = [node for node in snapshot.nodes if node.state != "DEAD"]
    # A node without this resource has no GPU; a node without any resource has not reported them.
    reported = [node.resources.get("GPU", Quantity(0, 0)) for node in nodes if node.id is not None and node.resources]
    gpus = [gpu for node in nodes for gpu in snapshot.index.machine(node).current_gpus or ()]
    busy = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    return {
        "total": sum(one.total or 0 for one in reported) if reported else None,
        "reserved": sum(one.used or 0 for one in reported) if reported else None,
        "seen": len(gpus),
        "busy_percent": round(sum(busy) / len(busy)) if busy else None,
    }


# Findings


def finding_id(finding: Finding) -> str:
    """Return a short name of the finding, the same as long as it lasts. It holds no text of the cluster."""
    return hashlib.sha256(finding.key.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def find_finding(word: str, snapshot: Snapshot) -> Finding:
    """Return the finding with this id, or the only one with this code. Raises `NotFoundError`."""
    found = [finding for finding in snapshot.findings if finding_id(finding) == word]
    found = found or [finding for finding in snapshot.findings if finding.code == word]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"{len(found)} findings have this code: give the id of one, as `findings` lists them")
    raise NotFoundError("no finding has this id now: it may have ended; `findings` lists those that last")


def brief_finding(finding: Finding, now: float) -> Row:
    """A finding in a list."""
    lasted = finding.lasted(now)
    return {
        "id": finding_id(finding),
        "level": finding.level,
        "code": finding.code,
        "text": finding.text,
        "for_s": None if lasted is None else round(lasted),
    }


def finding_row(finding: Finding, now: float) -> Row:
    """A finding with what helps."""
    return {**brief_finding(finding, now), "remedy": finding.remedy.text if finding.remedy else None, "evidence": len(finding.evidence)}


def explanation(finding: Finding, snapshot: Snapshot) -> Row:
    """A finding with its evidence, and the calls that lead to its cause."""
    remedy = finding.remedy
    things = find_things(finding, snapshot)
    return {
        **brief_finding(finding, snapshot.taken),
        "subject": finding.subject,
        "evidence": list(finding.evidence),
        "remedy": remedy.text if remedy else None,
        "remedy_action": remedy.action if remedy else None,
        "remedy_command": remedy_command(remedy.action, finding.about) if remedy else None,
        "sources": list(finding.sources),
        "old_for_s": seconds_since(finding.seen, snapshot.taken),
        "about": [name_thing(thing, snapshot) for thing in things],
        "look_next": list(_next_calls(finding, things, snapshot))[:MAX_NEXT],
    }


def _next_calls(finding: Finding, things: Sequence[Any], snapshot: Snapshot) -> Iterator[Row]:
    """The calls that an expert would make next. Tools and names of arguments are cockpit's own; only values name things of the cluster."""
    if finding.code in WAITS:
        yield {"tool": "why_waiting", "arguments": {}, "why": "what waits, what it needs and who holds it"}
    for thing in things[:2]:
        if isinstance(thing, Job):
            yield {"tool": "job", "arguments": {"job": thing.id}, "why": "phase, ranks, groups, first error"}
            if not thing.running:
                yield from _log_calls(thing, snapshot)
        elif isinstance(thing, Actor):
            yield {"tool": "logs", "arguments": {"target": thing.id, "log": "err"}, "why": "what its process wrote to stderr"}
        elif isinstance(thing, Node):
            yield {
                "tool": "node",
                "arguments": {"node": snapshot.index.titles.of_node(thing)},
                "why": "GPUs, memory, disks and their holders",
            }
        elif isinstance(thing, Process):
            where = snapshot.index.place_title(thing)
            yield {"tool": "processes", "arguments": {"host": where, "pid": thing.pid}, "why": "whose it is and what proves that"}
        elif isinstance(thing, Session):
            where = snapshot.index.titles.of_host(thing.host)
            yield {"tool": "processes", "arguments": {"host": where}, "why": "what still belongs to that session"}
    if finding.code in HANGS:
        targets = [thing for thing in things if isinstance(thing, (Job, Actor))]
        for thing in targets[:1]:
            yield {"tool": "stacks", "arguments": {"target": thing.id}, "why": "where its processes stand; the odd one is the suspect"}
    if finding.remedy is not None and finding.remedy.action is not None:
        yield {
            "tool": "plan",
            "arguments": {"finding": finding_id(finding)},
            "why": "what the remedy would end, exactly; it changes nothing",
        }
    yield {"tool": "history", "arguments": {"begin": "-30m"}, "why": "what changed before it began"}


def _log_calls(job: Job, snapshot: Snapshot) -> Iterator[Row]:
    """Where the error of a failed job stands: in its own log, and in that of the process that has raised it."""
    failure = failure_of(job, snapshot)
    about = {"search": failure.text.splitlines()[0][:60]} if failure.text else {}
    yield {"tool": "logs", "arguments": {"target": job.id, **about}, "why": "the lines around its error"}
    node = snapshot.index.nodes.get(failure.node or "")
    if failure.pid is not None and node is not None and failure.pid != job.driver_pid:
        where = {"target": str(failure.pid), "host": snapshot.index.titles.of_node(node), "log": "err"}
        yield {"tool": "logs", "arguments": where, "why": "what the process that failed wrote to stderr"}


def name_thing(thing: Any, snapshot: Snapshot) -> str:
    """Return `job ppo-7b`, `actor Critic on w1`, `w1 pid 123`."""
    match thing:
        case Job():
            return f"job {thing.id} ({thing.status})"
        case Actor():
            node = snapshot.index.nodes.get(thing.node or "")
            return f"actor {thing.name or thing.class_} {thing.id[:12]} ({thing.state}{f' on {node.title}' if node else ''})"
        case Node():
            return f"node {snapshot.index.titles.of_node(thing)} ({thing.state})"
        case Process():
            return f"{snapshot.index.place_title(thing)} pid {thing.pid} ({thing.kind})"
        case PlacementGroup():
            return f"placement group {thing.name or thing.id[:12]} ({thing.state})"
        case Session():
            return f"session {thing.name} on {snapshot.index.titles.of_host(thing.host)}"
    return str(getattr(thing, "key", thing))


# Jobs


def find_job(word: str, snapshot: Snapshot) -> Job:
    """Return the job with this id. Raises `NotFoundError`."""
    if snapshot.jobs is None:
        raise NotFoundError("the jobs are unknown: Ray has not listed them")
    found = next((job for job in snapshot.jobs if word in (job.id, job.job)), None)
    if found is None:
        names = ", ".join(job.id for job in snapshot.jobs[-8:])
        raise NotFoundError(f"there is no such job; the last ones are: {names}" if names else "Ray has no jobs")
    return found


def job_facts(job: Job, snapshot: Snapshot, used: OwnerUsage | None) -> tuple[Row, JobStatus]:
    """A job without its ranks, which are many."""
    status, now = job_status(job, snapshot), snapshot.taken
    failure, phase, steps = status.failure, status.phase, status.steps
    groups = [group for group in snapshot.placement_groups or () if group.job and group.job == job.job]
    actors = [actor for actor in snapshot.actors or () if actor.job and actor.job == job.job and not actor.internal]
    held = snapshot.index.gpus_by_job.get(job.job or "")
    head = {
        "job": job.id,
        "ray_job": job.job,
        "status": job.status,
        "for_s": seconds_since(job.started, now) if job.running else None,
        "ended_s_ago": seconds_since(job.ended, now),
        "reason": status.reason,
        "failure": msgspec.to_builtins(failure) if failure is not None else None,
        "message": job.message if status.reason is None else None,
        "exit_code": job.exit_code,
        "does": phase.text if phase is not None else None,
        "phase": phase.name if phase is not None else None,
        "waits": phase.waits if phase is not None else None,
        "step": steps.number if steps is not None else None,
        "steps_total": steps.total if steps is not None else None,
        "steps_per_hour": steps.per_hour if steps is not None else None,
        "left_s": steps.left if steps is not None else None,
        "usual_s": {name: usual.median for name, usual in steps.usual.items()} if steps is not None else None,
        "last_steps_s": [round(step.ended - step.began) for step in steps.ended[-5:]] if steps is not None else None,
        "entrypoint": job.entrypoint,
        "groups": [group_row(group) for group in groups],
        "actors": dict(Counter(f"{actor.class_} {actor.state}" for actor in actors)) or None,
        "gpus_held": len(held.places) if held is not None else None,
        "gpu_hours": dict(usage_pairs(used)) if used is not None else None,
        "findings": [brief_finding(one, now) for one in snapshot.findings if job.key in one.about][:STATUS_ROWS],
        "preset": job.preset,
    }
    return {name: value for name, value in head.items() if value not in ([], {})}, status


def ranks_in_order(status: JobStatus) -> Sequence[RankStatus]:
    """The workers of a running job: those that are behind first."""
    return sorted(status.ranks or (), key=lambda rank: rank.behind is None)


def rank_row(rank: RankStatus, now: float) -> Row:
    """A worker."""
    own = {name: getattr(rank, name) for name in ("host", "pid", "method", "phase")}
    return {"class": rank.class_, **own, "gpus": list(rank.gpus), "behind_for_s": seconds_since(rank.behind, now)}


def group_row(group: PlacementGroup) -> Row:
    """A placement group."""
    name = group.name or group.id[:12]
    return {"group": name, "state": group.state, "strategy": group.strategy, "bundles": bundles_words(group), "why": group.why}


# What waits


def waiting_rows(snapshot: Snapshot) -> list[Row]:
    """Everything that waits, equal things in one row, with the reason: groups first, as actors wait for them."""
    now, rows = snapshot.taken, list[Row]()
    for groups in alike_groups(snapshot.placement_groups or ()):
        since = min((group.since for group in groups if group.since is not None), default=None)
        names = [group.name or group.id[:12] for group in groups]
        owner = snapshot.index.job_title(groups[0].job) or None
        rows.append({"what": "placement group", **group_row(groups[0]), "names": names, "job": owner, "waits_s": seconds_since(since, now)})
    pending = [actor for actor in snapshot.actors or () if actor.pending or actor.state == "RESTARTING"]
    for actors in group_by(pending, lambda one: (one.class_, one.state, needs_words(one.needs), one.why, one.job)).values():
        first = actors[0]
        since = min((actor.since for actor in actors if actor.since is not None), default=None)
        rows.append(
            {
                "what": "actor",
                "class": first.class_,
                "count": len(actors),
                "state": first.state,
                "needs": needs_words(first.needs) or "no resources",
                "job": snapshot.index.job_title(first.job) or None,
                "why": first.why,
                "waits_s": seconds_since(since, now),
                "ids": [actor.id for actor in actors[:3]],
            }
        )
    for job in snapshot.jobs or ():
        if job.status == "PENDING":
            rows.append({"what": "job", "job": job.id, "why": job.message, "waits_s": seconds_since(job.started, now)})
    for demand in snapshot.demand or ():
        if demand.why:
            rows.append({"what": "tasks", "count": demand.count, "needs": needs_words(demand.needs), "why": demand.why})
    return rows


def unknown_waits(snapshot: Snapshot) -> list[str]:
    """What may wait too: kinds of things that Ray has not listed."""
    listed = {"actors": snapshot.actors, "placement groups": snapshot.placement_groups, "jobs": snapshot.jobs}
    incomplete = ["some actors: Ray lists at most 10,000"] if snapshot.actors_complete is False else []
    return [*(f"{name}: Ray has not listed them" for name, things in listed.items() if things is None), *incomplete]


# Processes


def process_row(process: Process, snapshot: Snapshot) -> Row:
    """A process with its owner, the proof of that, and the GPUs that it holds."""
    actor = snapshot.index.actors.get(process.actor or "")
    return {
        "host": snapshot.index.place_title(process),
        "pid": process.pid,
        "kind": process.kind,
        "user": process.user,
        "gpus": [{"gpu": hold.index, "memory": hold.memory} for hold in process.gpus] or None,
        "rss": process.rss,
        "state": process.state,
        "for_s": seconds_since(process.started, snapshot.taken),
        "job": snapshot.index.job_title(process.job) or None,
        "actor": (actor.name or actor.class_) if actor is not None else None,
        "other_owner": process.other_owner,
        "command": process.command or process.name,
        "why": list(process.why),
    }


def is_on(process: Process, host: str, snapshot: Snapshot) -> bool:
    """Whether the process runs on the host or node of this name."""
    return host in (process.host, snapshot.index.place_title(process), snapshot.index.titles.of_host(process.host))


# Nodes


def find_node(word: str, snapshot: Snapshot) -> Node:
    """Return the node with this name, address or id, a living one first. Raises `NotFoundError`."""
    titles = snapshot.index.titles
    found = [node for node in snapshot.nodes or () if word in (titles.of_node(node), node.title, node.host, node.ip, node.id)]
    if not found:
        names = ", ".join(titles.of_node(node) for node in (snapshot.nodes or ())[:12])
        raise NotFoundError(f"there is no such node; nodes: {names}" if names else "the nodes are unknown: Ray has not listed them")
    return min(found, key=lambda node: node.state != "ALIVE")


def node_facts(node: Node, snapshot: Snapshot) -> Row:
    """A node's machine and its findings, without its GPUs."""
    machine, now = snapshot.index.machine(node), snapshot.taken
    keys = {node.key, *(f"{node.key}:{gpu.index}" for gpu in machine.gpus or ())}
    memory = machine.memory
    return {
        "node": snapshot.index.titles.of_node(node),
        "id": node.id,
        "address": node.ip,
        "head": node.head,
        "state": node_state(node, snapshot),
        "message": node.message,
        "facts_age_s": seconds_since(machine.seen, now),
        "not_seen": None if snapshot.index.host_of(node) is not None else "no probe runs there: processes without a GPU are unknown",
        "cpu_percent": machine.cpu,
        "cpus": machine.cpus,
        "memory": {"used": memory.used, "total": memory.total, "ray_kills_above": memory.kill_at},
        "object_store": {"used": node.object_store.used, "total": node.object_store.total},
        "shm": {"used": machine.shm.used, "total": machine.shm.total},
        "disks": [{"path": disk.path, "used": disk.used, "total": disk.total} for disk in machine.disks],
        "resources": {name: f"{one.used or 0:g} of {one.total or 0:g} reserved" for name, one in list(node.resources.items())[:12]},
        "findings": [brief_finding(finding, now) for finding in snapshot.findings if not keys.isdisjoint(finding.about)][:STATUS_ROWS],
    }


def gpu_row(gpu: Gpu, node: Node, snapshot: Snapshot) -> Row:
    """A GPU and the processes that hold its memory."""
    holders = snapshot.index.gpu_holders.get((node.key, gpu.index), ())
    return {
        "gpu": gpu.label,
        "busy_percent": gpu.utilization,
        "memory_used": gpu.memory_used,
        "memory_total": gpu.memory_total,
        "power_w": gpu.power,
        "temperature_c": gpu.temperature,
        "ecc_errors": gpu.ecc or None,
        "fault": gpu.fault,
        "xids": [xid.code for xid in gpu.xids or ()] or None,
        "holders": [
            {"pid": process.pid, "memory": hold.memory, "kind": process.kind, "job": snapshot.index.job_title(process.job) or None}
            for process, hold in holders[:4]
        ],
    }
