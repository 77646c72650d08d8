"""Runs all detectors on each snapshot and keeps state between snapshots: since when a finding holds, and the last findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.bug import bug
from cockpit.config.thresholds import DAY_S, LARGE_CLUSTER_NODES, STALE_AFTER_S, Limits
from cockpit.findings.facts import Count, Facts
from cockpit.findings.gpu_history import GpuHistory
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.findings.sources import Detector, SourceTimes, sources_of, without_old_facts
from cockpit.model import Fault, Finding, Snapshot, rank_of
from cockpit.text import age

CLOCK_JITTER_S = 0.5
"""Seconds by which one moment on another host may look different in two samples: its clock is compared with ours again and again."""
PAUSE_S, LARGE_PAUSE_S = 1.9, 4.0
"""Seconds after which a cluster is judged again, and a large one: probes look every 2 s, Ray itself every 5 s."""


Heard = Mapping[str, float]
"""By key of each source of a finding: when its facts were true. One of which no time is known is not in it."""


class JudgedFinding(msgspec.Struct, frozen=True):
    """A finding as it was accepted last."""

    finding: Finding
    sources: frozenset[str]
    """Those that its detector has declared."""
    heard: Heard
    looked: float
    """When it was accepted."""


class FindingTracker:
    """What is wrong in one snapshot after the other."""

    def __init__(self, limits: Limits, detectors: Sequence[Detector], assumed: float = 0.0) -> None:
        """`assumed`: seconds for which what is seen is taken to have been so already, for whoever looks only once."""
        self._limits, self._detectors, self._assumed = limits, detectors, assumed
        self._since: dict[str, float] = {}
        self._judged: dict[str, JudgedFinding] = {}
        self._times: SourceTimes | None = None
        """When each source had been heard at the last look; `None` before the first."""
        self._due: dict[str, Heard] = {}
        """By key of a finding that may begin: what had been heard at the look before it was found."""
        self._paused: dict[tuple[str, str], float] = {}
        """For how many seconds conditions had held when the facts about them grew old."""
        self._held: dict[tuple[str, str], float] = {}
        self.memory = MemoryHistory()
        """The recent past of host memory, recorded here and nowhere else: pages read it too, perhaps while a thread of ours records."""
        self._gpu_history = GpuHistory(limits.gpu_memory_watched)
        self._counted: Mapping[str, tuple[Count, ...]] = {}
        self._findings: tuple[Finding, ...] = ()
        self._bugs: tuple[Fault, ...] = ()
        self._looked: float | None = None
        self._epoch = object()
        """Another one for each cluster: what is being judged while one is left is of that one."""

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its findings, the worst first and of these the oldest."""
        self.run_detectors(snapshot)
        return self.with_findings(snapshot)

    def due(self, snapshot: Snapshot) -> bool:
        """Whether what was found last is too old; a clock that was set back counts as that."""
        rest = LARGE_PAUSE_S if len(snapshot.nodes or ()) > LARGE_CLUSTER_NODES else PAUSE_S
        return self._looked is None or not 0 <= snapshot.taken - self._looked < rest

    def with_findings(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what was found last."""
        return replace(snapshot, findings=self._findings, faults=(*snapshot.faults, *self._bugs))

    def run_detectors(self, snapshot: Snapshot) -> None:
        """Ask every detector. It touches nothing that is drawn, so that another thread may do it, one at a time."""
        epoch, times = self._epoch, SourceTimes(snapshot)
        fresh = without_old_facts(snapshot, times)
        self.memory.record(fresh)
        self._gpu_history.record(fresh)
        found_before = frozenset(self._judged)
        held = {**{what: snapshot.taken - lasted for what, lasted in self._paused.items()}, **self._held}
        facts = Facts(fresh, self._limits, held, found_before, self._counted, self.memory, self._assumed, self._gpu_history, snapshot)
        bugs: list[Fault] = []
        found = {
            finding.key: _judge(finding, sources_of(detect), times, facts.now)
            for detect in self._detectors
            for finding in self._ask(detect, facts, bugs)
        }
        judged = self._keep_what_is_not_news(found, times)
        self._since = {key: self._begun(one.finding, facts.now) for key, one in judged.items()}
        told = sorted((_date(one, times) for one in judged.values()), key=lambda finding: rank_of(finding, self._since[finding.key]))
        self._paused = self._pause_clocks(facts, [judged[key] for key in judged.keys() - found.keys()])
        self._held = facts.holding
        self._counted = {what: past for what, past in facts.counted.items() if facts.now - past[-1].until <= DAY_S}
        findings = tuple(replace(one, text=_dated_text(one, facts.now), since=self._told_since(one, facts)) for one in told)
        if epoch is self._epoch:
            self._judged, self._times = judged, times
            self._findings, self._bugs, self._looked = findings, tuple(bugs), facts.now

    def _keep_what_is_not_news(self, found: Mapping[str, JudgedFinding], times: SourceTimes) -> dict[str, JudgedFinding]:
        """The findings that hold: one begins, changes and ends only when each source that it rests on has been heard again.

        So no duration grows and nothing begins while a source is silent; what was found stays as it was, with the age of its facts.
        For a single look nothing was before.
        """
        if self._assumed:
            return dict(found)
        kept: dict[str, JudgedFinding] = {}
        due: dict[str, Heard] = {}
        for key, one in found.items():
            before = self._judged.get(key)
            if before is not None:
                kept[key] = one if _is_news(one.heard, before.heard) else before
            elif self._times is None or _is_news(one.heard, earlier := self._due.get(key) or self._times.heard(one.finding, one.sources)):
                kept[key] = one
            else:
                due[key] = earlier
        silent = {
            key: before
            for key, before in self._judged.items()
            if key not in found and before.sources and not _is_news(times.heard(before.finding, before.sources), before.heard)
        }
        self._due = due
        return {**kept, **silent}

    def _pause_clocks(self, facts: Facts, kept: Sequence[JudgedFinding]) -> dict[tuple[str, str], float]:
        """For how long conditions had held of findings that are kept though nobody knows of them now: later time does not count."""
        paused: dict[tuple[str, str], float] = {}
        for one in kept:
            names = (one.finding.subject, *one.finding.about)
            for (what, subject), since in self._held.items():
                if any(name in subject or subject in name for name in names):
                    paused[what, subject] = max(0.0, one.looked - since)
            for (what, subject), lasted in self._paused.items():
                if any(name in subject or subject in name for name in names):
                    paused.setdefault((what, subject), lasted)
        return {key: lasted for key, lasted in paused.items() if key not in facts.holding}

    def expire_findings(self) -> None:
        """Much more will be known soon: what was found last stays until it is judged again, which is due."""
        self._looked = None

    def forget_findings(self) -> None:
        """What was found last is of another cluster."""
        self._findings, self._looked, self._epoch = (), None, object()
        self._judged, self._times, self._due, self._paused = {}, None, {}, {}

    def skip_gap(self, gap: float) -> None:
        """So many seconds nobody has watched: they don't count for what lasts."""
        self._held = {what: since + gap for what, since in self._held.items()}

    def _ask(self, detect: Detector, facts: Facts, bugs: list[Fault]) -> list[Finding]:
        """One detector that trips over the facts silences no other."""
        try:
            return list(detect(facts))
        except Exception as error:  # noqa: BLE001 whatever a cluster says: the others still count
            source = f"findings.{detect.__name__}"
            since = next((known.since for known in self._bugs if known.source == source), facts.now)
            bugs.append(Fault(source, bug(error), since))
            return []

    def _told_since(self, finding: Finding, facts: Facts) -> float | None:
        """Not known by whoever looks only once, unless the facts tell: the look itself is no age."""
        return finding.since if facts.is_single_look else self._since[finding.key]

    def _begun(self, finding: Finding, now: float) -> float:
        told = finding.since
        return told if told is not None and told <= now else self._since.get(finding.key, now)


def _judge(finding: Finding, sources: frozenset[str], times: SourceTimes, now: float) -> JudgedFinding:
    told = times.of_finding(finding, sources)
    named = replace(finding, sources=tuple(one.source for one in told)) if told else finding
    return JudgedFinding(named, sources, times.heard(finding, sources), now)


def _is_news(heard: Heard, before: Heard) -> bool:
    """Whether every source has been heard since; one of which no time is known is taken to have been."""
    return all(at > before[source] + CLOCK_JITTER_S for source, at in heard.items() if source in before)


def _date(one: JudgedFinding, times: SourceTimes) -> Finding:
    """With the time of its facts, where one of its sources is old by now."""
    if not one.heard or not any(told.is_old for told in times.of_finding(one.finding, one.sources)):
        return one.finding
    oldest = min(one.heard.values())
    return replace(one.finding, seen=oldest if one.finding.seen is None else min(oldest, one.finding.seen))


def _dated_text(finding: Finding, now: float) -> str:
    """Its sentence, which says so when it is made of old facts."""
    old = 0.0 if finding.seen is None else now - finding.seen
    return f"{finding.text.rstrip('.')}, as of {age(old)} ago" if STALE_AFTER_S < old < math.inf else finding.text
