"""Lists the workers of a job with the method that each runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Actor, Job, Phase, Process, Snapshot
from cockpit.phases.methods import ENGINE_TITLES, find_method, shows_phases
from cockpit.phases.titles import Title, read_title


class Rank(msgspec.Struct, frozen=True):
    """A worker of a job with the method that it runs. Texts for users call it a rank."""

    process: Process
    title: Title
    phase: Phase | None
    """The phase of its method; `None`: its title is idle, or the method is not known."""
    is_old: bool = False
    """Its host is silent: the title may be out of date."""


def seen_at(process: Process, snapshot: Snapshot) -> float:
    """When the title of a process was read. The process list and the titles of a host may be older than its sample."""
    host = snapshot.hosts.get(process.host)
    if host is None or host.taken is None:  # Ray's own list has it
        return snapshot.taken
    return min([host.taken, *(at for source in ("processes", "titles") if (at := host.observed_at(source)) is not None)])


def workers_of(job: Job, snapshot: Snapshot) -> list[tuple[Process, Title]]:
    """The running Ray workers of a job that probes see, with their titles.

    Any user of a host can start a process that looks like a worker of this job. Once Ray has listed actors, only their users count.
    """
    users = snapshot.index.users_of_actors
    anywhere = frozenset().union(*users.values())
    found = snapshot.index.processes_by_job.get(job.job or job.id, ())
    return _with_titles((one for one in found if not users or one.user is None or one.user in users.get(one.host, anywhere)), snapshot)


def watched_workers(job: Job, snapshot: Snapshot) -> tuple[list[tuple[Process, Title]], float | None]:
    """The workers that show what a job does, and when Ray's list of them was read; `None`: probes see them.

    Probes may see only workers whose titles show no phase, such as a trainer on the head. Then the workers of another node count too.
    """
    workers = workers_of(job, snapshot)
    if any(shows_phases(title.class_) for _, title in workers) or not job.job:
        return workers, None
    lists = [listed for listed in snapshot.listed_workers if any(worker.job == job.job for worker in listed.workers)]
    if not lists:
        return workers, None
    newest = max(lists, key=lambda listed: listed.read)
    return [*workers, *_with_titles((worker for worker in newest.workers if worker.job == job.job), snapshot)], newest.read


def unseen_actors(job: Job, workers: Iterable[tuple[Process, Title]], snapshot: Snapshot) -> Iterator[Actor]:
    """Yield the live actors of a job that no probe reports, of classes whose titles show what a job does.

    `workers`: the workers of the job that probes report.
    """
    seen = {process.actor for process, _ in workers}
    actors = snapshot.index.actors_by_job.get(job.job or "", ())
    return (actor for actor in actors if actor.state == "ALIVE" and actor.id not in seen and shows_phases(actor.class_))


def listed_titles(job: Job, snapshot: Snapshot) -> list[tuple[Process, Title, float]]:
    """The workers of a job in Ray's own lists of nodes without a probe, with their titles, and when each list was read."""
    return [
        (process, title, listed.read)
        for listed in snapshot.listed_workers
        for process, title in _with_titles((worker for worker in listed.workers if worker.job == job.job), snapshot)
    ]


def are_titles_watched(job: Job, snapshot: Snapshot) -> bool:
    """Whether probes follow titles that show what the job does. Ray's list, read every 45 seconds, misses phases between two reads."""
    workers, read = watched_workers(job, snapshot)
    rows = [find_method(title.class_, title.method) for _, title in workers]
    return read is None and any(row is None or row.kind != "whole" for row in rows)


def _with_titles(processes: Iterable[Process], snapshot: Snapshot) -> list[tuple[Process, Title]]:
    found: list[tuple[Process, Title]] = []
    for process in processes:
        if process.kind != "worker" or process.command is None or process.state in ("Z", "X"):
            continue
        actor = snapshot.index.actors.get(process.actor or "")
        if actor is not None and actor.internal:
            continue
        title = read_title(process.command, actor.class_ if actor is not None else "")
        if title is not None:
            found.append((process, title))
    return found


def ranks_of(job: Job, snapshot: Snapshot) -> list[Rank]:
    """The workers of a job, sorted by class, machine and GPU. Idle workers of tasks are left out.

    If no probe sees them, these are the workers of one node, from Ray's last list.
    """
    ranks: list[Rank] = []
    for process, title in watched_workers(job, snapshot)[0]:
        if title.class_ or title.method:
            row = find_method(title.class_, title.method) if title.method else None
            is_old = snapshot.taken - seen_at(process, snapshot) > STALE_AFTER_S
            ranks.append(Rank(process, title, row.phase if row else None, is_old))
    ranks.sort(key=lambda rank: (rank.title.class_, snapshot.index.place_title(rank.process), _gpus_of(rank.process), rank.process.pid))
    return ranks


def _gpus_of(process: Process) -> list[int]:
    return [hold.index for hold in process.gpus]


def is_engine(process: Process) -> bool:
    """Whether an inference engine has started the process."""
    return process.command is not None and process.command.startswith(ENGINE_TITLES)
