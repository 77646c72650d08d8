"""What ends with something that is ended, and what stays: sentences out of a Snapshot alone. What it does not have is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from cockpit.model import Actor, Job, PlacementGroup, Process, Snapshot
from cockpit.model.titles import whole_name
from cockpit.text import gpus_words, plural

HELD = ("ALIVE", "RESTARTING")
"""States in which an actor holds what it was declared with."""
PLACED = ("CREATED", "RESCHEDULING")


def lost_with_job(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """What ends with this job, by the id that Ray's job API has for it."""
    job = _find(snapshot, name)
    if job is None:
        return (f"what ends with job {name} is unknown",)
    if not job.running or job.job is None:
        return ()
    return _lost(snapshot, _actors(snapshot, job=job.job, detached=False), _groups(snapshot, job=job.job, detached=False))


def left_by_job(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """What stays when this job is over: nothing but an operator ends it."""
    job = _find(snapshot, name)
    if job is None:
        return (f"what job {name} leaves behind is unknown",)
    if job.job is None:
        return ()
    actors, groups = _actors(snapshot, job=job.job, detached=True), _groups(snapshot, job=job.job, detached=True)
    stay = [f"{_actor(actor)} of job {name} is detached: it stays{_with('keeps', _gpus([actor]))}" for actor in actors]
    stay += [f"{_group(group)} of job {name} is detached: it stays{_with('keeps', _gpus([], [group]))}" for group in groups]
    return (*stay, *_doubts(snapshot))


def lost_with_session(snapshot: Snapshot, hosts: Collection[str]) -> tuple[str, ...]:
    """What ends when Ray is stopped on these hosts. With its head the whole cluster ends."""
    if snapshot.nodes is None:
        return ("what runs in this Ray session is unknown: its dashboard has not answered",)
    alive = [node for node in snapshot.nodes if node.state != "DEAD" and node.id is not None]
    # Also the nodes that a host claims and is not believed to run: better a loss too many than one that nobody was told of.
    here = {ident for name in hosts for ident in (name, *(snapshot.hosts[name].nodes if name in snapshot.hosts else ()))}
    ended = [node for node in alive if here & {node.id, node.host, node.ip, node.name}]
    if not ended:
        return ()
    nodes = None if any(node.head for node in ended) else {node.id for node in ended if node.id}
    running = [job for job in snapshot.jobs or () if job.running]
    jobs = [job for job in running if nodes is None or job.driver_node in nodes]
    drivers = {job.job for job in jobs if job.job}
    actors = [a for a in _actors(snapshot) if nodes is None or a.node in nodes or (a.job in drivers and not a.detached)]
    groups = [g for g in _groups(snapshot) if nodes is None or (g.job in drivers and not g.detached)]
    return (*(f"job {job.id} ends" for job in jobs), *_lost(snapshot, actors, groups), *_unplaced_jobs(snapshot, running, nodes))


def _unplaced_jobs(snapshot: Snapshot, running: Iterable[Job], nodes: Collection[str] | None) -> Iterator[str]:
    """Ray does not say on which node a driver runs that connected by itself."""
    if snapshot.jobs is None:
        yield "the running jobs are unknown"
    elif nodes is not None:
        yield from (f"job {job.id} may end: its driver's node is unknown" for job in running if job.driver_node is None)


def lost_with_processes(snapshot: Snapshot, processes: Iterable[Process]) -> tuple[str, ...]:
    """What ends with these processes: actors, drivers with their jobs, or a whole Ray."""
    index = snapshot.index
    return tuple(dict.fromkeys(line for process in processes for line in _lost_with(snapshot, process, index.place_title(process))))


def lost_with_actor(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """What ends with this actor."""
    actor = next((actor for actor in snapshot.actors or () if actor.id == name), None)
    if actor is None:
        return ("what this actor does and holds is unknown",)
    ends = f"{_actor(actor)}{_of(snapshot, actor.job)} ends{_with('frees', _gpus([actor]))}; Ray will not restart it"
    return (ends, *_follows(snapshot, actor))


def lost_with_group(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """What ends with this placement group: actors in it, and the reservation of a job that still runs."""
    group = next((group for group in snapshot.placement_groups or () if group.id == name), None)
    if group is None:
        return ("what this placement group holds is unknown",)
    inside = _lost(snapshot, [actor for actor in _actors(snapshot) if actor.placement_group == name], ())
    running = any(job.running for job in snapshot.jobs or () if job.job == group.job)
    unknown = ("whether its job still runs is unknown",) if snapshot.jobs is None else ()
    kept = (f"{_group(group)} of running{_of(snapshot, group.job).removeprefix(' of')} is removed{_with('frees', _gpus([], [group]))}",)
    return (*inside, *((*kept, *_job_fails(snapshot, group.job)) if running and not group.detached else kept if running else unknown))


def _follows(snapshot: Snapshot, actor: Actor) -> tuple[str, ...]:
    """What becomes of those that use this actor."""
    if actor.detached:
        return (f"{_actor(actor)} is detached: the jobs that use it are unknown",)
    return _job_fails(snapshot, actor.job)


def _job_fails(snapshot: Snapshot, job: str | None) -> tuple[str, ...]:
    """Of a job that runs, by Ray's own id: it loses something that it has made for itself."""
    found = next((one for one in snapshot.jobs or () if job and one.job == job and one.running), None)
    if found is None:
        return ()
    gpus = _gpus(_actors(snapshot, job=job), _groups(snapshot, job=job))
    holds = f" ({gpus_words(gpus)})" if gpus else ""
    return (f"job {found.id}{holds} uses it and will probably fail",)


def _find(snapshot: Snapshot, name: str) -> Job | None:
    return next((job for job in snapshot.jobs or () if job.id == name), None)


def _actors(snapshot: Snapshot, job: str | None = None, detached: bool | None = None) -> list[Actor]:
    """Those that are not dead and not Ray's own. An unknown `detached` counts as ending with its job, as almost all do."""
    alive = [actor for actor in snapshot.actors or () if actor.state != "DEAD" and not actor.internal]
    return [actor for actor in alive if job in (None, actor.job) and detached in (None, bool(actor.detached))]


def _groups(snapshot: Snapshot, job: str | None = None, detached: bool | None = None) -> list[PlacementGroup]:
    there = [group for group in snapshot.placement_groups or () if group.state != "REMOVED"]
    return [group for group in there if job in (None, group.job) and detached in (None, bool(group.detached))]


def _lost(snapshot: Snapshot, actors: Iterable[Actor], groups: Iterable[PlacementGroup]) -> tuple[str, ...]:
    """A sentence for each job."""
    shares: dict[str | None, tuple[list[Actor], list[PlacementGroup]]] = {}
    for actor in actors:
        shares.setdefault(actor.job, ([], []))[0].append(actor)
    for group in groups:
        shares.setdefault(group.job, ([], []))[1].append(group)
    told = (_sentence(snapshot, job, alive, there) for job, (alive, there) in shares.items())
    return (*told, *_doubts(snapshot))


def _gpus(actors: Iterable[Actor], groups: Iterable[PlacementGroup] = ()) -> float:
    """Those reserved: by groups, and by actors outside of these. An actor inside takes from its group's."""
    apart = [actor for actor in actors if actor.state in HELD and actor.placement_group is None]
    placed = [bundle for group in groups if group.state in PLACED for bundle in group.bundles if bundle.node is not None]
    return sum(needs.get("GPU", 0.0) for needs in (*(actor.needs for actor in apart), *(bundle.needs for bundle in placed)))


def _sentence(snapshot: Snapshot, job: str | None, actors: list[Actor], groups: list[PlacementGroup]) -> str:
    words = [plural(len(things), noun) for things, noun in ((actors, "actor"), (groups, "placement group")) if things]
    verb, frees = ("ends", "frees") if len(actors) + len(groups) == 1 else ("end", "free")
    classes = Counter(actor.class_ or "?" for actor in actors)
    named = ", ".join(f"{number} × {name}" if number > 1 else name for name, number in classes.most_common(6))
    more = f" and {plural(len(classes) - 6, 'more class', 'more classes')}" if len(classes) > 6 else ""
    freed = _with(frees, _gpus(actors, groups))
    return f"{' and '.join(words)}{_of(snapshot, job)} {verb} with it{freed}{': ' if named else ''}{named}{more}"


def _doubts(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.actors is None:
        yield "the list of actors is unknown"
    elif snapshot.actors_complete is False:
        yield "Ray's list of actors is incomplete: there may be more"
    if snapshot.placement_groups is None:
        yield "the list of placement groups is unknown"


def _lost_with(snapshot: Snapshot, process: Process, place: str) -> Iterator[str]:
    serving = _worker(snapshot, process)
    if process.other_owner is not None:
        yield from _lost_elsewhere(process, place, process.other_owner)
    elif process.kind == "driver":
        job = next((job for job in snapshot.jobs or () if process.job and process.job in (job.job, job.submission)), None)
        yield f"process {process.pid} is the driver{_of(snapshot, process.job) or ' of an unknown job'}, which ends with it"
        yield from lost_with_job(snapshot, job.id) if job is not None else ()
    elif process.kind == "ray":
        yield f"process {process.pid} on {place} is a part of Ray itself ({whole_name(process) or '?'})"
        yield from lost_with_session(snapshot, {process.host}) if process.name in ("raylet", "gcs_server") else ()
    elif serving is not None:
        actor = next((actor for actor in snapshot.actors or () if actor.id == serving.actor), None)
        what = _actor(actor) if actor is not None else "an actor" if serving.actor else "a worker"
        own = serving is process
        held = _with("frees", _gpus([actor])) if actor is not None and own else ""
        does = "is" if own else "works for"
        ends = f": {'the actor' if serving.actor else 'it'} ends{held}" if own else ""
        yield f"process {process.pid} {does} {what}{_of(snapshot, serving.job or process.job)}{ends}"
        yield from _after_process(snapshot, actor, own=own)
    elif process.kind == "child":
        yield f"process {process.pid} works{_of(snapshot, process.job).replace(' of', ' for') or ' for a live Ray session'}"


def _after_process(snapshot: Snapshot, actor: Actor | None, *, own: bool) -> Iterator[str]:
    """What becomes of an actor whose process, or whose engine, is gone. Its max_restarts no API of Ray tells."""
    if actor is None:
        return
    if own:
        so_far = "" if actor.restarts is None else f"; restarts so far: {actor.restarts}"
        yield f"whether Ray restarts {_actor(actor)} depends on its max_restarts, which cockpit can't see{so_far}"
    yield from _follows(snapshot, actor)


def _lost_elsewhere(process: Process, place: str, owner: str) -> Iterator[str]:
    """Of a Ray that isn't followed nothing more is known than whose the process is."""
    does = {"ray": "is a part of", "driver": "is the driver of", "worker": "works for", "child": "works for"}.get(process.kind)
    if does is not None:
        yield f"process {process.pid} on {place} {does} {owner}: what ends with it is unknown"


def _worker(snapshot: Snapshot, process: Process) -> Process | None:
    """The worker that it is, or that started it."""
    if process.actor is not None:
        return process
    table = {one.pid: one for one in snapshot.processes or () if one.host == process.host}
    passed: set[int] = set()
    found: Process | None = process
    while found is not None and found.kind != "worker" and found.pid not in passed:
        passed.add(found.pid)
        found = table.get(found.parent) if found.parent is not None and found.kind == "child" else None
    return found if found is not None and found.kind == "worker" else None


def _of(snapshot: Snapshot, job: str | None) -> str:
    """The job as people call it."""
    named = next((one.id for one in snapshot.jobs or () if job and job in (one.job, one.submission)), job)
    return f" of job {named}" if named else ""


def _actor(actor: Actor) -> str:
    name = f" {actor.name}" if actor.name and actor.name != actor.class_ else ""
    return f"actor {actor.class_ or actor.id[:8]}{name}"


def _group(group: PlacementGroup) -> str:
    return f"placement group {group.name or group.id[:8]}"


def _with(verb: str, gpus: float) -> str:
    return f" and {verb} {gpus_words(gpus)}" if gpus else ""
