"""Says, from a snapshot alone, which live work ends with an action and what stays; missing facts are reported as unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from cockpit.model import Actor, Job, PlacementGroup, Process, Snapshot
from cockpit.model.titles import whole_name
from cockpit.text import gpus_words, plural
from cockpit.text.grouping import group_by

HELD = ("ALIVE", "RESTARTING")
"""States in which an actor holds its resources."""
PLACED = ("CREATED", "RESCHEDULING")
"""States in which a placement group holds its resources."""
MAX_CLASSES = 6
"""Classes of actors that one sentence names."""


def lost_with_job(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return what ends with a job. `name` is its id in Ray's job API."""
    job = _find_job(snapshot, name)
    if job is None:
        return (f"what ends with job {name} is unknown",)
    if not job.running or job.job is None:
        return ()
    return _lost(snapshot, _actors(snapshot, job=job.job, detached=False), _groups(snapshot, job=job.job, detached=False))


def left_by_job(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return what stays after a job until an operator ends it."""
    job = _find_job(snapshot, name)
    if job is None:
        return (f"what job {name} leaves behind is unknown",)
    if job.job is None:
        return ()
    actors, groups = _actors(snapshot, job=job.job, detached=True), _groups(snapshot, job=job.job, detached=True)
    stay = [f"{_actor(actor)} of job {name} is detached: it stays{_with('keeps', _gpus([actor]))}" for actor in actors]
    stay += [f"{_group(group)} of job {name} is detached: it stays{_with('keeps', _gpus([], [group]))}" for group in groups]
    return (*stay, *_doubts(snapshot))


def lost_with_session(snapshot: Snapshot, hosts: Collection[str]) -> tuple[str, ...]:
    """Return what ends if Ray is stopped on these hosts. With the head the whole cluster ends."""
    if snapshot.nodes is None:
        return ("what runs in this Ray session is unknown: its dashboard has not answered",)
    # Also count the nodes that a host claims without proof: a loss too many is better than an unreported one.
    here = {ident for name in hosts for ident in (name, *(snapshot.hosts[name].nodes if name in snapshot.hosts else ()))}
    alive = [node for node in snapshot.nodes if node.state != "DEAD" and node.id is not None]
    ended = [node for node in alive if here & {node.id, node.host, node.ip, node.name}]
    if not ended:
        return ()

    all_ends = any(node.head for node in ended)
    nodes = {node.id for node in ended}
    running = [job for job in snapshot.jobs or () if job.running]
    jobs = [job for job in running if all_ends or job.driver_node in nodes]
    drivers = {job.job for job in jobs if job.job}
    actors = [a for a in _actors(snapshot) if all_ends or a.node in nodes or (a.job in drivers and not a.detached)]
    groups = [g for g in _groups(snapshot) if all_ends or (g.job in drivers and not g.detached)]
    ends = [*(f"job {job.id} ends" for job in jobs), *_lost(snapshot, actors, groups)]
    if snapshot.jobs is None:
        ends.append("the running jobs are unknown")
    elif not all_ends:  # Ray does not report the node of a driver that connected by itself
        ends += [f"job {job.id} may end: its driver's node is unknown" for job in running if job.driver_node is None]
    return tuple(ends)


def lost_with_actor(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return what ends with an actor, by its id."""
    actor = next((actor for actor in snapshot.actors or () if actor.id == name), None)
    if actor is None:
        return ("what this actor does and holds is unknown",)
    ends = f"{_actor(actor)}{_of_job(snapshot, actor.job)} ends{_with('frees', _gpus([actor]))}; Ray will not restart it"
    return (ends, *_users_of(snapshot, actor))


def lost_with_group(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return what ends with a placement group, by its id: actors in it, and the reservation of a running job."""
    group = next((group for group in snapshot.placement_groups or () if group.id == name), None)
    if group is None:
        return ("what this placement group holds is unknown",)
    ends = [*_lost(snapshot, [actor for actor in _actors(snapshot) if actor.placement_group == name], ())]
    if any(job.running for job in snapshot.jobs or () if job.job == group.job):
        job = _of_job(snapshot, group.job).removeprefix(" of")
        ends.append(f"{_group(group)} of running{job} is removed{_with('frees', _gpus([], [group]))}")
        if not group.detached:
            ends += _job_fails(snapshot, group.job)
    elif snapshot.jobs is None:
        ends.append("whether its job still runs is unknown")
    return tuple(ends)


def lost_with_processes(snapshot: Snapshot, processes: Iterable[Process]) -> tuple[str, ...]:
    """Return what ends with these processes: actors, drivers with their jobs, or a whole Ray."""
    return tuple(dict.fromkeys(line for process in processes for line in _lost_with_process(snapshot, process)))


def _lost_with_process(snapshot: Snapshot, process: Process) -> Iterator[str]:
    place, job = snapshot.index.place_title(process), _of_job(snapshot, process.job)
    if process.other_owner is not None:
        # Of a Ray that is not followed only the owner of the process is known.
        does = {"ray": "is a part of", "driver": "is the driver of", "worker": "works for", "child": "works for"}.get(process.kind)
        if does is not None:
            yield f"process {process.pid} on {place} {does} {process.other_owner}: what ends with it is unknown"
    elif process.kind == "driver":
        yield f"process {process.pid} is the driver{job or ' of an unknown job'}, which ends with it"
        known = next((one for one in snapshot.jobs or () if process.job and process.job in (one.job, one.submission)), None)
        yield from lost_with_job(snapshot, known.id) if known is not None else ()
    elif process.kind == "ray":
        yield f"process {process.pid} on {place} is a part of Ray itself ({whole_name(process) or '?'})"
        yield from lost_with_session(snapshot, {process.host}) if process.name in ("raylet", "gcs_server") else ()
    elif (worker := _worker_of(snapshot, process)) is not None:
        actor = next((actor for actor in snapshot.actors or () if actor.id == worker.actor), None)
        what = _actor(actor) if actor is not None else "an actor" if worker.actor else "a worker"
        job = _of_job(snapshot, worker.job or process.job)
        if worker is process:
            held = _with("frees", _gpus([actor])) if actor is not None else ""
            yield f"process {process.pid} is {what}{job}: {'the actor' if worker.actor else 'it'} ends{held}"
        else:
            yield f"process {process.pid} works for {what}{job}"
        if actor is not None and worker is process:
            so_far = "" if actor.restarts is None else f"; restarts so far: {actor.restarts}"
            # No API of Ray reports max_restarts.
            yield f"whether Ray restarts {_actor(actor)} depends on its max_restarts, which cockpit can't see{so_far}"
        yield from _users_of(snapshot, actor) if actor is not None else ()
    elif process.kind == "child":
        yield f"process {process.pid} works{job.replace(' of', ' for') or ' for a live Ray session'}"


def _worker_of(snapshot: Snapshot, process: Process) -> Process | None:
    """Return the worker that the process is, or that started it."""
    if process.actor is not None:
        return process
    table = {one.pid: one for one in snapshot.processes or () if one.host == process.host}
    visited: set[int] = set()
    found: Process | None = process
    while found is not None and found.kind != "worker" and found.pid not in visited:
        visited.add(found.pid)
        found = table.get(found.parent) if found.parent is not None and found.kind == "child" else None
    return found if found is not None and found.kind == "worker" else None


def _users_of(snapshot: Snapshot, actor: Actor) -> tuple[str, ...]:
    """Say what happens to the jobs that use this actor."""
    if actor.detached:
        return (f"{_actor(actor)} is detached: the jobs that use it are unknown",)
    return _job_fails(snapshot, actor.job)


def _job_fails(snapshot: Snapshot, job: str | None) -> tuple[str, ...]:
    """Say that a running job loses something that it has made for itself. `job` is Ray's own id."""
    found = next((one for one in snapshot.jobs or () if job and one.job == job and one.running), None)
    if found is None:
        return ()
    gpus = _gpus(_actors(snapshot, job=job), _groups(snapshot, job=job))
    holds = f" ({gpus_words(gpus)})" if gpus else ""
    return (f"job {found.id}{holds} uses it and will probably fail",)


def _find_job(snapshot: Snapshot, name: str) -> Job | None:
    return next((job for job in snapshot.jobs or () if job.id == name), None)


def _actors(snapshot: Snapshot, job: str | None = None, detached: bool | None = None) -> list[Actor]:
    """Return the actors of users that are not dead. An unknown `detached` counts as false, as it is for almost all."""
    alive = [actor for actor in snapshot.actors or () if actor.state != "DEAD" and not actor.internal]
    return [actor for actor in alive if job in (None, actor.job) and detached in (None, bool(actor.detached))]


def _groups(snapshot: Snapshot, job: str | None = None, detached: bool | None = None) -> list[PlacementGroup]:
    there = [group for group in snapshot.placement_groups or () if group.state != "REMOVED"]
    return [group for group in there if job in (None, group.job) and detached in (None, bool(group.detached))]


def _lost(snapshot: Snapshot, actors: Iterable[Actor], groups: Iterable[PlacementGroup]) -> tuple[str, ...]:
    """Return one sentence for each job, and sentences about unknown facts."""
    actors_by_job = group_by(actors, lambda actor: actor.job)
    groups_by_job = group_by(groups, lambda group: group.job)
    sentences = []
    for job in {**actors_by_job, **groups_by_job}:
        own, own_groups = actors_by_job.get(job, []), groups_by_job.get(job, [])
        counts = [plural(len(each), noun) for each, noun in ((own, "actor"), (own_groups, "placement group")) if each]
        verb, frees = ("ends", "frees") if len(own) + len(own_groups) == 1 else ("end", "free")
        classes = Counter(actor.class_ or "?" for actor in own)
        named = ", ".join(f"{number} × {name}" if number > 1 else name for name, number in classes.most_common(MAX_CLASSES))
        rest = len(classes) - MAX_CLASSES
        more = f" and {plural(rest, 'more class', 'more classes')}" if rest > 0 else ""
        freed = _with(frees, _gpus(own, own_groups))
        sentences.append(f"{' and '.join(counts)}{_of_job(snapshot, job)} {verb} with it{freed}{': ' if named else ''}{named}{more}")
    return (*sentences, *_doubts(snapshot))


def _gpus(actors: Iterable[Actor], groups: Iterable[PlacementGroup] = ()) -> float:
    """Return the GPUs that are reserved by the groups, and by actors outside of groups; an actor in a group uses the group's."""
    alone = [actor for actor in actors if actor.state in HELD and actor.placement_group is None]
    placed = [bundle for group in groups if group.state in PLACED for bundle in group.bundles if bundle.node is not None]
    return sum(needs.get("GPU", 0.0) for needs in (*(actor.needs for actor in alone), *(bundle.needs for bundle in placed)))


def _doubts(snapshot: Snapshot) -> Iterator[str]:
    """Say which lists are unknown or incomplete."""
    if snapshot.actors is None:
        yield "the list of actors is unknown"
    elif snapshot.actors_complete is False:
        yield "Ray's list of actors is incomplete: there may be more"
    if snapshot.placement_groups is None:
        yield "the list of placement groups is unknown"


def _of_job(snapshot: Snapshot, job: str | None) -> str:
    """Return ` of job NAME` with the name that people use; empty if the job is unknown."""
    named = next((one.id for one in snapshot.jobs or () if job and job in (one.job, one.submission)), job)
    return f" of job {named}" if named else ""


def _actor(actor: Actor) -> str:
    name = f" {actor.name}" if actor.name and actor.name != actor.class_ else ""
    return f"actor {actor.class_ or actor.id[:8]}{name}"


def _group(group: PlacementGroup) -> str:
    return f"placement group {group.name or group.id[:8]}"


def _with(verb: str, gpus: float) -> str:
    return f" and {verb} {gpus_words(gpus)}" if gpus else ""
