"""What a detector may ask: one snapshot, look-ups in it, how long something has held, and what was found last time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S, Limits
from cockpit.findings.gpu_history import GpuHistory
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.model import Actor, Finding, Gpu, Host, Job, Level, Machine, Node, PlacementGroup, Process, Remedy, Snapshot
from cockpit.model.titles import MachineTitles

STEPS_PER_WINDOW = 20
"""In so many steps counts are remembered: those of 10,000 actors that all restart again and again are a megabyte each time."""


class Count(msgspec.Struct, frozen=True):
    """Counts by name, as they stood until then."""

    until: float
    counts: Mapping[str, float]


class Facts:
    """One snapshot as detectors see it, and the little that the tracker remembers between two."""

    def __init__(
        self,
        snapshot: Snapshot,
        limits: Limits,
        held: Mapping[tuple[str, str], float] | None = None,
        found: frozenset[str] = frozenset(),
        counted: Mapping[str, tuple[Count, ...]] | None = None,
        memory: MemoryHistory | None = None,
        assumed: float = 0.0,
        gpu_history: GpuHistory | None = None,
        known: Snapshot | None = None,
    ) -> None:
        """`snapshot` has no facts that are too old for a claim; `known` has all of them, however old."""
        self.snapshot, self.index = snapshot, snapshot.index
        self.known = known or snapshot
        """All that was ever heard, however old: to name things, and for reasons against a claim. Nothing is claimed from it."""
        self.limits, self.now = limits, snapshot.taken
        self.holding: dict[tuple[str, str], float] = {}
        """Since when each condition that was asked for this time holds."""
        self.counted: dict[str, tuple[Count, ...]] = dict(counted or {})
        """What the counts that were ever asked for have been of late."""
        self.memory = memory or MemoryHistory()
        self.gpu_history = gpu_history or GpuHistory(limits.gpu_memory_watched)
        self._held, self._assumed = held or {}, assumed
        self._found = found

    def seconds_lasting(self, what: str, subject: str) -> float:
        """Seconds for which detectors have asked this at every look. A detector asks only while its condition holds."""
        since = self.holding[what, subject] = self._held.get((what, subject), self.now)
        return max(self._assumed, self.now - since)

    def first_seen(self, what: str, subject: str) -> float | None:
        """When detectors asked this first, of what they ask now; `None` in a single look: how long it has lasted is only assumed."""
        return None if self.is_single_look else self.holding[what, subject]

    def seconds_steady(self, holds: bool, what: str, subject: str, gap: float) -> float | None:
        """Seconds for which it has held, gaps shorter than `gap` counted in; `None` when it doesn't."""
        if not holds and (not self.was_holding(what, subject) or self.seconds_lasting(f"no {what}", subject) >= gap):
            return None
        return self.seconds_lasting(what, subject)

    def was_holding(self, what: str, subject: str) -> bool:
        """Whether detectors asked this last time too."""
        return (what, subject) in self._held

    @property
    def is_single_look(self) -> bool:
        """Whether nobody will look again: how long something has been so is then unknown, not short."""
        return self._assumed > 0

    def has_job_just_ended(self, seconds: float) -> bool:
        """Whether nobody will look again, and a job has ended so lately that its processes may still be letting go."""
        return self.is_single_look and any(
            job.ended is not None and 0 <= self.now - job.ended < seconds for job in self.snapshot.jobs or ()
        )

    def was_found(self, code: str, subject: str) -> bool:
        """Whether this was found last time: then its lower mark counts."""
        return f"finding:{code}:{subject}" in self._found

    def is_over_mark(self, value: float | None, on: float, off: float, code: str, subject: str) -> bool:
        """Whether it is above its mark: `on` to begin, `off` to go on. Unknown is not above."""
        return value is not None and value >= (off if self.was_found(code, subject) else on)

    def growth_by_name(self, what: str, counts: Mapping[str, float], seconds: float) -> Mapping[str, float]:
        """By how much each of these counts has grown in the last so many seconds, as far as that was watched, or in a step more.

        A count that is not there is 0: give all there are, or don't ask.
        """
        past = [count for count in self.counted.get(what, ()) if self.now - seconds <= count.until <= self.now]
        if past and past[-1].counts == counts:
            past[-1] = replace(past[-1], until=self.now)
        else:
            if len(past) > 2 and past[-1].until - past[-3].until < seconds / STEPS_PER_WINDOW:
                past[-2:] = [replace(past[-2], until=past[-1].until)]
            past.append(Count(self.now, counts))
        self.counted[what] = tuple(past)
        before = past[0].counts
        return {name: value - before.get(name, 0) for name, value in counts.items() if value > before.get(name, 0)}

    def seconds_grown(self, what: str) -> float:
        """Seconds in which the growth came about that `growth_by_name` has told last."""
        return self.now - self.counted[what][0].until

    @cached_property
    def living_nodes(self) -> tuple[Node, ...]:
        """Nodes that Ray says are alive."""
        return tuple(node for node in self.snapshot.nodes or () if node.state == "ALIVE")

    @property
    def nodes(self) -> Mapping[str, Node]:
        """By Ray's id."""
        return self.index.nodes

    @property
    def jobs(self) -> Mapping[str, Job]:
        """By the 8 hex digits that actors carry."""
        return self.index.jobs

    @property
    def actors(self) -> Mapping[str, Actor]:
        """By id; dead ones are not in it."""
        return self.index.actors

    def machine(self, node: Node) -> Machine:
        """What is known of the machine of a node."""
        return self.index.machine(node)

    @cached_property
    def seen_sessions(self) -> frozenset[str]:
        """Of Ray, those that any of its processes on a probed host is of."""
        return frozenset(ray.session for host in self.snapshot.hosts.values() for ray in host.rays or () if ray.session)

    @cached_property
    def fresh_hosts(self) -> tuple[Host, ...]:
        """Hosts that are looked at, and what was seen there is of now."""
        return tuple(host for host in self.snapshot.hosts.values() if host.taken is not None and self.now - host.taken <= STALE_AFTER_S)

    @cached_property
    def _keys_seen_now(self) -> frozenset[str] | None:
        if self.snapshot.processes is self.known.processes:
            return None
        return frozenset([process.key for process in self.snapshot.processes or ()])

    def is_seen_now(self, process: Process) -> bool:
        """Whether the list of processes that it stands in is fresh enough for a claim."""
        return self._keys_seen_now is None or process.key in self._keys_seen_now

    @cached_property
    def waiting_for_gpus(self) -> tuple[Actor | PlacementGroup, ...]:
        """Actors and groups that would be placed if there were GPUs for them; an actor that waits for its group counts with it."""
        actors = [actor for actor in self.snapshot.actors or () if actor.pending and not actor.placement_group and actor.needs.get("GPU")]
        pending = [group for group in self.snapshot.placement_groups or () if group.pending]
        waiting: list[Actor | PlacementGroup] = [group for group in pending if any(bundle.needs.get("GPU") for bundle in group.bundles)]
        waiting += actors
        return tuple(each for each in waiting if each.wait not in ("never", "label", "removed", "starting"))

    def has_fault(self, source: str) -> bool:
        """Whether a source can't be believed now: nothing new follows from what it said."""
        return any(fault.source == source for fault in self.snapshot.faults)

    def stale_since(self, host: str) -> float | None:
        """When this probed host's facts were true; `None` where that is now, or never was."""
        known = self.snapshot.hosts.get(host)
        taken = known.taken if known else None
        return taken if taken is not None and self.now - taken > STALE_AFTER_S else None

    def place(self, process: Process) -> str:
        """Where it runs, as people call its node, or its host."""
        return self.known.index.place_title(process)

    def host_title(self, host: Host) -> str:
        """A host as its node is called."""
        return self.titles.of_host(host.name)

    def title(self, node: Node) -> str:
        """A node as people call it, and told from another one of that name."""
        return self.titles.of_node(node)

    @property
    def titles(self) -> MachineTitles:
        """What each machine is called, whether or not anything is known of it now."""
        return self.known.index.titles

    def job_title(self, job: str | None) -> str:
        """A job by the name its owner gave it, where that was ever heard."""
        return self.known.index.job_title(job)

    def host_finding(
        self, host: Host, code: str, level: Level, text: str, evidence: Iterable[str], remedy: str, gpus: Iterable[Gpu] | None = None
    ) -> Finding:
        """About a host, or some GPUs of it, as its probe has seen them last."""
        mine = [node.key for node in self.index.nodes_on(host)] or [f"node:{host.name}"]
        about = tuple(mine) if gpus is None else tuple(dict.fromkeys(f"{mine[0]}:{gpu.index}" for gpu in gpus))
        title, seen = self.host_title(host), self.stale_since(host.name)
        return Finding(code, level, title, text, tuple(evidence), remedy=Remedy(remedy), about=about, seen=seen)

    def node_finding(
        self, node: Node, code: str, level: Level, text: str, evidence: Iterable[str], remedy: Remedy, about: Iterable[str] = ()
    ) -> Finding:
        """About a node, by its physical facts, and what else is meant."""
        seen = self.oldest_stale([node])
        return Finding(code, level, self.title(node), text, tuple(evidence), remedy=remedy, about=(node.key, *about), seen=seen)

    def cluster_finding(
        self,
        nodes: Iterable[Node],
        code: str,
        level: Level,
        text: str,
        evidence: Iterable[str],
        remedy: str,
        *,
        since: float | None = None,
        seen: float | None = None,
    ) -> Finding:
        """About the cluster, and these nodes of it."""
        about = tuple(node.key for node in nodes)
        return Finding(code, level, "cluster", text, tuple(evidence), since, Remedy(remedy), about, seen)

    def last_heard_before_fault(self, *sources: str) -> float | None:
        """When the last of these sources that can't be believed now was heard; `None` where all can be."""
        failed = {fault.source for fault in self.snapshot.faults}
        return min((self.snapshot.as_of[source] for source in sources if source in failed and source in self.snapshot.as_of), default=None)

    def oldest_stale(self, nodes: Iterable[Node]) -> float | None:
        """When the oldest of these nodes' physical facts were true; `None` where that is now, or never was."""
        times = [seen for node in nodes if (seen := self.machine(node).seen) is not None]
        return min((seen for seen in times if self.now - seen > STALE_AFTER_S), default=None)
