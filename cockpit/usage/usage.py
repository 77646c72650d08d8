"""Who has used what: GPU-hours, idle time by cause, memory, restarts and kills, added up over snapshots as they come or were recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from cockpit.config.thresholds import LARGE_CLUSTER_NODES
from cockpit.model import Job, Snapshot
from cockpit.usage.look import Fleet, Owner, Use, WorkSplit, sample_usage

STEP_S = 5.0
"""Seconds between two looks that are counted: Ray's own agents look no oftener."""
LARGE_STEP_S = 15.0
"""Of a large cluster: to go through 8,000 GPUs takes 40 ms."""
LONGEST_STEP_S = 60.0
"""Seconds between two looks for which what the later one sees is taken to have been so; after a longer time nobody knows."""
MAX_OWNERS = 2_000
"""Jobs and users that are counted: what a cluster says must not fill the memory."""


class MemoryMark(msgspec.Struct, frozen=True):
    """The fullest that a host was on which a job had something."""

    node: str
    moment: float
    used: int
    total: int
    kill_at: int | None
    """Above which Ray ends workers, where that is known."""


class HourSums(WorkSplit):
    """GPU-seconds; what was had is busy, idle or unknown."""

    reserved: float = 0.0
    held: float = 0.0

    def add(self, other: Use | HourSums, times: float = 1.0) -> None:
        """Put another one's on top, or for so many seconds what somebody has."""
        self.reserved += times * (other.reserved or 0)
        self.held += times * (other.held or 0)
        self.busy += times * other.busy
        self.unknown += times * other.unknown
        for cause, amount in list(other.idle.items()):
            self.rest(cause, times * amount)


class FleetSums(msgspec.Struct):
    """GPU-seconds of all GPUs: how many there were, were reserved, busy and idle, and of how many that is not known."""

    gpus: float = 0.0
    reserved: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    unknown: float = 0.0

    def add(self, fleet: Fleet, step: float) -> None:
        """They were so for so many seconds."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + step * (getattr(fleet, name) or 0))


class OwnerUsage(msgspec.Struct):
    """What one job has used, or a user without one."""

    owner: Owner
    user: str | None = None
    job: Job | None = None
    """As it was last listed."""
    sums: HourSums = msgspec.field(default_factory=HourSums)
    seen_s: float = 0.0
    """Seconds in which it was there and somebody watched."""
    unwatched_s: float = 0.0
    """Seconds between two looks in which nobody watched, and it was there before and after."""
    reserved_s: float = 0.0
    held_s: float = 0.0
    """Of `seen_s`, those in which what it had reserved and held was known."""
    gpu_memory: int | None = None
    host_memory: int | None = None
    """The most that its processes held."""
    memory_mark: MemoryMark | None = None
    restarts: int = 0
    kills: int = 0
    now: Use | None = None
    """What it has, as of the last look; `None`: nothing any more."""

    @property
    def title(self) -> str:
        """What people call it."""
        return self.job.id if self.job else self.owner.name


class UserUsage(msgspec.Struct):
    """What one user's jobs and processes have used; `None`: of whom that is not known."""

    user: str | None
    sums: HourSums = msgspec.field(default_factory=HourSums)
    jobs: int = 0
    gpus: float | None = None
    """That they have now."""
    gpu_memory: int | None = None
    host_memory: int | None = None
    """That they hold now."""


class Usage:
    """Fed with snapshots in their order, live or out of a recording; by one thread, while others may read."""

    def __init__(self) -> None:
        self.begin: float | None = None
        self.end: float | None = None
        self.watched_s = 0.0
        self.unwatched_s = 0.0
        self.kills = 0
        self.fleet_sums = FleetSums()
        self.fleet: Fleet = Fleet()
        """As of the last look."""
        self._owners: dict[Owner, OwnerUsage] = {}
        self._memory: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._killed: set[str] | None = None
        self.session: str | None = None
        """Of Ray, once it was told."""

    @property
    def owners(self) -> Sequence[OwnerUsage]:
        """Whoever had anything, the most GPU-hours first."""
        return sorted(self._owners.values(), key=lambda each: (-each.sums.had, each.owner))

    def of_job(self, job: Job) -> OwnerUsage | None:
        """What a job has used; `None`: it has not been seen with anything."""
        return self._owners.get(Owner("job", job.job or job.id))

    def add(self, snapshot: Snapshot) -> bool:
        """Count what has been so since the last look; whether this was one: not if it comes too soon, or knows nothing of anybody.

        A clock that was set back counts as nobody watching.
        """
        if self.is_of_another_session(snapshot):
            vars(self).update(vars(Usage()))  # job ids count anew in each cluster
        step = 0.0 if self.end is None else snapshot.taken - self.end
        least = LARGE_STEP_S if len(snapshot.nodes or ()) > LARGE_CLUSTER_NODES else STEP_S
        if (self.end is not None and 0 <= step < least) or (snapshot.processes is None and snapshot.actors is None):
            return False
        self.begin = snapshot.taken if self.begin is None else min(self.begin, snapshot.taken)
        self.end, self.session = snapshot.taken, snapshot.cluster.session or self.session
        self._count(snapshot, step)
        return True

    def is_of_another_session(self, snapshot: Snapshot) -> bool:
        """Whether Ray was started anew, or another one is followed."""
        return None not in (self.session, snapshot.cluster.session) and self.session != snapshot.cluster.session

    def _count(self, snapshot: Snapshot, step: float) -> None:
        is_watched = 0 < step <= LONGEST_STEP_S
        look = sample_usage(snapshot, self._memory if is_watched else {})
        self._memory, self.fleet = dict(look.memory), look.fleet
        if is_watched:
            self.watched_s += step
            self.fleet_sums.add(look.fleet, step)
        else:
            self.unwatched_s += max(0.0, step)
        for owner, before in self._owners.items():
            before.now = look.uses.get(owner)
        for owner, use in look.uses.items():
            self._count_use(owner, use, step, is_watched=is_watched)
        self._note_jobs(snapshot)
        self._note_memory(snapshot)
        self._count_restarts(snapshot)
        self._count_kills(snapshot)

    def _count_use(self, owner: Owner, use: Use, step: float, *, is_watched: bool) -> None:
        known = self._owners.get(owner)
        if known is None:
            if len(self._owners) >= MAX_OWNERS:
                return
            known = self._owners[owner] = OwnerUsage(owner)
        elif not is_watched and known.seen_s:
            known.unwatched_s += max(0.0, step)
        known.now, known.user = use, use.user or known.user
        known.gpu_memory, known.host_memory = _most(known.gpu_memory, use.gpu_memory), _most(known.host_memory, use.host_memory)
        if is_watched:
            known.seen_s += step
            known.reserved_s += 0.0 if use.reserved is None else step
            known.held_s += 0.0 if use.held is None else step
            known.sums.add(use, step)

    def _note_jobs(self, snapshot: Snapshot) -> None:
        for job in snapshot.jobs or ():
            if (known := self.of_job(job)) is not None:
                known.job = job

    def _note_memory(self, snapshot: Snapshot) -> None:
        """The fullest host of each job: its nodes were gone through already."""
        marks: dict[str, MemoryMark] = {}
        for node in snapshot.nodes or ():
            memory = snapshot.index.machine(node).memory
            if memory.used is not None and memory.total:
                marks[node.key] = MemoryMark(snapshot.index.titles.of_node(node), snapshot.taken, memory.used, memory.total, memory.kill_at)
        for known in self._owners.values():
            if known.now is not None and known.owner.kind == "job":
                here = [marks[place] for place in known.now.nodes if place in marks]
                earlier = [known.memory_mark] if known.memory_mark else []
                known.memory_mark = max((*here, *earlier), key=lambda mark: mark.used / (mark.kill_at or mark.total), default=None)

    def _count_restarts(self, snapshot: Snapshot) -> None:
        """Those that were seen to happen."""
        if snapshot.actors is None:
            return
        now = {actor.id: actor.restarts for actor in snapshot.actors if actor.restarts is not None}
        for actor in snapshot.actors:
            more = now.get(actor.id, 0) - self._restarts.get(actor.id, now.get(actor.id, 0))
            if more > 0 and (known := self._owners.get(Owner("job", actor.job or ""))) is not None:
                known.restarts += more
        self._restarts = now

    def _count_kills(self, snapshot: Snapshot) -> None:
        """For want of memory; what is told at the first look has happened before, unless it says when."""
        if snapshot.oom_kills is None:
            return
        told = {kill.key: kill for kill in snapshot.oom_kills if kill.ours is not False}
        begin = math.inf if self.begin is None else self.begin
        earlier = {key for key, kill in told.items() if kill.moment is None or kill.moment < begin}
        before = earlier if self._killed is None else self._killed
        for key in told.keys() - before:
            self.kills += told[key].count
            if (known := self._owners.get(Owner("job", told[key].job or ""))) is not None:
                known.kills += told[key].count
        self._killed = before | told.keys()

    def users(self) -> Sequence[UserUsage]:
        """By user, the most GPU-hours first."""
        return users_of(list(self._owners.values()))


def users_of(owners: Iterable[OwnerUsage]) -> Sequence[UserUsage]:
    """By user, the most GPU-hours first: all that these have used, in one session of Ray or in several."""
    users: dict[str | None, UserUsage] = {}
    for each in owners:
        user = each.user or (None if each.owner.kind == "job" else each.owner.name or None)
        found = users.setdefault(user, UserUsage(user))
        found.sums.add(each.sums)
        found.jobs += each.owner.kind == "job" and (each.job is not None or each.sums.had > 0)  # Ray runs one of its own for submissions
        if (now := each.now) is not None:
            found.gpus = (found.gpus or 0.0) + now.had
            found.gpu_memory, found.host_memory = _sum(found.gpu_memory, now.gpu_memory), _sum(found.host_memory, now.host_memory)
    known = [each for each in users.values() if each.user is not None or each.sums.had or each.gpu_memory or each.host_memory]
    return sorted(known, key=lambda each: (-each.sums.had, each.user or ""))


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other + (one or 0)


def _most(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
