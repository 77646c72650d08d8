"""Which GPUs each job and user has at one moment: reserved, held, busy, idle and why, or not known."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, Literal

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.stalls import GPUS_PER_ODD_ONE, IDLE_CLEAR_PERCENT
from cockpit.model import Actor, Gpu, Node, PlacementGroup, Process, Quantity, Snapshot

IdleCause = Literal["placement", "loading", "rank", "turn", "unused", "dead", "unseen"]
CAUSES: Final[Mapping[IdleCause, str]] = {
    "placement": "the job waits for placement",
    "loading": "starting or loading",
    "rank": "one rank or a few behind the others",
    "turn": "other GPUs of the job are busy",
    "unused": "reserved, and no process uses it",
    "dead": "held by an ended job or an orphan, or GPU lost",
    "unseen": "cause not seen",
}
"""In the order in which they are listed. `unseen` is idle for sure, and why is not known; a GPU of which nobody knows whether it works is
not idle at all."""
OwnerKind = Literal["job", "other Ray", "no job", "left over"]
Does = Literal["busy", "idle", "lost", "unknown"]
GROWTH_BYTES = 64 << 20
"""By which the memory of a GPU that does nothing must have grown since the last look to count as being loaded."""
IN_USE_SHARE = 0.1
"""Share of a GPU's memory above which somebody uses it: a driver alone holds less."""
MAX_GPUS = 10_000.0
"""Nobody is given more in one piece, whatever the cluster says."""
_RESERVATION_SOURCES = frozenset(["ray.actors", "ray.placement_groups", "ray.identity", "ray.gcs"])


class JobState(msgspec.Struct):
    """What of a job speaks for a cause."""

    waits: bool = False
    """Something of it that needs GPUs has no place."""
    starts: bool = False
    """An actor of it has its place, and is being started."""
    hangs: bool = False
    """Its GPUs are found to wait for each other."""
    over: bool = False
    """Ray says that it has ended."""


class Owner(msgspec.Struct, frozen=True, order=True):
    """Whose GPUs they are: a job's, else by their kind a user's."""

    kind: OwnerKind
    name: str
    """A job's id as its actors carry it; else the user, empty where that is not known."""


class WorkSplit(msgspec.Struct):
    """What somebody had that nobody else could use, in GPUs or GPU-seconds, by what it did."""

    busy: float = 0.0
    idle: dict[IdleCause, float] = msgspec.field(default_factory=dict)
    unknown: float = 0.0
    """Of which nobody knows whether they work."""

    @property
    def idle_sum(self) -> float:
        """By whatever cause."""
        return sum(self.idle.values())

    @property
    def had(self) -> float:
        """All of it."""
        return self.busy + self.idle_sum + self.unknown

    def rest(self, cause: IdleCause, amount: float) -> None:
        """So much more does nothing."""
        if amount > 0:
            self.idle[cause] = self.idle.get(cause, 0.0) + amount


class Use(WorkSplit):
    """What one owner has at one moment, in GPUs; one that several share counts in equal parts."""

    reserved: float | None = 0.0
    """Of which Ray says that they are given to it; `None`: not known."""
    held: float | None = 0.0
    """Whose memory its processes hold."""
    gpu_memory: int | None = None
    host_memory: int | None = None
    user: str | None = None
    nodes: set[str] = msgspec.field(default_factory=set)
    """Keys of the nodes on which it has something."""


class Fleet(msgspec.Struct):
    """All GPUs of the cluster at one moment; `None`: of none of them it is known."""

    gpus: int | None = None
    reserved: float | None = None
    busy: int | None = None
    idle: int | None = None
    unknown: int = 0


class UsageSample(msgspec.Struct):
    """One moment."""

    uses: Mapping[Owner, Use]
    fleet: Fleet
    memory: Mapping[str, int]
    """Memory in use by GPU: what the next look compares with."""
    none_reserved: float | None = None
    """What is reserved for an owner that is not in `uses`: nothing; `None`: that is not known."""


def sample_usage(snapshot: Snapshot, before: Mapping[str, int] | None = None) -> UsageSample:
    """Who has what. `before`: the memory in use by GPU at the look before."""
    seen = _Seen(snapshot)
    uses: defaultdict[Owner, Use] = defaultdict(lambda: Use(reserved=seen.none_reserved, held=seen.none_held))
    _add_processes(seen, uses)
    held = _add_holds(seen, uses, before or {})
    _add_reservations(seen, uses, held)
    return UsageSample(uses, _count_fleet(seen), seen.memory, seen.none_reserved)


def _read_states(snapshot: Snapshot) -> dict[str, JobState]:
    """By the id that its actors and groups carry."""
    states: dict[str, JobState] = {}
    things: list[Actor | PlacementGroup] = [*(snapshot.placement_groups or ()), *(snapshot.actors or ())]
    for thing in things:
        if thing.job and thing.pending and _needs_gpus(thing):
            state = states.setdefault(thing.job, JobState())
            state.starts |= thing.wait == "starting"
            state.waits |= thing.wait != "starting"
    hung = {key for finding in snapshot.findings if finding.code == "job-hung" for key in finding.about}
    for job in snapshot.jobs or ():
        if job.key in hung or not job.running:
            state = states.setdefault(job.job or job.id, JobState())
            state.hangs, state.over = job.key in hung, not job.running
    return states


def _needs_gpus(thing: Actor | PlacementGroup) -> bool:
    if isinstance(thing, Actor):
        return bool(thing.needs.get("GPU") or thing.placement_group)
    return any(bundle.needs.get("GPU") for bundle in thing.bundles)


def _unused_cause(state: JobState) -> IdleCause:
    """Of a GPU that is reserved, and whose memory nobody holds."""
    return "dead" if state.over else "placement" if state.waits else "loading" if state.starts else "unused"


def _idle_cause(state: JobState, *, grows: bool, busy: float, held: float) -> IdleCause:
    """Of a GPU whose memory it holds and that does nothing. `grows`: that memory does; `busy` of `held` GPUs of the job work."""
    if state.over:
        return "dead"
    if state.hangs:
        return "rank"
    if grows or state.starts:
        return "loading"
    if state.waits:
        return "placement"
    if not busy:
        return "unseen"
    return "rank" if busy * GPUS_PER_ODD_ONE <= held else "turn"


_NOTHING_KNOWN = JobState()


class _Seen:
    """Look-ups in one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.now = snapshot, snapshot.taken
        failing = {source for fault in snapshot.faults for source in (fault.source, *fault.sources)}
        known = None not in (snapshot.actors, snapshot.placement_groups) and failing.isdisjoint(_RESERVATION_SOURCES)
        self.none_reserved = 0.0 if known else None
        self.none_held = None if snapshot.processes is None else 0.0
        self.nodes: dict[str, Node] = {node.key: node for node in snapshot.nodes or ()}
        self.states = _read_states(snapshot)
        self._submitted = {job.submission: job.job or job.id for job in snapshot.jobs or () if job.submission}

    @cached_property
    def processes(self) -> list[tuple[Process, Owner]]:
        """Those of a job and those with GPU memory, and whose each is."""
        return [(process, self.owner(process)) for process in self.snapshot.processes or () if process.job or process.gpus]

    def owner(self, process: Process) -> Owner:
        """Whose it is."""
        if process.job:
            return Owner("job", self._submitted.get(process.job, process.job))
        kind: OwnerKind = "left over" if process.left_over else "other Ray" if process.ours is False else "no job"
        return Owner(kind, process.user or "")

    def state(self, owner: Owner) -> JobState:
        """What speaks for a cause."""
        return self.states.get(owner.name, _NOTHING_KNOWN) if owner.kind == "job" else _NOTHING_KNOWN

    def is_fresh(self, node: Node) -> bool:
        """Whether what is said of it is of now."""
        seen = self.snapshot.index.machine(node).seen
        return seen is not None and self.now - seen <= STALE_AFTER_S

    def current_gpus(self, node: Node) -> tuple[Gpu, ...]:
        """Those of which is known what they do now."""
        return self.snapshot.index.machine(node).current_gpus or () if self.is_fresh(node) else ()

    def does(self, node: Node, gpu: Gpu) -> Does:
        """What a GPU does now."""
        if not self.is_fresh(node) or self.snapshot.index.machine(node).gpus_seen is not None:
            return "unknown"
        if gpu.fault:
            return "lost"
        rate = gpu.utilization
        return "unknown" if rate is None or not 0 <= rate <= 100 else "busy" if rate > IDLE_CLEAR_PERCENT else "idle"

    @cached_property
    def gpus(self) -> Mapping[tuple[str, int], tuple[Node, Gpu]]:
        """By key of the node and index."""
        machine = self.snapshot.index.machine
        return {(node.key, gpu.index): (node, gpu) for node in self.nodes.values() for gpu in machine(node).gpus or ()}

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """In use, by GPU."""
        return {
            gpu_id(node.key, gpu): gpu.memory_used
            for node in self.nodes.values()
            for gpu in self.current_gpus(node)
            if gpu.memory_used is not None
        }


def gpu_id(node: str, gpu: Gpu) -> str:
    """Two raylets on a host see the same GPU."""
    return gpu.uuid or f"{node}:{gpu.index}"


def _add_processes(seen: _Seen, uses: Mapping[Owner, Use]) -> None:
    for process, owner in seen.processes:
        use, place = uses[owner], seen.snapshot.index.place_of(process)
        use.user = use.user or process.user
        if place in seen.nodes:
            use.nodes.add(place)
        if (memory := process.gpu_memory) is not None:
            use.gpu_memory = (use.gpu_memory or 0) + memory
        if (memory := process.private) is not None:
            use.host_memory = (use.host_memory or 0) + max(0, memory)


class _Held(msgspec.Struct, frozen=True):
    """A GPU whose memory somebody holds."""

    id: str
    node: Node | None
    gpu: Gpu | None
    owners: list[Owner]
    is_left_over: bool
    """By processes alone that have been left over."""


def _held_gpus(seen: _Seen) -> Iterator[_Held]:
    """Each with whose it is: a job's before anybody else's, and what is left over last."""
    found: dict[str, tuple[Node | None, Gpu | None, dict[int, dict[Owner, None]]]] = {}
    for (place, index), holders in seen.snapshot.index.gpu_holders.items():
        _, gpu = seen.gpus.get((place, index), (None, None))
        entry = found.setdefault(gpu_id(place, gpu) if gpu else f"{place}:{index}", (seen.nodes.get(place), gpu, {}))
        for process, _ in holders:
            owner = seen.owner(process)
            rank = 2 if process.left_over else 0 if owner.kind == "job" else 1
            entry[2].setdefault(rank, {})[owner] = None
    for name, (node, gpu, ranks) in found.items():
        yield _Held(name, node, gpu, list(ranks[min(ranks)]), min(ranks) == 2)


def _add_holds(seen: _Seen, uses: Mapping[Owner, Use], before: Mapping[str, int]) -> Mapping[tuple[Owner, str], float]:
    """What each does with the GPUs that it holds; how many, by owner and node."""
    idle: list[tuple[Owner, float, bool]] = []
    held: defaultdict[tuple[Owner, str], float] = defaultdict(float)
    for one in _held_gpus(seen):
        does = "lost" if one.is_left_over else seen.does(one.node, one.gpu) if one.node and one.gpu else "unknown"
        grows = one.gpu is not None and (one.gpu.memory_used or 0) - before.get(one.id, math.inf) >= GROWTH_BYTES
        share = 1 / len(one.owners)
        for owner in one.owners:
            held[owner, one.node.key if one.node else ""] += share
            use = uses[owner]
            use.held = (use.held or 0.0) + share
            if does == "unknown":
                use.unknown += share
            elif does == "lost":
                use.rest("dead", share)
            elif does == "busy" and not seen.state(owner).hangs:
                use.busy += share
            else:  # by what cause is found when it is known how many of its GPUs work
                idle.append((owner, share, grows))
    for owner, share, grows in idle:
        use = uses[owner]
        use.rest(_idle_cause(seen.state(owner), grows=grows, busy=use.busy, held=use.held or 0.0), share)
    return held


def _add_reservations(seen: _Seen, uses: Mapping[Owner, Use], held: Mapping[tuple[Owner, str], float]) -> None:
    if seen.none_reserved is None:
        return
    for (owner, place), gpus in _reservations(seen.snapshot).items():
        use, node = uses[owner], seen.nodes.get(place)
        use.reserved = (use.reserved or 0.0) + gpus
        use.nodes.add(place)
        spare = max(0.0, gpus - held.get((owner, place), 0.0))
        unseen = spare if node is None or seen.none_held is None or not seen.is_fresh(node) else min(spare, _unexplained_gpus(seen, node))
        use.unknown += unseen
        use.rest(_unused_cause(seen.state(owner)), spare - unseen)


def _reservations(snapshot: Snapshot) -> Mapping[tuple[Owner, str], float]:
    """GPUs by owner and key of the node: bundles that have a place, and living actors outside of groups."""
    found: defaultdict[tuple[Owner, str], float] = defaultdict(float)
    for group in snapshot.placement_groups or ():
        for bundle in group.bundles if group.state != "REMOVED" else ():
            if bundle.node and (gpus := _gpus_of(bundle.needs)):
                found[Owner("job", group.job or ""), f"node:{bundle.node}"] += gpus
    for actor in snapshot.actors or ():
        if actor.state == "ALIVE" and actor.node and not actor.placement_group and (gpus := _gpus_of(actor.needs)):
            found[Owner("job", actor.job or ""), f"node:{actor.node}"] += gpus
    return found


def _gpus_of(needs: Mapping[str, float]) -> float:
    gpus = needs.get("GPU", 0.0)
    return gpus if 0 < gpus <= MAX_GPUS else 0.0


def _unexplained_gpus(seen: _Seen, node: Node) -> float:
    """GPUs of a node that are in use by nobody who is seen: in a container NVML may tell no pids."""
    gpus, holders = seen.snapshot.index.machine(node).gpus, seen.snapshot.index.gpu_holders
    if gpus is None:
        return float("inf")
    used = [gpu.index for gpu in gpus if (gpu.memory_used or 0) > IN_USE_SHARE * (gpu.memory_total or 0)]
    return float(sum((node.key, index) not in holders for index in used))


def _count_fleet(seen: _Seen) -> Fleet:
    """The GPUs of all living nodes, each once."""
    living = [node for node in seen.nodes.values() if node.state == "ALIVE" or node.id is None]
    machine = seen.snapshot.index.machine
    there = {gpu_id(node.key, gpu): seen.does(node, gpu) for node in living for gpu in machine(node).gpus or ()}
    if not there:
        return Fleet()
    given = [used for node in living if (used := node.resources.get("GPU", Quantity()).used) is not None and 0 <= used <= MAX_GPUS]
    does = list(there.values())
    known = len(does) - does.count("unknown")
    return Fleet(
        len(does),
        sum(given) if given else None,
        does.count("busy") if known else None,
        does.count("idle") + does.count("lost") if known else None,
        does.count("unknown"),
    )
