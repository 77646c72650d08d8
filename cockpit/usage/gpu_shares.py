"""Samples which GPUs each job and user has at one moment: reserved, held, busy, idle with the cause, or unknown."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.stalls import GPUS_PER_ODD_ONE, IDLE_CLEAR_PERCENT
from cockpit.model import Actor, Gpu, Node, Phase, PlacementGroup, Process, Quantity, Snapshot

IdleCause = Literal[
    "placement", "loading", "rank", "turn", "rollout", "scoring", "training", "sync", "checkpoint", "evaluation", "waiting",
    "unused", "dead", "unseen",
]  # fmt: skip
CAUSES: Final[Mapping[IdleCause, str]] = {
    "placement": "the job waits for placement",
    "loading": "starting or loading",
    "rank": "one rank or a few behind the others",
    "turn": "other GPUs of the job are busy",
    "rollout": "idle in phase rollout",
    "scoring": "idle in phase scoring",
    "training": "idle in phase training",
    "sync": "idle in phase weight sync",
    "checkpoint": "idle in phase checkpoint",
    "evaluation": "idle in phase evaluation",
    "waiting": "no worker runs a method",
    "unused": "reserved, and no process uses it",
    "dead": "held by an ended job or an orphan, or GPU lost",
    "unseen": "cause not seen",
}
"""In the order of lists. If all GPUs of a job are idle, the cause is the phase that the job is in; `unseen`: that is unknown too. A GPU of
which it is unknown whether it works is not idle."""
_CAUSE_OF_PHASE: Final[Mapping[Phase, IdleCause]] = {
    "loading": "loading", "rollout": "rollout", "scoring": "scoring", "training": "training", "weight sync": "sync",
    "checkpoint": "checkpoint", "evaluation": "evaluation", "waiting": "waiting",
}  # fmt: skip
OwnerKind = Literal["job", "other Ray", "no job", "left over"]
Does = Literal["busy", "idle", "lost", "unknown"]
GROWTH_BYTES = 64 << 20
"""An idle GPU whose memory has grown by this since the last sample is being loaded."""
IN_USE_SHARE = 0.1
"""Share of a GPU's memory above which some process uses it: the driver alone takes less."""
MAX_GPUS = 10_000.0
"""Reservations of more GPUs are invalid: the number comes from the cluster."""
_RESERVATION_SOURCES = frozenset(["ray.actors", "ray.placement_groups", "ray.identity", "ray.gcs"])


class JobState(msgspec.Struct):
    """The facts about a job that explain why its GPUs are idle."""

    waits: bool = False
    """An actor or a group that needs GPUs has no place."""
    starts: bool = False
    """An actor has a place, and is being started."""
    hangs: bool = False
    """There is a finding that its GPUs wait for each other."""
    over: bool = False
    """Ray reports that it has ended."""
    phase: Phase | None = None
    """What it does; `None`: unknown."""


class Owner(msgspec.Struct, frozen=True, order=True):
    """A job, or the user of processes of another kind."""

    kind: OwnerKind
    name: str
    """A job's id as its actors carry it, or a user; empty if unknown."""


class WorkSplit(msgspec.Struct):
    """GPUs or GPU-seconds that an owner kept from others, by what the GPUs did."""

    busy: float = 0.0
    idle: dict[IdleCause, float] = msgspec.field(default_factory=dict)
    unknown: float = 0.0
    """It is unknown whether these work."""

    @property
    def idle_sum(self) -> float:
        """The sum over all causes."""
        return sum(self.idle.values())

    @property
    def had(self) -> float:
        """The sum of busy, idle and unknown."""
        return self.busy + self.idle_sum + self.unknown

    def add_idle(self, cause: IdleCause, amount: float) -> None:
        """Add an idle amount, if it is positive."""
        if amount > 0:
            self.idle[cause] = self.idle.get(cause, 0.0) + amount


class Use(WorkSplit):
    """What one owner has at one moment, in GPUs; a shared GPU counts in equal parts."""

    reserved: float | None = 0.0
    """GPUs that Ray has assigned to it; `None`: unknown."""
    held: float | None = 0.0
    """GPUs on which its processes hold memory; `None`: unknown."""
    gpu_memory: int | None = None
    host_memory: int | None = None
    user: str | None = None
    nodes: set[str] = msgspec.field(default_factory=set)
    """Keys of the nodes on which it has something."""


class Fleet(msgspec.Struct):
    """Counts of all GPUs of the cluster at one moment; `None`: unknown of all of them."""

    gpus: int | None = None
    reserved: float | None = None
    busy: int | None = None
    idle: int | None = None
    unknown: int = 0


class UsageSample(msgspec.Struct):
    """The usage at one moment."""

    uses: Mapping[Owner, Use]
    fleet: Fleet
    memory: Mapping[str, int]
    """Memory in use by GPU, for the comparison with the next sample."""
    none_reserved: float | None = None
    """The reservation of an owner that is not in `uses`: 0; `None`: unknown."""


def sample_usage(snapshot: Snapshot, before: Mapping[str, int] | None = None) -> UsageSample:
    """The usage in a snapshot. `before`: the `memory` of the sample before."""
    facts = _Facts(snapshot)
    uses: defaultdict[Owner, Use] = defaultdict(lambda: Use(reserved=facts.none_reserved, held=facts.none_held))
    for process in snapshot.processes or ():
        if not process.job and not process.gpus:
            continue
        use, place = uses[facts.owner(process)], snapshot.index.place_of(process)
        use.user = use.user or process.user
        if place in facts.nodes:
            use.nodes.add(place)
        if (memory := process.gpu_memory) is not None:
            use.gpu_memory = (use.gpu_memory or 0) + memory
        if (memory := process.private) is not None:
            use.host_memory = (use.host_memory or 0) + max(0, memory)
    held = _add_holds(facts, uses, before or {})
    _add_reservations(facts, uses, held)
    fresh = [
        (node.key, gpu) for node in facts.nodes.values() if facts.is_fresh(node) for gpu in snapshot.index.machine(node).current_gpus or ()
    ]
    in_use = {gpu_id(node, gpu): gpu.memory_used for node, gpu in fresh if gpu.memory_used is not None}
    return UsageSample(uses, _count_fleet(facts), in_use, facts.none_reserved)


class _Facts:
    """Look-ups in one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        failing = {source for fault in snapshot.faults for source in (fault.source, *fault.sources)}
        is_known = None not in (snapshot.actors, snapshot.placement_groups) and failing.isdisjoint(_RESERVATION_SOURCES)
        self.none_reserved = 0.0 if is_known else None
        self.none_held = None if snapshot.processes is None else 0.0
        self.nodes: dict[str, Node] = {node.key: node for node in snapshot.nodes or ()}
        self.states = _read_states(snapshot)
        self._submitted = {job.submission: job.job or job.id for job in snapshot.jobs or () if job.submission}

    def owner(self, process: Process) -> Owner:
        """The owner of a process."""
        if process.job:
            return Owner("job", self._submitted.get(process.job, process.job))
        kind: OwnerKind = "left over" if process.left_over else "other Ray" if process.ours is False else "no job"
        return Owner(kind, process.user or "")

    def state(self, owner: Owner) -> JobState:
        """The state of an owner's job; without a job nothing is known."""
        return (self.states.get(owner.name) if owner.kind == "job" else None) or JobState()

    def is_fresh(self, node: Node) -> bool:
        """Whether the facts about the node's machine are current."""
        seen = self.snapshot.index.machine(node).seen
        return seen is not None and self.snapshot.taken - seen <= STALE_AFTER_S

    def does(self, node: Node, gpu: Gpu) -> Does:
        """The state of a GPU now, such as busy or idle."""
        if not self.is_fresh(node) or self.snapshot.index.machine(node).gpus_seen is not None:
            return "unknown"
        if gpu.fault:
            return "lost"
        rate = gpu.utilization
        return "unknown" if rate is None or not 0 <= rate <= 100 else "busy" if rate > IDLE_CLEAR_PERCENT else "idle"


def _read_states(snapshot: Snapshot) -> dict[str, JobState]:
    """The states of jobs by the id that their actors and groups carry."""
    states: dict[str, JobState] = {}
    things: list[Actor | PlacementGroup] = [*(snapshot.placement_groups or ()), *(snapshot.actors or ())]
    for thing in things:
        if isinstance(thing, Actor):
            needs_gpus = bool(thing.needs.get("GPU") or thing.placement_group)
        else:
            needs_gpus = any(bundle.needs.get("GPU") for bundle in thing.bundles)
        if thing.job and thing.pending and needs_gpus:
            state = states.setdefault(thing.job, JobState())
            state.starts |= thing.wait == "starting"
            state.waits |= thing.wait != "starting"
    hung = {key for finding in snapshot.findings if finding.code == "job-hung" for key in finding.about}
    for job in snapshot.jobs or ():
        if job.key in hung or not job.running:
            state = states.setdefault(job.job or job.id, JobState())
            state.hangs, state.over = job.key in hung, not job.running
    ids = {job.key: job.job or job.id for job in snapshot.jobs or ()}
    for activity in snapshot.activities:
        if activity.phase is not None and activity.job in ids:
            states.setdefault(ids[activity.job], JobState()).phase = activity.phase
    return states


def gpu_id(node: str, gpu: Gpu) -> str:
    """The identity of a GPU: two raylets on one host see the same GPU."""
    return gpu.uuid or f"{node}:{gpu.index}"


def _add_holds(facts: _Facts, uses: Mapping[Owner, Use], before: Mapping[str, int]) -> Mapping[tuple[Owner, str], float]:
    """Add what each owner does with the GPUs on which it holds memory; returns their number by owner and node.

    A GPU belongs to jobs if any holds memory on it, else to other processes, else to processes that are left over.
    """
    machine = facts.snapshot.index.machine
    gpus = {(node.key, gpu.index): gpu for node in facts.nodes.values() for gpu in machine(node).gpus or ()}
    found: dict[str, tuple[str, Gpu | None, dict[int, dict[Owner, None]]]] = {}
    """By GPU: the key of its node, and its owners by rank."""
    for (place, index), holders in facts.snapshot.index.gpu_holders.items():
        gpu = gpus.get((place, index))
        _, _, ranks = found.setdefault(gpu_id(place, gpu) if gpu else f"{place}:{index}", (place, gpu, {}))
        for process, _ in holders:
            owner = facts.owner(process)
            rank = 2 if process.left_over else 0 if owner.kind == "job" else 1
            ranks.setdefault(rank, {})[owner] = None
    idle: list[tuple[Owner, float, bool]] = []
    held: defaultdict[tuple[Owner, str], float] = defaultdict(float)
    for id_, (place, gpu, ranks) in found.items():
        node, owners = facts.nodes.get(place), list(ranks[min(ranks)])
        does = "lost" if min(ranks) == 2 else facts.does(node, gpu) if node and gpu else "unknown"
        grows = gpu is not None and (gpu.memory_used or 0) - before.get(id_, math.inf) >= GROWTH_BYTES
        share = 1 / len(owners)
        for owner in owners:
            held[owner, place if node else ""] += share
            use = uses[owner]
            use.held = (use.held or 0.0) + share
            if does == "unknown":
                use.unknown += share
            elif does == "lost":
                use.add_idle("dead", share)
            elif does == "busy" and not facts.state(owner).hangs:
                use.busy += share
            else:
                idle.append((owner, share, grows))
    for owner, share, grows in idle:  # the cause depends on how many of the owner's GPUs work
        use = uses[owner]
        use.add_idle(_idle_cause(facts.state(owner), grows=grows, busy=use.busy, held=use.held or 0.0), share)
    return held


def _idle_cause(state: JobState, *, grows: bool, busy: float, held: float) -> IdleCause:
    """Why a GPU is idle on which a job holds memory. `grows`: that memory grows; `busy` of the job's `held` GPUs work."""
    if state.over:
        return "dead"
    if state.hangs:
        return "rank"
    if grows or state.starts:
        return "loading"
    if state.waits:
        return "placement"
    if not busy:
        return "unseen" if state.phase is None else _CAUSE_OF_PHASE[state.phase]
    return "rank" if busy * GPUS_PER_ODD_ONE <= held else "turn"


def _add_reservations(facts: _Facts, uses: Mapping[Owner, Use], held: Mapping[tuple[Owner, str], float]) -> None:
    """Add the GPUs that Ray has assigned.

    Those on which the owner holds no memory are idle, or unknown if a hidden process may use them.
    """
    if facts.none_reserved is None:
        return
    # Placed bundles, and living actors outside of groups.
    reserved: defaultdict[tuple[Owner, str], float] = defaultdict(float)
    for group in facts.snapshot.placement_groups or ():
        for bundle in group.bundles if group.state != "REMOVED" else ():
            if bundle.node and (gpus := _gpus_of(bundle.needs)):
                reserved[Owner("job", group.job or ""), f"node:{bundle.node}"] += gpus
    for actor in facts.snapshot.actors or ():
        if actor.state == "ALIVE" and actor.node and not actor.placement_group and (gpus := _gpus_of(actor.needs)):
            reserved[Owner("job", actor.job or ""), f"node:{actor.node}"] += gpus
    for (owner, place), gpus in reserved.items():
        use, node, state = uses[owner], facts.nodes.get(place), facts.state(owner)
        use.reserved = (use.reserved or 0.0) + gpus
        use.nodes.add(place)
        spare = max(0.0, gpus - held.get((owner, place), 0.0))
        is_known = node is not None and facts.none_held is not None and facts.is_fresh(node)
        hidden = min(spare, _count_hidden(facts.snapshot, node)) if node is not None and is_known else spare
        use.unknown += hidden
        use.add_idle("dead" if state.over else "placement" if state.waits else "loading" if state.starts else "unused", spare - hidden)


def _gpus_of(needs: Mapping[str, float]) -> float:
    gpus = needs.get("GPU", 0.0)
    return gpus if 0 < gpus <= MAX_GPUS else 0.0


def _count_hidden(snapshot: Snapshot, node: Node) -> float:
    """The GPUs of a node whose memory is in use, but by no process that is seen: in a container NVML may report no pids."""
    gpus, holders = snapshot.index.machine(node).gpus, snapshot.index.gpu_holders
    if gpus is None:
        return math.inf
    used = [gpu.index for gpu in gpus if (gpu.memory_used or 0) > IN_USE_SHARE * (gpu.memory_total or 0)]
    return float(sum((node.key, index) not in holders for index in used))


def _count_fleet(facts: _Facts) -> Fleet:
    """Count the GPUs of all living nodes, each once."""
    living = [node for node in facts.nodes.values() if node.state == "ALIVE" or node.id is None]
    machine = facts.snapshot.index.machine
    found = {gpu_id(node.key, gpu): facts.does(node, gpu) for node in living for gpu in machine(node).gpus or ()}
    if not found:
        return Fleet()
    reserved = [used for node in living if (used := node.resources.get("GPU", Quantity()).used) is not None and 0 <= used <= MAX_GPUS]
    does = list(found.values())
    known = len(does) - does.count("unknown")
    return Fleet(
        len(does),
        sum(reserved) if reserved else None,
        does.count("busy") if known else None,
        does.count("idle") + does.count("lost") if known else None,
        does.count("unknown"),
    )
