"""Writes in words which method each rank of a job runs, and which rank holds up the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from cockpit.findings.facts import Facts
from cockpit.model import Activity, Job, Process, Snapshot
from cockpit.model.titles import whole_name
from cockpit.phases import Rank, ranks_of
from cockpit.phases.methods import ENGINE_CLASSES, find_method
from cockpit.phases.ranks import listed_titles, unseen_actors, workers_of
from cockpit.text import age, clean, join_first, plural
from cockpit.text.grouping import group_by

MAX_LINES: Final = 8
MAX_NAMED: Final = 3
RANKS_PER_ODD_ONE: Final = 8
"""At most one in this many ranks of a class counts as different from the others."""
MIN_RANKS: Final = 3
"""A class needs so many ranks, so that one can be called different: of two, either may be the cause."""
IN_KERNEL_S: Final = 10.0
"""A process is named after so many seconds in state D. Shorter waits for a disk are normal."""


class Suspects(msgspec.Struct, frozen=True):
    """The processes that probably hold up a job."""

    words: str
    """A sentence without a full stop."""
    processes: Sequence[Process] = ()
    is_stopped: bool = False
    """A signal has stopped them."""


def processes_of(job: Job, facts: Facts) -> Sequence[Process]:
    """All processes of a job, with its driver and the children of its workers."""
    by_job = facts.index.processes_by_job
    return [process for name in dict.fromkeys((job.job, job.submission, job.id)) if name for process in by_job.get(name, ())]


def find_stopped(facts: Facts, job: Job) -> Sequence[Process]:
    """The processes of a job that a signal has stopped. A tracer such as py-spy causes another state, `t`."""
    return [process for process in processes_of(job, facts) if process.state == "T"]


def find_suspects(facts: Facts, job: Job, activity: Activity, ranks: Sequence[Rank]) -> Suspects | None:
    """The processes that probably hold up the job, by the surest sign; `None`: no process differs from the others."""
    processes = processes_of(job, facts)
    if stopped := find_stopped(facts, job):
        are, it = ("is", "it") if len(stopped) == 1 else ("are", "them")
        words = f"{name_processes(facts, stopped)} {are} stopped by a signal (state T), and the others wait for {it}"
        return Suspects(words, stopped, is_stopped=True)
    # The detector of such processes uses the same clock in every run.
    waits = {process.key: facts.seconds_lasting("waits in the kernel", process.key) for process in processes if process.state == "D"}
    if stuck := [process for process in processes if waits.get(process.key, 0.0) >= IN_KERNEL_S]:
        wait, lasted = "waits" if len(stuck) == 1 else "wait", age(max(waits[process.key] for process in stuck))
        return Suspects(f"{name_processes(facts, stuck)} {wait} in the kernel (state D) for {lasted}", stuck)
    by_class = {class_: members for class_, members in group_by(ranks, lambda rank: rank.title.class_).items() if class_}
    for class_, members in by_class.items():
        if (found := _find_odd_ranks(facts, class_, members)) is not None:
            return found
    if activity.laggards:
        behind = {laggard.process for laggard in activity.laggards}
        if late := [rank for rank in ranks if rank.process.key in behind]:
            some = [rank.process for rank in late]
            return Suspects(f"{name_processes(facts, some)} {_is_in(late[0].title.method, some, 'still ')}, the others have ended it", some)
    if activity.phase in ("waiting", None) and activity.method is None:
        if unseen := unseen_words(job, facts.known):
            return Suspects(f"no worker that is seen runs a method; {unseen}")
        drivers = [process for process in processes if process.kind == "driver"]
        if not drivers:
            return Suspects("no worker runs a method: it waits for its driver, which computes rewards, loads data or asks a server")
        named = ", ".join(f"pid {process.pid} on {facts.place(process)}" for process in drivers[:MAX_NAMED])
        words = f"no worker runs a method: it waits for its driver ({named}), which computes rewards, loads data or asks a server"
        return Suspects(words, drivers)
    return None


def _find_odd_ranks(facts: Facts, class_: str, members: Sequence[Rank]) -> Suspects | None:
    """The ranks of a class that differ from most of its ranks in their method; among engines, those that still generate."""
    by_method = sorted(group_by(members, lambda rank: rank.title.method).items(), key=lambda item: -len(item[1]))
    if len(by_method) != 2:
        return None
    name, most = clean(class_)[:60], max(1, len(members) // RANKS_PER_ODD_ONE)
    (usual, majority), (other, few) = by_method
    if class_ in ENGINE_CLASSES:
        # The title of an engine becomes idle as soon as one of its requests ends, so an idle title proves nothing.
        working = [rank for method, some in by_method for rank in some if method]
        if (usual and other) or 2 * len(working) > len(members):
            return None
        some = [rank.process for rank in working]
        return Suspects(
            f"{name_processes(facts, some)} {_is_in(working[0].title.method, some, 'still ')}, the other engines are idle", some
        )
    rows = [row for method in (usual, other) if method and (row := find_method(class_, method)) is not None]
    if not any(row.kind == "work" and row.phase is not None for row in rows) or any(row.kind not in ("work", "brief") for row in rows):
        return None
    if len(members) < MIN_RANKS:
        both = [majority[0].process, few[0].process]
        told = " and ".join(f"{_name(facts, rank.process)} {_is_in(rank.title.method)}" for rank in (majority[0], few[0]))
        return Suspects(f"of the two {name}, {told}: one of them waits for the other", both)
    if len(few) > most:
        return None
    odd = [rank.process for rank in few]
    others = _is_in(usual, [rank.process for rank in majority])
    return Suspects(f"{name_processes(facts, odd)} {_is_in(other, odd)}, while the other {len(majority)} {others}", odd)


def phase_lines(facts: Facts, job: Job) -> Iterator[str]:
    """Lines of evidence on a job that does nothing: its phase, the processes that probably hold it up, and what its ranks do."""
    activity = next((each for each in facts.snapshot.activities if each.job == job.key), None)
    if activity is None:
        return
    ranks = [rank for rank in ranks_of(job, facts.known) if facts.is_seen_now(rank.process)]
    if activity.since is not None and (what := activity.phase or clean(activity.method or "")):
        yield f"it is in {what} for {age(facts.now - activity.since)}"
    if (suspects := find_suspects(facts, job, activity, ranks)) is not None:
        yield suspects.words
    yield from rank_lines(facts, ranks)


def unseen_words(job: Job, snapshot: Snapshot) -> str:
    """Which workers of a job no probe reports, and what they do by Ray's own list; empty: probes report all of them."""
    unseen = {actor.id: actor for actor in unseen_actors(job, workers_of(job, snapshot), snapshot)}
    if not unseen:
        return ""
    classes = [f"{count} {clean(class_)[:60]}" for class_, count in Counter(actor.class_ for actor in unseen.values()).most_common()]
    nodes = [snapshot.index.nodes.get(actor.node or "") for actor in unseen.values()]
    places = sorted({snapshot.index.titles.of_node(node) for node in nodes if node is not None})
    are, them = ("is", "it") if len(unseen) == 1 else ("are", "them")
    words = (
        f"{join_first(classes, MAX_NAMED)} on {join_first(places, MAX_NAMED) or 'an unknown node'} {are} not seen: no probe reports {them}"
    )
    listed = [(process, title, read) for process, title, read in listed_titles(job, snapshot) if process.actor in unseen]
    if not listed:
        return words
    running = [f"pid {process.pid} is in {clean(title.method)[:60]}" for process, title, _ in listed if title.method]
    seconds = max(0.0, snapshot.taken - min(read for _, _, read in listed))
    return f"{words}; by Ray's list, read {age(seconds)} ago, {join_first(running, MAX_NAMED) or f'{len(listed)} of them are idle'}"


def rank_lines(facts: Facts, ranks: Sequence[Rank]) -> Iterator[str]:
    """Lines of evidence with the number of ranks in each method, class by class, and the pids of a few."""
    lines = 0
    for class_, members in group_by(ranks, lambda rank: rank.title.class_ or "tasks").items():
        for method, some in sorted(group_by(members, lambda rank: rank.title.method).items(), key=lambda item: -len(item[1])):
            if lines == MAX_LINES:
                yield "more classes and methods are left out"
                return
            lines += 1
            phase = f" ({some[0].phase})" if some[0].phase else ""
            does = f"in {clean(method)[:60]}{phase}" if method else "idle by title"
            yield f"{len(some)} of {len(members)} {clean(class_)[:60]} {does}: {name_processes(facts, [rank.process for rank in some])}"


def _is_in(method: str, some: Sequence[Process] = (), still: str = "") -> str:
    are = "is" if len(some) < 2 else "are"
    return f"{are} {still}in {clean(method)[:60]}" if method else f"{are} idle"


def name_processes(facts: Facts, processes: Sequence[Process]) -> str:
    """`WorkerDict on w1 GPU 3 (pid 4242)`, with commas between several; only some pids if there are many."""
    if len(processes) > MAX_NAMED:
        pids = join_first([str(process.pid) for process in processes], MAX_NAMED)
        return f"{plural(len(processes), 'process', 'processes')} (pid {pids})"
    return ", ".join(_name(facts, process) for process in processes)


def _name(facts: Facts, process: Process) -> str:
    """`WorkerDict on w1 GPU 3 (pid 4242)`."""
    gpus = ", ".join(str(hold.index) for hold in process.gpus[:MAX_NAMED])
    what = clean(whole_name(process)).removeprefix("ray::").partition(".")[0].split(" ")[0][:40] or "process"
    kind = f"{what} ({process.kind})" if process.kind in ("driver", "child") else what
    return f"{kind} on {facts.place(process)}{f' GPU {gpus}' if gpus else ''} (pid {process.pid})"
