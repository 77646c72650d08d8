"""Writes a snapshot, a finding, or the changes between two snapshots as text that can be pasted into a chat."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from cockpit.findings.ray_gpus import find_all_not_given
from cockpit.model import Finding, Node, Quantity, Snapshot
from cockpit.model.titles import count_machines
from cockpit.placement import needs_words
from cockpit.recording.changes import events_between
from cockpit.report.commands import remedy_command
from cockpit.report.faults import also_down, by_cause
from cockpit.report.grouping import Repeats, alike_groups, bundles_words
from cockpit.report.phases import activity_words, phases_by_job, wait_words
from cockpit.text import UNKNOWN, age, clean, count, join_first, percent, plural, ratio, share_percent, size
from cockpit.text.grouping import group_by

NAMED_GROUPS = 3
"""Placement groups named in a line; the rest are counted."""
MAX_ROWS = 20
"""Rows of each kind: the text is short enough to be read."""


def status_text(snapshot: Snapshot, *, plain: bool = False) -> str:
    """The cluster, findings, nodes, pending work, orphans, other Rays, jobs; safe to print on a terminal.

    `plain`: sentences instead of a table, for a screen reader.
    """
    return "\n".join(clean(line) for line in _lines(snapshot, plain=plain))


def _lines(snapshot: Snapshot, *, plain: bool) -> Iterator[str]:
    cluster = snapshot.cluster
    if cluster.reachable:
        yield f"Ray {cluster.ray_version} at {cluster.address}, {cluster.session or 'session unknown'}"
    else:
        at = f" at {cluster.address}" if cluster.address else ""
        silent = f"Ray's dashboard{at} has not answered yet" if cluster.reachable is None else f"No Ray dashboard answers{at}"
        yield f"{silent}. Below: what probes report."
    titles = snapshot.index.titles
    for fault in by_cause(snapshot.faults):
        place = f" on {titles.of_host(fault.host)}" if fault.host else ""
        yield f"FAILING SOURCE {fault.source}{place}: {fault.text} (for {age(snapshot.taken - fault.since)}{also_down(fault)})"
    repeats = Repeats(snapshot)
    for finding in snapshot.findings[:MAX_ROWS]:
        yield headline(repeats.shorten_finding(finding), snapshot.taken)
        yield from _remedy_lines(finding)
    if len(snapshot.findings) > MAX_ROWS:
        yield f"{plural(len(snapshot.findings) - MAX_ROWS, 'more finding')}: run `cockpit doctor`"
    yield ""
    if snapshot.nodes is None:
        yield "Nodes: unknown"
    else:
        yield from (_node_sentences if plain else _node_lines)(snapshot, snapshot.nodes)
    yield ""
    yield from _actor_lines(snapshot, repeats)
    yield from _orphan_lines(snapshot)
    yield from _job_lines(snapshot)


def headline(finding: Finding, now: float) -> str:
    """The finding in one line: level, sentence, duration."""
    lasted = age(held) if (held := finding.lasted(now)) is not None else ""
    return f"{finding.level.upper()} {finding.text}" + (f" (for {lasted})" if lasted not in ("", "0s", UNKNOWN) else "")


def finding_lines(finding: Finding, snapshot: Snapshot) -> Iterator[str]:
    """The headline, the evidence, and the remedy."""
    yield headline(finding, snapshot.taken)
    yield from (f"    {line}" for line in finding.evidence)
    yield from _remedy_lines(finding)


def _remedy_lines(finding: Finding) -> Iterator[str]:
    if remedy := finding.remedy:
        command = remedy_command(remedy.action, finding.about)
        yield f"    -> {remedy.text}" + (f" (`{command}`)" if command else "")


def changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    """A line for each finding that started, cleared or changed its level between two snapshots."""
    moment = time.strftime("%H:%M:%S", time.localtime(now.taken))
    old, new = ({finding.key: finding for finding in snapshot.findings} for snapshot in (before, now))
    for key, finding in new.items():
        if key not in old or old[key].level != finding.level:
            yield clean(f"{moment} {'STARTED' if key not in old else 'NOW'} {headline(finding, now.taken)}")
    yield from (clean(f"{moment} CLEARED {finding.level.upper()} {finding.text}") for key, finding in old.items() if key not in new)


def plain_changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    """A line for each finding, fault and job that began or ended, each node whose state changed, and a changed number of waiting actors."""
    yield from changes(before, now)
    moment = time.strftime("%H:%M:%S", time.localtime(now.taken))
    for event in events_between(before, now):
        if event.kind != "finding":
            over = "CLEARED " if event.phase == "end" else ""
            what = f"{over}FAILING SOURCE " if event.kind == "fault" else ""
            yield clean(f"{moment} {what}{event.text}")
    if before.nodes is not None and now.nodes is not None:
        states = {node.key: node_state(node, before) for node in before.nodes}
        for node in now.nodes:
            state, old_state = node_state(node, now), states.get(node.key)
            if state != old_state:
                yield clean(f"{moment} node {node.title} is {state}, {f'it was {old_state}' if old_state else 'it is new'}")
        gone = states.keys() - {node.key for node in now.nodes}
        yield from (clean(f"{moment} node {node.title} is gone") for node in before.nodes if node.key in gone)
    if before.actors is not None and now.actors is not None:
        waited, waiting = (sum(actor.pending for actor in actors) for actors in (before.actors, now.actors))
        if waited != waiting:
            yield f"{moment} {plural(waiting, 'actor waits', 'actors wait')}, {waited} before"


_ROW = "{:<16} {:<8} {:>9} {:>11} {:>5} {:>11} {:>7} {:>5} {:>5} {:>5}"
_TITLES = ("NODE", "STATE", "GPUS RESV", "GPU MEM", "UTIL", "HOST MEM", "KILL AT", "OBJ", "DISK", "SEEN")


def _node_lines(snapshot: Snapshot, nodes: Iterable[Node]) -> Iterator[str]:
    yield _ROW.format(*_TITLES)
    for node in nodes:
        message = f"  {node.message}" if node.state == "DEAD" and node.message else ""
        yield _ROW.format(*_node_cells(node, snapshot)) + message
    if not_given := _not_given_words(snapshot, nodes):
        yield f"GPUs not given to Ray: {join_first(not_given, MAX_ROWS)}"


def _not_given_words(snapshot: Snapshot, nodes: Iterable[Node]) -> list[str]:
    """`4 on w1 (0, 3, 6, 7)` for each of these nodes with GPUs that Ray can't hand out."""
    found = find_all_not_given(snapshot)
    titles, pairs = snapshot.index.titles, ((node, found.get(node.key)) for node in nodes)
    return [f"{len(gpus)} on {titles.of_node(node)} ({', '.join(gpu.label for gpu in gpus)})" for node, gpus in pairs if gpus]


_LABELS = ("GPUs reserved", "GPU memory", "GPUs busy", "host memory", "Ray kills workers above", "object store", "fullest disk")
"""Names of the table's columns in a sentence, without node, state and the time it was seen."""


def _node_sentences(snapshot: Snapshot, nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        _, state, *cells, seen = _node_cells(node, snapshot)
        known = [f"{label} {cell.replace('/', ' of ')}" for label, cell in zip(_LABELS, cells, strict=True) if cell.strip(f"{UNKNOWN}/")]
        last = [] if seen == UNKNOWN else [f"seen {seen} ago"]
        message = [node.message] if node.state == "DEAD" and node.message else []
        not_given = [f"GPUs not given to Ray {words}" for words in _not_given_words(snapshot, [node])]
        yield ", ".join(
            [f"Node {snapshot.index.titles.of_node(node)}{' (head)' if node.head else ''}: {state}", *message, *known, *not_given, *last]
        )


def node_state(node: Node, snapshot: Snapshot) -> str:
    """Ray's state of the node; for a host that is no node of the followed Ray, whether its probe sees a Ray."""
    if node.id is not None:
        return node.state
    if snapshot.index.machine(node).seen is None:
        return "not seen"
    host = snapshot.index.host_of(node)
    return "has Ray" if any(ray.role == "raylet" for ray in (host.rays if host else None) or ()) else "no Ray"


def _node_cells(node: Node, snapshot: Snapshot) -> tuple[str, ...]:
    machine = snapshot.index.machine(node)
    reserved = node.resources.get("GPU", Quantity()) if node.state != "DEAD" else Quantity()
    known_gpus = [gpu for gpu in machine.current_gpus or () if gpu.memory_used is not None]
    held, there = sum(gpu.memory_used or 0 for gpu in known_gpus), sum(gpu.memory_total or 0 for gpu in known_gpus)
    busy = [gpu.utilization for gpu in machine.current_gpus or () if gpu.utilization is not None]
    disk = max((share for disk in machine.disks if (share := ratio(disk.used, disk.total)) is not None), default=None)
    return (
        snapshot.index.titles.of_node(node) + ("*" if node.head else ""),
        node_state(node, snapshot),
        f"{count(reserved.used)}/{count(reserved.total)}",
        f"{size(held)}/{size(there)}" if known_gpus else UNKNOWN,
        percent(sum(busy) / len(busy) if busy else None),
        f"{size(machine.memory.used)}/{size(machine.memory.total)}",
        size(machine.memory.kill_at),
        share_percent(ratio(node.object_store.used, node.object_store.total)),
        share_percent(disk),
        age(None if machine.seen is None else snapshot.taken - machine.seen),
    )


def _actor_lines(snapshot: Snapshot, repeats: Repeats) -> Iterator[str]:
    counts = snapshot.actor_counts
    if counts is None:
        yield "Actors: unknown"
    else:
        yield "Actors: " + (", ".join(f"{number} {state}" for state, number in counts.items() if number and state != "DEAD") or "none")
    for groups in alike_groups(snapshot.placement_groups or ())[:MAX_ROWS]:
        first, names = groups[0], [group.name or group.id[:12] for group in groups]
        who = f"placement group {names[0]}" if len(groups) == 1 else f"{len(groups)} placement groups {join_first(names, NAMED_GROUPS)}"
        since = min((group.since for group in groups if group.since is not None), default=None)
        waited = age(None if since is None else snapshot.taken - since)
        why = _why(first.why, f"group {names[0]}", repeats)
        yield f"  pending: {who} {first.strategy or ''} {bundles_words(first)} for {waited}{why}"
    actors = [actor for actor in snapshot.actors or () if actor.pending]
    alike = Counter((actor.class_, actor.state, needs_words(actor.needs), actor.why) for actor in actors)
    for (name, state, needs, reason), number in alike.most_common(MAX_ROWS):
        yield f"  pending: {number} x {name} ({state}) needs {needs or 'no resources'}{_why(reason, f'actor {name}', repeats)}"


def _why(reason: str | None, name: str, repeats: Repeats) -> str:
    return f": {repeats.shorten(reason, name)}" if reason else ""


def hosts_probed(snapshot: Snapshot) -> str:
    """`1 of 2 hosts probed`: whether the other hosts have orphans is unknown."""
    probed, machines = count_machines(snapshot.nodes or (), snapshot.hosts)
    return f"{probed} of {plural(machines, 'host')} probed"


def unjudged_words(snapshot: Snapshot) -> str:
    """`; 1 process could not be classified: only its Ray cluster knows whether its job still runs`; empty if all were classified."""
    unjudged = snapshot.unjudged
    whose = "its" if len(unjudged) == 1 else "their"
    why = f": only {whose} Ray cluster knows whether {whose} job still runs" if all(one.undecided == "job" for one in unjudged) else ""
    return f"; {plural(len(unjudged), 'process', 'processes')} could not be classified{why}" if unjudged else ""


def _orphan_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.processes is None:
        yield f"Orphans: unknown ({hosts_probed(snapshot)})"
        return
    orphans = sorted((process for process in snapshot.processes if process.left_over), key=lambda process: -(process.gpu_memory or 0))
    held = sum(process.gpu_memory or 0 for process in orphans)
    gpus = f" holding {size(held)} of GPU memory" if held else ""
    none = "none" if snapshot.looked_at and not snapshot.unjudged else "unknown"
    number = plural(len(orphans), "process", "processes") if orphans else none
    yield f"Orphans: {number}{gpus} ({hosts_probed(snapshot)}{unjudged_words(snapshot)})"
    for process in orphans[:MAX_ROWS]:
        gpu_indices = ",".join(str(hold.index) for hold in process.gpus)
        holds = f"{size(process.gpu_memory)} on GPU {gpu_indices}" if gpu_indices else "no GPU"
        command = (process.command or process.name or UNKNOWN)[:100]
        yield f"  {process.kind} {snapshot.index.place_title(process)} pid {process.pid} {holds}: {command} ({'; '.join(process.why)})"
    dead = [session for session in snapshot.sessions or () if session.live is False]
    if dead:
        sizes = [session.size for session in dead if session.size is not None]
        yield f"Dead sessions: {len(dead)}" + (f", {size(sum(sizes))} on disk" if sizes else "")

    # Processes of other Rays on probed hosts, a line for each host and session.
    foreign = (process for process in snapshot.processes if process.ours is False and not process.left_over)
    others = group_by(foreign, lambda process: (process.host, process.session or "an unknown session"))
    for (host, session_name), theirs in list(others.items())[:MAX_ROWS]:
        held = sum(process.gpu_memory or 0 for process in theirs)
        gpus = f", holding {size(held)} of GPU memory" if held else ""
        title = snapshot.index.titles.of_host(host)
        yield f"Another Ray session on {title}: {session_name}, {plural(len(theirs), 'process', 'processes')}{gpus}"


def _job_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.jobs is None:
        yield "Jobs: unknown"
        return
    states = Counter(job.status for job in snapshot.jobs)
    yield "Jobs: " + (", ".join(f"{number} {status}" for status, number in states.items()) or "none")
    phases = phases_by_job(snapshot)
    for job in snapshot.jobs:
        if job.running:
            lasted = age(None if job.started is None else (job.ended or snapshot.taken) - job.started)
            yield f"  {job.status} {job.id} for {lasted}: {(job.entrypoint or UNKNOWN)[:120]}"
            if (known := phases.get(job.key)) is not None and known.activity is not None:
                waits = wait_words(job, known.activity, snapshot)
                yield f"    {activity_words(known, snapshot.taken)}" + (f": {waits}" if waits else "")
