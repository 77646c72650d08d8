"""What detectors find in made-up snapshots, looked at again and again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cockpit.findings import DETECTORS, Detector, FindingTracker, Limits
from cockpit.model import Finding, Snapshot
from tests.world import NOW


def looked(snapshot: Snapshot, seconds: float = 120, *, detectors: tuple[Detector, ...] = DETECTORS, **limits: Any) -> tuple[Finding, ...]:
    """What is found when it has stayed like this for so long: looked at every 5 s, every node's and host's facts as fresh as at first."""
    judge = FindingTracker(Limits(**limits), detectors)
    for step in range(int(seconds // 5)):
        judge(later(snapshot, 5.0 * step - seconds))
    told = judge(snapshot)
    assert told.faults == snapshot.faults, "a detector tripped"
    return told.findings


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The same facts, so many seconds later, as fresh as they were."""
    nodes = snapshot.nodes and tuple(node if node.seen is None else replace(node, seen=node.seen + seconds) for node in snapshot.nodes)
    hosts = {name: replace(host, taken=host.taken + seconds if host.taken else None) for name, host in snapshot.hosts.items()}
    return replace(snapshot, taken=NOW + seconds, nodes=nodes, hosts=hosts)


def only(findings: tuple[Finding, ...], code: str) -> Finding:
    """The one finding with this code."""
    named = [finding for finding in findings if finding.code == code]
    assert len(named) == 1, [finding.code for finding in findings]
    return named[0]


def codes(findings: tuple[Finding, ...]) -> set[str]:
    """What was found."""
    return {finding.code for finding in findings}
