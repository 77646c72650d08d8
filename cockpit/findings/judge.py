"""Asks every detector at each look, and keeps what lies between two: since when a finding stands, and what was found last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.limits import Limits
from cockpit.model import LEVELS, Fault, Finding, Snapshot
from cockpit.text import redact

Detector = Callable[[Facts], Iterable[Finding]]
"""Pure: what it finds follows from the facts alone. It says nothing about what is unknown."""

replace = msgspec.structs.replace


class Judge:
    """What is wrong in one snapshot after the other."""

    def __init__(self, limits: Limits, detectors: Sequence[Detector]) -> None:
        self._limits, self._detectors = limits, detectors
        self._since: dict[str, float] = {}
        self._held: dict[tuple[str, str], float] = {}
        self._bugs: dict[str, float] = {}
        self._found: frozenset[str] = frozenset()

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its findings, the worst first and of these the oldest."""
        facts = Facts(snapshot, self._limits, self._held, self._found)
        bugs: list[Fault] = []
        found = {finding.key: finding for detect in self._detectors for finding in self._ask(detect, facts, bugs)}
        self._since = {key: self._begun(finding, facts.now) for key, finding in found.items()}
        self._held, self._found = facts.holding, frozenset(found)
        self._bugs = {bug.source: bug.since for bug in bugs}
        told = [replace(finding, since=self._since[key]) for key, finding in found.items()]
        told.sort(key=lambda finding: (LEVELS.index(finding.level), finding.since))
        return replace(snapshot, findings=tuple(told), faults=(*snapshot.faults, *bugs))

    def _ask(self, detect: Detector, facts: Facts, bugs: list[Fault]) -> list[Finding]:
        """One detector that trips over the facts silences no other."""
        try:
            return list(detect(facts))
        except Exception as error:  # noqa: BLE001 whatever a cluster says: the others still count
            source = f"findings.{detect.__name__}"
            text = f"cockpit has a bug: {type(error).__name__}: {redact(str(error))[:200]}"
            bugs.append(Fault(source, text, self._bugs.get(source, facts.now)))
            return []

    def _begun(self, finding: Finding, now: float) -> float:
        told = finding.since
        return told if told is not None and told <= now else self._since.get(finding.key, now)
