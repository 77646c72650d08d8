"""Runs all detectors on each snapshot and keeps state between snapshots: since when a finding holds, and the last findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from cockpit.bug import bug
from cockpit.config.thresholds import DAY_S, LARGE_CLUSTER_NODES, STALE_AFTER_S, Limits
from cockpit.findings.facts import Count, Facts
from cockpit.findings.gpu_history import GpuHistory
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.model import LEVELS, Fault, Finding, Snapshot
from cockpit.text import age

Detector = Callable[[Facts], Iterable[Finding]]
"""Pure: what it finds follows from the facts alone. It says nothing about what is unknown."""

PAUSE_S, LARGE_PAUSE_S = 1.9, 4.0
"""Seconds after which a cluster is judged again, and a large one: probes look every 2 s, Ray itself every 5 s."""


class FindingTracker:
    """What is wrong in one snapshot after the other."""

    def __init__(self, limits: Limits, detectors: Sequence[Detector], assumed: float = 0.0) -> None:
        """`assumed`: seconds for which what is seen is taken to have been so already, for whoever looks only once."""
        self._limits, self._detectors, self._assumed = limits, detectors, assumed
        self._since: dict[str, float] = {}
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
        epoch = self._epoch
        self.memory.record(snapshot)
        self._gpu_history.record(snapshot)
        found_before = frozenset(self._since)
        facts = Facts(snapshot, self._limits, self._held, found_before, self._counted, self.memory, self._assumed, self._gpu_history)
        bugs: list[Fault] = []
        found = {finding.key: finding for detect in self._detectors for finding in self._ask(detect, facts, bugs)}
        self._since = {key: self._begun(finding, facts.now) for key, finding in found.items()}
        told = sorted(found.values(), key=lambda finding: (LEVELS.index(finding.level), self._since[finding.key]))
        self._held = facts.holding
        self._counted = {what: past for what, past in facts.counted.items() if facts.now - past[-1].until <= DAY_S}
        findings = tuple(replace(one, text=_dated_text(one, facts.now), since=self._told_since(one, facts)) for one in told)
        if epoch is self._epoch:
            self._findings, self._bugs, self._looked = findings, tuple(bugs), facts.now

    def expire_findings(self) -> None:
        """Much more will be known soon: what was found last stays until it is judged again, which is due."""
        self._looked = None

    def forget_findings(self) -> None:
        """What was found last is of another cluster."""
        self._findings, self._looked, self._epoch = (), None, object()

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


def _dated_text(finding: Finding, now: float) -> str:
    """Its sentence, which says so when it is made of old facts."""
    old = 0.0 if finding.seen is None else now - finding.seen
    return f"{finding.text.rstrip('.')}, as of {age(old)} ago" if STALE_AFTER_S < old < math.inf else finding.text
