"""Provides the facts for detectors: one snapshot, look-ups in it, the duration of conditions, and the last findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S, Limits
from cockpit.findings.gpu_history import GpuHistory
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.model import Actor, Finding, Gpu, Host, Level, Node, PhaseSpan, PlacementGroup, Process, Remedy, Snapshot, Step
from cockpit.model.titles import MachineTitles
from cockpit.text.grouping import group_by

STEPS_PER_WINDOW = 20
"""Number of counts kept per window: the counts of 10,000 actors that all restart again and again take a megabyte each time."""


class Count(msgspec.Struct, frozen=True):
    """Counts by name, valid until a moment."""

    until: float
    counts: Mapping[str, float]


class Facts:
    """One snapshot for detectors, with the few things that the tracker remembers between two snapshots."""

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
        """`snapshot` has no facts that are too old for a claim; `known` has all facts, however old."""
        self.snapshot, self.index = snapshot, snapshot.index
        self.known = known or snapshot
        """All known facts, however old: to name things, and for reasons against a claim. No claim rests on them."""
        self.limits, self.now = limits, snapshot.taken
        self.holding: dict[tuple[str, str], float] = {}
        """By condition and subject: since when it holds, for all conditions that detectors reported in this run."""
        self.counted: dict[str, tuple[Count, ...]] = dict(counted or {})
        """The recent values of all counts that detectors follow."""
        self.memory = memory or MemoryHistory()
        self.gpu_history = gpu_history or GpuHistory(limits.gpu_memory_watched)
        self._held, self._assumed = held or {}, assumed
        self._found = found

    def seconds_lasting(self, what: str, subject: str) -> float:
        """Seconds for which a condition has held: a detector calls this in every run in which its condition holds, and only then."""
        since = self.holding[what, subject] = self._held.get((what, subject), self.now)
        return max(self._assumed, self.now - since)

    def first_seen(self, what: str, subject: str) -> float | None:
        """Since when a condition holds that was reported in this run; `None` in a single sample, which only assumes a duration."""
        return None if self.is_single_sample else self.holding[what, subject]

    def seconds_steady(self, holds: bool, what: str, subject: str, gap: float) -> float | None:
        """Seconds for which a condition has held, including gaps shorter than `gap` seconds; `None`: it does not hold."""
        if not holds and (not self.was_holding(what, subject) or self.seconds_lasting(f"no {what}", subject) >= gap):
            return None
        return self.seconds_lasting(what, subject)

    def was_holding(self, what: str, subject: str) -> bool:
        """Whether the condition held in the last run."""
        return (what, subject) in self._held

    @property
    def is_single_sample(self) -> bool:
        """Whether the detectors run only once, so that durations are unknown, and not short."""
        return self._assumed > 0

    def has_job_just_ended(self, seconds: float) -> bool:
        """Whether, in a single sample, a job ended so recently that its processes may still be releasing their memory."""
        return self.is_single_sample and any(
            job.ended is not None and 0 <= self.now - job.ended < seconds for job in self.snapshot.jobs or ()
        )

    def was_found(self, code: str, subject: str) -> bool:
        """Whether this finding was found in the last run, so that its lower mark applies."""
        return f"finding:{code}:{subject}" in self._found

    def is_over_mark(self, value: float | None, on: float, off: float, code: str, subject: str) -> bool:
        """Whether the value is at or above its mark: `on` to begin a finding, `off` to continue it. Unknown is not above."""
        return value is not None and value >= (off if self.was_found(code, subject) else on)

    def growth_by_name(self, what: str, counts: Mapping[str, float], seconds: float) -> Mapping[str, float]:
        """The growth of each count in the last `seconds`, or since the counts are known; perhaps a step longer.

        A missing count counts as 0: pass all counts, or don't call this.
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
        """Seconds over which `growth_by_name` has measured the growth."""
        return self.now - self.counted[what][0].until

    @cached_property
    def living_nodes(self) -> tuple[Node, ...]:
        """Nodes that Ray says are alive."""
        return tuple(node for node in self.snapshot.nodes or () if node.state == "ALIVE")

    @cached_property
    def seen_sessions(self) -> frozenset[str]:
        """Names of the sessions of all Ray processes on probed hosts."""
        return frozenset(ray.session for host in self.snapshot.hosts.values() for ray in host.rays or () if ray.session)

    @cached_property
    def fresh_hosts(self) -> tuple[Host, ...]:
        """Probed hosts with fresh facts."""
        return tuple(host for host in self.snapshot.hosts.values() if host.taken is not None and self.now - host.taken <= STALE_AFTER_S)

    @cached_property
    def _keys_seen_now(self) -> frozenset[str] | None:
        if self.snapshot.processes is self.known.processes:
            return None
        return frozenset([process.key for process in self.snapshot.processes or ()])

    def is_seen_now(self, process: Process) -> bool:
        """Whether its host's list of processes is fresh enough for a claim."""
        return self._keys_seen_now is None or process.key in self._keys_seen_now

    @cached_property
    def spans_by_job(self) -> Mapping[str, Sequence[PhaseSpan]]:
        """The phases of each job, oldest first, by its key."""
        return group_by(self.snapshot.spans, lambda span: span.job)

    @cached_property
    def steps_by_job(self) -> Mapping[str, Sequence[Step]]:
        """The steps of each job, oldest first, by its key."""
        return group_by(self.snapshot.steps, lambda step: step.job)

    @cached_property
    def waiting_for_gpus(self) -> tuple[Actor | PlacementGroup, ...]:
        """Actors and groups that would be placed if there were GPUs for them; actors that wait for their group are not counted twice."""
        actors = [actor for actor in self.snapshot.actors or () if actor.pending and not actor.placement_group and actor.needs.get("GPU")]
        pending = [group for group in self.snapshot.placement_groups or () if group.pending]
        waiting: list[Actor | PlacementGroup] = [group for group in pending if any(bundle.needs.get("GPU") for bundle in group.bundles)]
        waiting += actors
        return tuple(each for each in waiting if each.wait not in ("never", "label", "removed", "starting"))

    def has_fault(self, source: str) -> bool:
        """Whether a source fails now: nothing new follows from its facts."""
        return any(fault.source == source for fault in self.snapshot.faults)

    def stale_since(self, host: str) -> float | None:
        """When the facts of this probed host were true, if they are old; `None`: they are fresh, or there are none."""
        known = self.snapshot.hosts.get(host)
        taken = known.taken if known else None
        return taken if taken is not None and self.now - taken > STALE_AFTER_S else None

    def place(self, process: Process) -> str:
        """The title of the process's node or host."""
        return self.known.index.place_title(process)

    def host_title(self, host: Host) -> str:
        """The title of a host: the title of its node."""
        return self.titles.of_host(host.name)

    def title(self, node: Node) -> str:
        """The title of a node, which distinguishes it from others of the same name."""
        return self.titles.of_node(node)

    @property
    def titles(self) -> MachineTitles:
        """The titles of all machines, also of those without fresh facts."""
        return self.known.index.titles

    def job_title(self, job: str | None) -> str:
        """The name that its owner gave a job, if it was ever known; else Ray's own id."""
        return self.known.index.job_title(job)

    def host_finding(
        self,
        host: Host,
        code: str,
        level: Level,
        text: str,
        evidence: Iterable[str],
        remedy: str,
        gpus: Iterable[Gpu] | None = None,
        subject: str | None = None,
    ) -> Finding:
        """A finding about a probed host, or some of its GPUs; `subject`: not its title."""
        mine = [node.key for node in self.index.nodes_on(host)] or [f"node:{host.name}"]
        about = tuple(mine) if gpus is None else tuple(dict.fromkeys(f"{mine[0]}:{gpu.index}" for gpu in gpus))
        subject, seen = subject or self.host_title(host), self.stale_since(host.name)
        return Finding(code, level, subject, text, tuple(evidence), remedy=Remedy(remedy), about=about, seen=seen)

    def node_finding(
        self, node: Node, code: str, level: Level, text: str, evidence: Iterable[str], remedy: Remedy, about: Iterable[str] = ()
    ) -> Finding:
        """A finding about a node from facts of its machine; `about`: keys of more things it is about."""
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
        """A finding about the cluster and these nodes of it."""
        about = tuple(node.key for node in nodes)
        return Finding(code, level, "cluster", text, tuple(evidence), since, Remedy(remedy), about, seen)

    def last_answer_before_fault(self, *sources: str) -> float | None:
        """The oldest last answer of the sources that fail now, of these sources; `None`: none fails."""
        failed = {fault.source for fault in self.snapshot.faults}
        return min((self.snapshot.as_of[source] for source in sources if source in failed and source in self.snapshot.as_of), default=None)

    def oldest_stale(self, nodes: Iterable[Node]) -> float | None:
        """When the oldest facts of these nodes' machines were true, if they are old; `None`: they are fresh, or there are none."""
        times = [seen for node in nodes if (seen := self.index.machine(node).seen) is not None]
        return min((seen for seen in times if self.now - seen > STALE_AFTER_S), default=None)
