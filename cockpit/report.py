"""A snapshot as text that can be pasted into a chat."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from cockpit.actions.table import ACTS
from cockpit.model import Finding, Job, Node, PlacementGroup, Process, Quantity, Snapshot
from cockpit.text import UNKNOWN, age, clean, count, percent, plural, ratio, size

MOST = 20
"""Rows of one kind: it is to be read, not searched."""
COMMANDS = frozenset(act.id for act in ACTS if act.command)
"""Acts that have a command of their name."""


def status_text(snapshot: Snapshot) -> str:
    """What a person would write to a colleague."""
    return "\n".join(clean(line) for line in _lines(snapshot))


def _lines(snapshot: Snapshot) -> Iterator[str]:
    cluster = snapshot.cluster
    if cluster.reachable:
        yield f"Ray {cluster.ray_version} at {cluster.address}, {cluster.session or 'session not told'}"
    elif cluster.reachable is None:
        yield f"Ray's dashboard{f' at {cluster.address}' if cluster.address else ''} has not answered yet; what follows is what probes see."
    else:
        yield f"No Ray dashboard answers{f' at {cluster.address}' if cluster.address else ''}; what follows is what probes see."
    for fault in snapshot.faults:
        place = f" on {fault.host}" if fault.host else ""
        yield f"FAULT {fault.source}{place}: {fault.text} (since {age(snapshot.taken - fault.since)})"
    for finding in snapshot.findings[:MOST]:
        yield headline(finding, snapshot.taken)
    if len(snapshot.findings) > MOST:
        yield f"and {plural(len(snapshot.findings) - MOST, 'more finding')}: see them with `cockpit doctor`"
    yield ""
    yield from _node_lines(snapshot)
    yield ""
    yield from _actor_lines(snapshot)
    yield from _left_lines(snapshot)
    yield from _job_lines(snapshot)


def headline(finding: Finding, now: float) -> str:
    """What is wrong in one line."""
    lasted = age(now - finding.since) if finding.since is not None else ""
    return f"{finding.level.upper()} {finding.text}" + (f" (for {lasted})" if lasted not in ("", "0s", UNKNOWN) else "")


def finding_lines(finding: Finding, now: float) -> Iterator[str]:
    """The same with what proves it, and what helps."""
    yield headline(finding, now)
    yield from (f"    {line}" for line in finding.evidence)
    if remedy := finding.remedy:
        yield f"    -> {remedy.text}" + (f" (`cockpit {remedy.act}`)" if remedy.act in COMMANDS else "")


def changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    """A line for each finding that has begun or ended between two looks, or has got worse or better."""
    moment = time.strftime("%H:%M:%S", time.localtime(now.taken))
    old, new = ({finding.key: finding for finding in snapshot.findings} for snapshot in (before, now))
    for key, finding in new.items():
        if key not in old or old[key].level != finding.level:
            yield clean(f"{moment} {'BEGINS' if key not in old else 'NOW'} {headline(finding, now.taken)}")
    yield from (clean(f"{moment} ENDS {finding.level.upper()} {finding.text}") for key, finding in old.items() if key not in new)


_WIDTHS = (16, -8, 9, 11, 5, 11, 7, 5, 5, 5)
"""Of the columns of nodes; a negative one is left-aligned."""
_TITLES = ("NODE", "STATE", "GPUS RESV", "GPU MEM", "UTIL", "HOST MEM", "KILL AT", "OBJ", "DISK", "AGE")


def _row(cells: tuple[str, ...]) -> str:
    first, *rest = zip(cells, _WIDTHS, strict=True)
    aligned = (cell.rjust(width) if width > 0 else cell.ljust(-width) for cell, width in rest)
    return " ".join((first[0].ljust(first[1]), *aligned))


def _node_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.nodes is None:
        yield "Nodes: not known"
        return
    yield _row(_TITLES)
    for node in snapshot.nodes:
        message = f"  {node.message}" if node.state == "DEAD" and node.message else ""
        yield _row(_node_cells(node, snapshot.taken)) + message


def _node_cells(node: Node, now: float) -> tuple[str, ...]:
    reserved = node.resources.get("GPU", Quantity()) if node.state != "DEAD" else Quantity()
    known = [gpu for gpu in node.gpus or () if gpu.memory_used is not None]
    held, there = sum(gpu.memory_used or 0 for gpu in known), sum(gpu.memory_total or 0 for gpu in known)
    busy = [gpu.utilization for gpu in node.gpus or () if gpu.utilization is not None]
    disk = max((share for disk in node.disks if (share := ratio(disk.used, disk.total)) is not None), default=None)
    return (
        node.title + ("*" if node.head else ""),
        node.state if node.id else "no Ray",
        f"{count(reserved.used)}/{count(reserved.total)}",
        f"{size(held)}/{size(there)}" if known else UNKNOWN,
        percent(sum(busy) / len(busy) if busy else None),
        f"{size(node.memory.used)}/{size(node.memory.total)}",
        size(node.memory.kill_at),
        _share(ratio(node.object_store.used, node.object_store.total)),
        _share(disk),
        age(None if node.seen is None else now - node.seen),
    )


def _share(fraction: float | None) -> str:
    return percent(None if fraction is None else 100 * fraction)


def _actor_lines(snapshot: Snapshot) -> Iterator[str]:
    counts = snapshot.actor_counts
    if counts is None:
        yield "Actors: not known"
    else:
        yield "Actors: " + (", ".join(f"{number} {state}" for state, number in counts.items() if number and state != "DEAD") or "none")
    for group in snapshot.placement_groups or ():
        if group.pending:
            yield _group_line(group, snapshot.taken)
    actors = [actor for actor in snapshot.actors or () if actor.pending]
    alike = Counter((actor.class_, actor.state, tuple(actor.needs.items()), actor.why) for actor in actors)
    for (name, state, needs, why), number in alike.most_common(MOST):
        shape = ", ".join(f"{count(amount)} {resource}" for resource, amount in needs) or "nothing special"
        yield f"  waits: {number} x {name} ({state}) needs {shape}{_why(why)}"


def _group_line(group: PlacementGroup, now: float) -> str:
    shapes = Counter(", ".join(f"{count(amount)} {name}" for name, amount in bundle.needs.items()) for bundle in group.bundles)
    needs = " + ".join(f"{number} x {{{shape}}}" for shape, number in shapes.items())
    waited = age(None if group.since is None else now - group.since)
    return f"  waits: group {group.name or group.id[:12]} {group.strategy or ''} {needs} for {waited}{_why(group.why)}"


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _left_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.processes is None:
        yield "Processes: not known"
        return
    left = sorted((process for process in snapshot.processes if process.left_over), key=lambda process: -(process.gpu_memory or 0))
    held = sum(process.gpu_memory or 0 for process in left)
    gpus = f" holding {size(held)} of GPU memory" if held else ""
    yield f"Left over: {plural(len(left), 'process', 'processes')}{gpus} on the {plural(snapshot.looked_at, 'host')} looked at"
    yield from (_process_line(process) for process in left[:MOST])
    dead = [session for session in snapshot.sessions or () if session.live is False]
    if dead:
        known = [session.size for session in dead if session.size is not None]
        yield f"Dead sessions: {len(dead)}" + (f", {size(sum(known))} on disk" if known else "")


def _process_line(process: Process) -> str:
    gpus = ",".join(str(hold.index) for hold in process.gpus)
    held = f"{size(process.gpu_memory)} on GPU {gpus}" if gpus else "no GPU"
    command = (process.command or process.name or UNKNOWN)[:100]
    return f"  {process.kind} {process.host} pid {process.pid} {held}: {command} ({'; '.join(process.why)})"


def _job_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.jobs is None:
        yield "Jobs: not known"
        return
    states = Counter(job.status for job in snapshot.jobs)
    yield "Jobs: " + (", ".join(f"{number} {status}" for status, number in states.items()) or "none")
    yield from (_job_line(job, snapshot.taken) for job in snapshot.jobs if job.running)


def _job_line(job: Job, now: float) -> str:
    lasted = age(None if job.started is None else (job.ended or now) - job.started)
    return f"  {job.status} {job.id} for {lasted}: {(job.entrypoint or UNKNOWN)[:120]}"
