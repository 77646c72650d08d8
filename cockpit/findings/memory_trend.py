"""The recent past of host memory by node and by owner, how fast it grows, and when it will reach the line at which Ray kills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.trend import Series, Trend, find_trend
from cockpit.model import Host, HostMemory, Machine, Process, Snapshot
from cockpit.model.titles import whole_name

STEP_S = 5.0
"""Seconds a step covers: Ray's own agents look no oftener."""
MAX_STEPS = 180
"""15 minutes."""
TREND_STEPS = 24
"""Steps from which a growth is told: two minutes, a phase of training or the loading of a model."""
DEFAULT_THRESHOLD = 0.95
"""Ray's default of RAY_memory_usage_threshold, as a share of all memory."""
SHARED_MEMORY_NAME = "shared memory: Ray's object store, /dev/shm"
MAX_BYTES = 2**60
"""No host has as many bytes."""


class KillLine(msgspec.Struct, frozen=True):
    """Above how many used bytes Ray kills; `assumed` where its setting is not known, so that its default stands in."""

    at: int
    assumed: bool


class MemoryOwner(msgspec.Struct, frozen=True):
    """Whose memory it is: an actor's, else a job's, else another Ray's, else that of what runs."""

    key: str
    name: str
    """What runs, in the words of its process: all there is to show where the actor is not known any more."""
    actor: str | None = None
    job: str | None = None
    kind: str | None = None
    user: str | None = None


class Holding(msgspec.Struct, frozen=True):
    """What one owner holds on a host now: what its processes have for themselves. What processes share has one owner more."""

    owner: MemoryOwner
    used: int
    processes: tuple[Process, ...]
    trend: Trend | None


class _Past(Series):
    """Bytes in use, step by step."""

    __slots__ = ("_trend",)

    def __init__(self, step: int) -> None:
        super().__init__(step, MAX_STEPS)
        self._trend: tuple[int, Trend | None] | None = None

    def trend(self, now: int) -> Trend | None:
        if self._trend is None or self._trend[0] != now:
            self._trend = (now, find_trend(self.tail(now, TREND_STEPS), STEP_S))
        return self._trend[1]


class MemoryHistory:
    """Fed with every snapshot; asked for the past of a node, and for who holds the memory of a host that is looked at."""

    def __init__(self) -> None:
        self._now = 0
        self._nodes: dict[str, tuple[float, _Past]] = {}
        self._pasts: dict[str, dict[str, _Past]] = {}
        """By host, then by owner."""
        self._held: dict[str, tuple[int, list[tuple[MemoryOwner, int, tuple[Process, ...]]]]] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Take in what is new."""
        self._now = int(snapshot.taken // STEP_S)
        for node in snapshot.nodes or ():
            self._put(node.key, snapshot.index.machine(node), snapshot.taken)
        self._forget(snapshot)
        for host in snapshot.hosts.values():
            if self._due(host, snapshot.taken):
                self._own(host, snapshot.index.processes_by_host.get(host.name, ()))

    def tail(self, node: str, width: int = 60) -> list[float | None]:
        """The bytes in use on a node in the last `width` steps, newest last; `None` where nothing was heard."""
        known = self._nodes.get(node)
        return known[1].tail(self._now, width) if known else [None] * width

    def trend(self, node: str) -> Trend | None:
        """How its memory grows; `None` while too little of the last minutes is known."""
        known = self._nodes.get(node)
        return known[1].trend(self._now) if known else None

    def owner_tail(self, host: str, owner: str, width: int = 60) -> list[float | None]:
        """The same of one owner on a host."""
        past = self._pasts.get(host, {}).get(owner)
        return past.tail(self._now, width) if past else [None] * width

    def holdings(self, host: str) -> list[Holding] | None:
        """Who holds memory of a host, the greatest first; `None` where nobody has looked lately."""
        step, held = self._held.get(host, (0, []))
        if not held or self._now - step > STALE_AFTER_S / STEP_S:
            return None
        return [Holding(owner, used, processes, self._pasts[host][owner.key].trend(self._now)) for owner, used, processes in held]

    def _put(self, node: str, machine: Machine, taken: float) -> None:
        used, seen, known = plausible_bytes(machine.memory.used), machine.seen, self._nodes.get(node)
        if used is None or seen is None or taken - seen > STALE_AFTER_S or (known and known[0] == seen):
            return
        past = known[1] if known else _Past(self._now)
        past.put(self._now, used)
        self._nodes[node] = (seen, past)

    def _due(self, host: Host, taken: float) -> bool:
        """Once a step: every process of it is looked at."""
        fresh = host.taken is not None and taken - host.taken <= STALE_AFTER_S
        return fresh and host.processes is not None and self._held.get(host.name, (None, ()))[0] != self._now

    def _own(self, host: Host, processes: Sequence[Process]) -> None:
        held = sorted(_holdings_by_owner(host, processes), key=lambda one: -one[1])
        pasts = dict(self._pasts.get(host.name, {}))
        for owner, used, _ in held:
            pasts.setdefault(owner.key, _Past(self._now)).put(self._now, used)
        self._pasts[host.name] = {key: past for key, past in pasts.items() if self._now - past.last <= MAX_STEPS}
        self._held[host.name] = (self._now, held)  # last: another thread may read meanwhile, and asks for the past of each of these

    def _forget(self, snapshot: Snapshot) -> None:
        if len(self._nodes) > len(snapshot.nodes or ()) + 100:
            known = {node.key for node in snapshot.nodes or ()}
            self._nodes = {key: past for key, past in self._nodes.items() if key in known}
        if len(self._held) > len(snapshot.hosts) + 100:
            self._held = {name: held for name, held in self._held.items() if name in snapshot.hosts}
            self._pasts = {name: pasts for name, pasts in self._pasts.items() if name in snapshot.hosts}


def plausible_bytes(value: float | None) -> float | None:
    """A number of bytes that can be; what a host says may be anything."""
    return value if value is not None and 0 <= value < MAX_BYTES else None


def kill_line(memory: HostMemory) -> KillLine | None:
    """Where Ray begins to kill; `None` when not even the host's memory is known."""
    total, told = plausible_bytes(memory.total), plausible_bytes(memory.kill_at)
    if told:
        return KillLine(int(told), assumed=False)
    return KillLine(int(DEFAULT_THRESHOLD * total), assumed=True) if total else None


def _holdings_by_owner(host: Host, processes: Sequence[Process]) -> Iterator[tuple[MemoryOwner, int, tuple[Process, ...]]]:
    """Each owner with all it holds; its name is that of its greatest process."""
    by_owner: dict[str, list[tuple[int, MemoryOwner, Process | None]]] = {}
    known = {process.pid for process in processes}
    others = (
        Process(host=host.name, pid=user.pid, user=user.user, command=user.command, rss=user.rss, shared=user.shared, kind="foreign")
        for user in host.memory_users
        if user.pid not in known
    )
    for process in chain(processes, others):
        if (held := plausible_bytes(process.private)) is not None:
            owner = _owner(process)
            by_owner.setdefault(owner.key, []).append((int(held), owner, process))
    if shared := plausible_bytes(host.shm.used if host.memory.shared is None else host.memory.shared):
        by_owner["shm"] = [(int(shared), MemoryOwner("shm", SHARED_MEMORY_NAME), None)]
    for parts in by_owner.values():
        greatest = max(parts, key=lambda part: part[0])[1]
        yield greatest, sum(part[0] for part in parts), tuple(process for _, _, process in parts if process is not None)


def _owner(process: Process) -> MemoryOwner:
    name = whole_name(process) or "?"
    if process.actor:
        return MemoryOwner(f"actor:{process.actor}", name, process.actor, process.job, process.kind, process.user)
    if process.job:
        return MemoryOwner(f"job:{process.job}", name, None, process.job, process.kind, process.user)
    if process.other_owner:
        return MemoryOwner(f"other:{process.session}:{process.other_job}", process.other_owner, kind=process.kind)
    if process.kind == "ray":
        return MemoryOwner(f"ray:{process.session}" if process.session else "ray", "Ray itself", kind="ray", user=process.user)
    return MemoryOwner(f"{process.kind}:{process.user}:{name}", name, kind=process.kind, user=process.user)
