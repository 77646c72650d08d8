"""Sums what jobs and users have used over snapshots, live or recorded: GPU-hours, idle time by cause, memory, restarts and kills."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from cockpit.config.thresholds import LARGE_CLUSTER_NODES
from cockpit.model import Job, Snapshot
from cockpit.usage.gpu_shares import Fleet, Owner, Use, WorkSplit, sample_usage

STEP_S = 5.0
"""Seconds between two samples: Ray's own agents sample no more often."""
LARGE_STEP_S = 15.0
"""The same in a large cluster: a sample of 8,000 GPUs takes 40 ms."""
LONGEST_STEP_S = 60.0
"""The later of two samples counts for the whole time between them, up to so many seconds; a longer time is unwatched."""
MAX_OWNERS = 2_000
"""Jobs and users that are counted: a cluster must not be able to fill the memory."""


class MemoryMark(msgspec.Struct, frozen=True):
    """The moment when the memory of a job's host was fullest."""

    node: str
    moment: float
    used: int
    total: int
    kill_at: int | None
    """Ray kills workers above so many bytes; `None`: unknown."""


class HourSums(WorkSplit):
    """GPU-seconds."""

    reserved: float = 0.0
    held: float = 0.0

    def add(self, other: Use | HourSums, times: float = 1.0) -> None:
        """Add other sums, or what an owner has at one moment for `times` seconds."""
        self.reserved += times * (other.reserved or 0)
        self.held += times * (other.held or 0)
        self.busy += times * other.busy
        self.unknown += times * other.unknown
        for cause, amount in list(other.idle.items()):
            self.add_idle(cause, times * amount)


class FleetSums(msgspec.Struct):
    """GPU-seconds of all GPUs of the cluster."""

    gpus: float = 0.0
    reserved: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    unknown: float = 0.0

    def add(self, fleet: Fleet, step: float) -> None:
        """Add the counts of one moment for `step` seconds."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + step * (getattr(fleet, name) or 0))


class OwnerUsage(msgspec.Struct):
    """The usage of one job, or of a user's processes without a job."""

    owner: Owner
    user: str | None = None
    job: Job | None = None
    """As Ray listed it last."""
    sums: HourSums = msgspec.field(default_factory=HourSums)
    seen_s: float = 0.0
    """Seconds in which it existed and was watched."""
    unwatched_s: float = 0.0
    """Seconds without samples between two times when it existed."""
    reserved_s: float = 0.0
    held_s: float = 0.0
    """Seconds of `seen_s` in which `reserved` and `held` were known."""
    gpu_memory: int | None = None
    host_memory: int | None = None
    """The maximum of its processes together."""
    memory_mark: MemoryMark | None = None
    restarts: int = 0
    kills: int = 0
    now: Use | None = None
    """Its use at the last sample; `None`: nothing."""

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.job.id if self.job else self.owner.name


class UserUsage(msgspec.Struct):
    """The usage of one user's jobs and processes; `user` is `None` if unknown."""

    user: str | None
    sums: HourSums = msgspec.field(default_factory=HourSums)
    jobs: int = 0
    gpus: float | None = None
    gpu_memory: int | None = None
    host_memory: int | None = None
    """These three are of now."""


class Usage:
    """Sums over snapshots, which one thread adds in their order, while others may read."""

    def __init__(self) -> None:
        self.begin: float | None = None
        self.end: float | None = None
        self.watched_s = 0.0
        self.unwatched_s = 0.0
        self.kills = 0
        self.fleet_sums = FleetSums()
        self.fleet: Fleet = Fleet()
        """At the last sample."""
        self._owners: dict[Owner, OwnerUsage] = {}
        self._memory: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._killed: set[str] | None = None
        self.session: str | None = None
        """Ray's session, once it is known."""

    @property
    def owners(self) -> Sequence[OwnerUsage]:
        """All owners, the most GPU-hours first."""
        return sorted(self._owners.values(), key=lambda each: (-each.sums.had, each.owner))

    def of_job(self, job: Job) -> OwnerUsage | None:
        """The usage of a job; `None`: it never had anything."""
        return self._owners.get(Owner("job", job.job or job.id))

    def add(self, snapshot: Snapshot) -> bool:
        """Count a snapshot for the time since the last one; returns `False` if it comes too soon, or has neither processes nor actors.

        If the clock was set back, the time counts as unwatched.
        """
        if self.is_of_another_session(snapshot):
            vars(self).update(vars(Usage()))  # job ids count anew in each cluster
        step = 0.0 if self.end is None else snapshot.taken - self.end
        least = LARGE_STEP_S if len(snapshot.nodes or ()) > LARGE_CLUSTER_NODES else STEP_S
        if (self.end is not None and 0 <= step < least) or (snapshot.processes is None and snapshot.actors is None):
            return False
        self.begin = snapshot.taken if self.begin is None else min(self.begin, snapshot.taken)
        self.end, self.session = snapshot.taken, snapshot.cluster.session or self.session
        is_watched = 0 < step <= LONGEST_STEP_S
        sample = sample_usage(snapshot, self._memory if is_watched else {})
        self._memory, self.fleet = dict(sample.memory), sample.fleet
        if is_watched:
            self.watched_s += step
            self.fleet_sums.add(sample.fleet, step)
        else:
            self.unwatched_s += max(0.0, step)
        # Each owner, first those that have nothing any more.
        for owner, before in self._owners.items():
            before.now = sample.uses.get(owner)
        for owner, use in sample.uses.items():
            known = self._owners.get(owner)
            if known is None:
                if len(self._owners) >= MAX_OWNERS:
                    continue
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
        for job in snapshot.jobs or ():
            if (its := self.of_job(job)) is not None:
                its.job = job
        self._mark_memory(snapshot)
        self._count_restarts(snapshot)
        self._count_kills(snapshot)
        return True

    def is_of_another_session(self, snapshot: Snapshot) -> bool:
        """Whether Ray was restarted, or another Ray is followed."""
        return None not in (self.session, snapshot.cluster.session) and self.session != snapshot.cluster.session

    def _mark_memory(self, snapshot: Snapshot) -> None:
        """Remember for each job the moment when one of its hosts was fullest."""
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
        """Count the restarts of actors since the last sample."""
        if snapshot.actors is None:
            return
        now = {actor.id: actor.restarts for actor in snapshot.actors if actor.restarts is not None}
        for actor in snapshot.actors:
            more = now.get(actor.id, 0) - self._restarts.get(actor.id, now.get(actor.id, 0))
            if more > 0 and (known := self._owners.get(Owner("job", actor.job or ""))) is not None:
                known.restarts += more
        self._restarts = now

    def _count_kills(self, snapshot: Snapshot) -> None:
        """Count out-of-memory kills. A kill without a time in the first sample has happened before it."""
        if snapshot.oom_kills is None:
            return
        kills = {kill.key: kill for kill in snapshot.oom_kills if kill.ours is not False}
        begin = math.inf if self.begin is None else self.begin
        earlier = {key for key, kill in kills.items() if kill.moment is None or kill.moment < begin}
        before = earlier if self._killed is None else self._killed
        for key in kills.keys() - before:
            self.kills += kills[key].count
            if (known := self._owners.get(Owner("job", kills[key].job or ""))) is not None:
                known.kills += kills[key].count
        self._killed = before | kills.keys()

    def users(self) -> Sequence[UserUsage]:
        """The usage by user, the most GPU-hours first."""
        return users_of(list(self._owners.values()))


def users_of(owners: Iterable[OwnerUsage]) -> Sequence[UserUsage]:
    """The sums of these owners by user, the most GPU-hours first; they may be of several sessions of Ray."""
    users: dict[str | None, UserUsage] = {}
    for each in owners:
        user = each.user or (None if each.owner.kind == "job" else each.owner.name or None)
        found = users.setdefault(user, UserUsage(user))
        found.sums.add(each.sums)
        found.jobs += each.owner.kind == "job" and (each.job is not None or each.sums.had > 0)  # Ray runs a job of its own for submissions
        if (now := each.now) is not None:
            found.gpus = (found.gpus or 0.0) + now.had
            found.gpu_memory, found.host_memory = _sum(found.gpu_memory, now.gpu_memory), _sum(found.host_memory, now.host_memory)
    known = [each for each in users.values() if each.user is not None or each.sums.had or each.gpu_memory or each.host_memory]
    return sorted(known, key=lambda each: (-each.sums.had, each.user or ""))


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other + (one or 0)


def _most(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
