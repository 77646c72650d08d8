"""Keeps the recent past of host memory by node and by owner, and estimates its growth; also knows the line at which Ray kills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.trend import Series, Trend, find_trend
from cockpit.model import Host, HostMemory, Process, Snapshot
from cockpit.model.titles import whole_name

STEP_S = 5.0
"""Seconds of a step: Ray's own agents sample no more often."""
MAX_STEPS = 180
"""15 minutes."""
TREND_STEPS = 24
"""Steps over which growth is measured: two minutes, a phase of training or the loading of a model."""
DEFAULT_THRESHOLD = 0.95
"""Ray's default of RAY_memory_usage_threshold, as a share of all memory."""
SHARED_MEMORY_NAME = "shared memory: Ray's object store, /dev/shm"
MAX_BYTES = 2**60
"""More bytes than any host has."""


class KillLine(msgspec.Struct, frozen=True):
    """The used bytes above which Ray kills; `assumed`: its setting is unknown, and this is the default."""

    at: int
    assumed: bool


class MemoryOwner(msgspec.Struct, frozen=True):
    """The owner of memory: an actor, a job, another Ray, or a program of a user, whichever comes first."""

    key: str
    name: str
    """The name of its process, for an actor that is no longer known."""
    actor: str | None = None
    job: str | None = None
    kind: str | None = None
    user: str | None = None


class Holding(msgspec.Struct, frozen=True):
    """Memory that one owner holds on a host: the private memory of its processes. Shared memory has an owner of its own."""

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
    """Memory in use by node, and by owner on probed hosts, over the last 15 minutes."""

    def __init__(self) -> None:
        self._now = 0
        self._nodes: dict[str, tuple[float, _Past]] = {}
        self._pasts: dict[str, dict[str, _Past]] = {}
        """By host name, then by owner key."""
        self._held: dict[str, tuple[int, list[tuple[MemoryOwner, int, tuple[Process, ...]]]]] = {}

    def record(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        self._now, taken = int(snapshot.taken // STEP_S), snapshot.taken
        for node in snapshot.nodes or ():
            machine, known = snapshot.index.machine(node), self._nodes.get(node.key)
            used, seen = plausible_bytes(machine.memory.used), machine.seen
            if used is not None and seen is not None and taken - seen <= STALE_AFTER_S and not (known and known[0] == seen):
                past = known[1] if known else _Past(self._now)
                past.put(self._now, used)
                self._nodes[node.key] = (seen, past)

        # Owners once a step: this reads every process of a host.
        for host in snapshot.hosts.values():
            is_fresh = host.taken is not None and taken - host.taken <= STALE_AFTER_S
            if is_fresh and host.processes is not None and self._held.get(host.name, (None, ()))[0] != self._now:
                held = sorted(_holdings_by_owner(host, snapshot.index.processes_by_host.get(host.name, ())), key=lambda one: -one[1])
                pasts = dict(self._pasts.get(host.name, {}))
                for owner, bytes_held, _ in held:
                    pasts.setdefault(owner.key, _Past(self._now)).put(self._now, bytes_held)
                self._pasts[host.name] = {key: past for key, past in pasts.items() if self._now - past.last <= MAX_STEPS}
                self._held[host.name] = (self._now, held)  # last: another thread that reads meanwhile needs the past of each holder

        # Forget nodes and hosts that are gone.
        if len(self._nodes) > len(snapshot.nodes or ()) + 100:
            there = {node.key for node in snapshot.nodes or ()}
            self._nodes = {key: recorded for key, recorded in self._nodes.items() if key in there}
        if len(self._held) > len(snapshot.hosts) + 100:
            self._held = {name: holders for name, holders in self._held.items() if name in snapshot.hosts}
            self._pasts = {name: by_owner for name, by_owner in self._pasts.items() if name in snapshot.hosts}

    def tail(self, node: str, width: int = 60) -> list[float | None]:
        """The bytes in use on a node in the last `width` steps, newest last; `None` for steps without a sample."""
        known = self._nodes.get(node)
        return known[1].tail(self._now, width) if known else [None] * width

    def trend(self, node: str) -> Trend | None:
        """The growth of a node's memory; `None` while too little of the last minutes is known."""
        known = self._nodes.get(node)
        return known[1].trend(self._now) if known else None

    def owner_tail(self, host: str, owner: str, width: int = 60) -> list[float | None]:
        """The same as `tail`, for one owner on a host."""
        past = self._pasts.get(host, {}).get(owner)
        return past.tail(self._now, width) if past else [None] * width

    def holdings(self, host: str) -> list[Holding] | None:
        """The holders of a host's memory, the largest first; `None` without a recent sample."""
        step, held = self._held.get(host, (0, []))
        if not held or self._now - step > STALE_AFTER_S / STEP_S:
            return None
        return [Holding(owner, used, processes, self._pasts[host][owner.key].trend(self._now)) for owner, used, processes in held]


def plausible_bytes(value: float | None) -> float | None:
    """The bytes, or `None` if no host can have this number: a host may report anything."""
    return value if value is not None and 0 <= value < MAX_BYTES else None


def kill_line(memory: HostMemory) -> KillLine | None:
    """The line at which Ray kills; `None` if not even the host's memory is known."""
    total, kill_at = plausible_bytes(memory.total), plausible_bytes(memory.kill_at)
    if kill_at:
        return KillLine(int(kill_at), assumed=False)
    return KillLine(int(DEFAULT_THRESHOLD * total), assumed=True) if total else None


def charge_left(memory: HostMemory) -> int | None:
    """The bytes until the kernel's own count of the isolated workers' memory makes Ray kill; `None`: it never does, or that is unknown."""
    charged, total = plausible_bytes(memory.charged), plausible_bytes(memory.total)
    whole = None if memory.whole is None else plausible_bytes(memory.whole.total)
    if charged is None or memory.kill_at is None or total is None or whole is None:
        return None
    return int(memory.kill_at - (total - whole) - charged)  # the line without its part for swap


def _holdings_by_owner(host: Host, processes: Sequence[Process]) -> Iterator[tuple[MemoryOwner, int, tuple[Process, ...]]]:
    """Each owner with its bytes and processes; its name comes from its largest process."""
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
