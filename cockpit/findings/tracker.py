"""Runs all detectors on each snapshot, and remembers between snapshots the last findings and since when they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.config.thresholds import DAY_S, LARGE_CLUSTER_NODES, STALE_AFTER_S, Limits
from cockpit.findings.facts import Count, Facts
from cockpit.findings.gpu_history import GpuHistory
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.findings.sources import DECLARED_SOURCES, Detector, SourceTimes, without_old_facts
from cockpit.model import Fault, Finding, Snapshot, rank_of
from cockpit.text import age
from cockpit.text.bug import bug

CLOCK_JITTER_S = 0.5
"""Seconds by which the same moment on another host may differ between two samples: its clock is compared with ours for each of them."""
PAUSE_S, LARGE_PAUSE_S = 1.9, 4.0
"""Seconds after which the detectors run again, and for a large cluster: probes sample every 2 s, Ray itself every 5 s."""


FactTimes = Mapping[str, float]
"""By key of each source of a finding: when its facts were true. Sources of an unknown time are left out."""


class AcceptedFinding(msgspec.Struct, frozen=True):
    """A finding as it was last accepted."""

    finding: Finding
    sources: frozenset[str]
    """The sources that its detector has declared."""
    fact_times: FactTimes
    accepted_at: float
    """When it was accepted."""


class FindingTracker:
    """Runs the detectors on one snapshot after the other."""

    def __init__(self, limits: Limits, detectors: Sequence[Detector], assumed: float = 0.0) -> None:
        """`assumed`: in a single sample, the seconds for which every condition is assumed to have held; 0: the cluster is watched."""
        self._limits, self._detectors, self._assumed = limits, detectors, assumed
        self._since: dict[str, float] = {}
        self._accepted: dict[str, AcceptedFinding] = {}
        self._times: SourceTimes | None = None
        """The times of all sources at the last run; `None` before the first."""
        self._due: dict[str, FactTimes] = {}
        """By key of a finding that waits for newer facts before it begins: the times of its sources before it was found."""
        self._paused: dict[tuple[str, str], float] = {}
        """The seconds for which conditions had held when the facts about them became too old."""
        self._held: dict[tuple[str, str], float] = {}
        self.memory = MemoryHistory()
        """The recent past of host memory. Only this class records it; pages read it, perhaps while another thread records."""
        self._gpu_history = GpuHistory(limits.gpu_memory_watched)
        self._counted: Mapping[str, tuple[Count, ...]] = {}
        self._findings: tuple[Finding, ...] = ()
        self._bugs: tuple[Fault, ...] = ()
        self._looked: float | None = None
        self._epoch = object()
        """Changes with the cluster: results of a run that began with the previous cluster are dropped."""

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its findings, the most severe first, then the oldest."""
        self.run_detectors(snapshot)
        return self.with_findings(snapshot)

    def due(self, snapshot: Snapshot) -> bool:
        """Whether the last findings are too old; also after a clock was set back."""
        rest = LARGE_PAUSE_S if len(snapshot.nodes or ()) > LARGE_CLUSTER_NODES else PAUSE_S
        return self._looked is None or not 0 <= snapshot.taken - self._looked < rest

    def with_findings(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the last findings."""
        return replace(snapshot, findings=self._findings, findings_as_of=self._looked, faults=(*snapshot.faults, *self._bugs))

    def run_detectors(self, snapshot: Snapshot) -> None:
        """Run every detector. It touches nothing that is drawn, so another thread may call it, one call at a time."""
        # Facts for the detectors: without old ones, with the recent past and the clocks of conditions.
        epoch, times = self._epoch, SourceTimes(snapshot)
        fresh = without_old_facts(snapshot, times)
        self.memory.record(fresh)
        self._gpu_history.record(fresh)
        found_before = frozenset(self._accepted)
        held = {**{what: snapshot.taken - lasted for what, lasted in self._paused.items()}, **self._held}
        facts = Facts(fresh, self._limits, held, found_before, self._counted, self.memory, self._assumed, self._gpu_history, snapshot)

        # The findings of this run, each with its sources.
        bugs: list[Fault] = []
        found: dict[str, AcceptedFinding] = {}
        for detect in self._detectors:
            sources = DECLARED_SOURCES.get(detect, frozenset())
            for finding in self._run_detector(detect, facts, bugs):
                at = times.of_finding(finding, sources)
                named = replace(finding, sources=tuple(one.source for one in at)) if at else finding
                found[finding.key] = AcceptedFinding(named, sources, times.fact_times(finding, sources), facts.now)
        accepted = self._accept(found, times)

        # Since when each finding holds: as its facts say, else since it was first found.
        self._since = {
            key: one.finding.since if one.finding.since is not None and one.finding.since <= facts.now else self._since.get(key, facts.now)
            for key, one in accepted.items()
        }
        findings: list[Finding] = []
        for one in sorted(accepted.values(), key=lambda one: rank_of(one.finding, self._since[one.finding.key])):
            # The time of the facts, if one of the sources is old by now.
            finding, seen = one.finding, one.finding.seen
            if one.fact_times and any(source.is_old for source in times.of_finding(finding, one.sources)):
                oldest = min(one.fact_times.values())
                seen = oldest if seen is None else min(oldest, seen)
            old = 0.0 if seen is None else facts.now - seen
            text = f"{finding.text.rstrip('.')}, as of {age(old)} ago" if STALE_AFTER_S < old < math.inf else finding.text
            # A single sample knows a beginning only from the facts: the time of the sample is none.
            since = finding.since if facts.is_single_sample else self._since[finding.key]
            findings.append(replace(finding, text=text, since=since, seen=seen))

        self._paused = self._pause_clocks(facts, [accepted[key] for key in accepted.keys() - found.keys()])
        self._held = facts.holding
        self._counted = {what: past for what, past in facts.counted.items() if facts.now - past[-1].until <= DAY_S}
        if epoch is self._epoch:
            self._accepted, self._times = accepted, times
            self._findings, self._bugs, self._looked = tuple(findings), tuple(bugs), facts.now

    def _run_detector(self, detect: Detector, facts: Facts, bugs: list[Fault]) -> list[Finding]:
        """The findings of one detector. If it raises an error, that becomes a fault in `bugs`, and the other detectors still run."""
        try:
            return list(detect(facts))
        except Exception as error:  # noqa: BLE001 a cluster may report anything
            source = f"findings.{detect.__name__}"
            since = next((known.since for known in self._bugs if known.source == source), facts.now)
            bugs.append(Fault(source, bug(error), since))
            return []

    def _accept(self, found: Mapping[str, AcceptedFinding], times: SourceTimes) -> dict[str, AcceptedFinding]:
        """The findings that hold: each begins, changes and ends only when all of its sources have new facts.

        While a source is silent, no duration grows and no finding begins; known findings stay as they were, with the age of their facts.
        In a single sample every finding is new.
        """
        if self._assumed:
            return dict(found)
        kept: dict[str, AcceptedFinding] = {}
        due: dict[str, FactTimes] = {}
        for key, one in found.items():
            before = self._accepted.get(key)
            if before is not None:
                kept[key] = one if _are_newer(one.fact_times, before.fact_times) else before
                continue
            earlier: FactTimes | None = None
            if self._times is not None:
                earlier = self._due.get(key) or self._times.fact_times(one.finding, one.sources)
            if earlier is None or _are_newer(one.fact_times, earlier):
                kept[key] = one
            else:
                due[key] = earlier
        silent = {
            key: before
            for key, before in self._accepted.items()
            if key not in found and before.sources and not _are_newer(times.fact_times(before.finding, before.sources), before.fact_times)
        }
        self._due = due
        return {**kept, **silent}

    def _pause_clocks(self, facts: Facts, kept: Sequence[AcceptedFinding]) -> dict[tuple[str, str], float]:
        """How long conditions of findings with silent sources had held: the time of silence does not count."""
        paused: dict[tuple[str, str], float] = {}
        for one in kept:
            names = (one.finding.subject, *one.finding.about)
            for (what, subject), since in self._held.items():
                if any(name in subject or subject in name for name in names):
                    paused[what, subject] = max(0.0, one.accepted_at - since)
            for (what, subject), lasted in self._paused.items():
                if any(name in subject or subject in name for name in names):
                    paused.setdefault((what, subject), lasted)
        return {key: lasted for key, lasted in paused.items() if key not in facts.holding}

    def expire_findings(self) -> None:
        """Make the next run due at once, since much more will be known soon; the last findings stay until then."""
        self._looked = None

    def forget_findings(self) -> None:
        """Drop the last findings: another cluster is followed now."""
        self._findings, self._looked, self._epoch = (), None, object()
        self._accepted, self._times, self._due, self._paused = {}, None, {}, {}

    def skip_gap(self, gap: float) -> None:
        """Leave out seconds in which nobody watched from the time for which conditions have held."""
        self._held = {what: since + gap for what, since in self._held.items()}


def _are_newer(times: FactTimes, before: FactTimes) -> bool:
    """Whether every source has newer facts than before; a source of an unknown time counts as newer."""
    return all(at > before[source] + CLOCK_JITTER_S for source, at in times.items() if source in before)
