"""Runs detectors on given snapshots, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from cockpit.findings import DETECTORS, Detector, FindingTracker, Limits
from cockpit.model import Fault, Finding, Host, Node, Snapshot
from tests.world import NOW, with_figures


def detect(snapshot: Snapshot, seconds: float = 120, *, detectors: tuple[Detector, ...] = DETECTORS, **limits: Any) -> tuple[Finding, ...]:
    """The findings after this state has lasted for a time; sampled every 5 s, always with fresh facts."""
    judge = FindingTracker(Limits(**limits), detectors)
    for step in range(int(seconds // 5)):
        judge(later(snapshot, 5.0 * step - seconds))
    reported = judge(snapshot)
    assert reported.faults == snapshot.faults, "a detector raised an error"
    return reported.findings


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The same facts some seconds later, as fresh as before."""
    nodes = snapshot.nodes and tuple(_heard_at(node, lambda at: at + seconds) for node in snapshot.nodes)
    hosts = {name: _later_host(host, seconds) for name, host in snapshot.hosts.items()}
    as_of = {source: at + seconds for source, at in snapshot.as_of.items()}
    return replace(snapshot, taken=NOW + seconds, nodes=nodes, hosts=hosts, as_of=as_of)


def _heard_at(node: Node, moved: Callable[[float], float]) -> Node:
    return node if node.agent.seen is None else with_figures(node, seen=moved(node.agent.seen))


def _later_host(host: Host, seconds: float) -> Host:
    observed = {source: at + seconds for source, at in host.observed.items()}
    return replace(host, taken=host.taken + seconds if host.taken else None, observed=observed)


def after_silence(
    snapshot: Snapshot, seconds: float, *, detectors: tuple[Detector, ...] = DETECTORS, faults: tuple[Fault, ...] = (), **limits: Any
) -> tuple[Finding, ...]:
    """The findings after two minutes of this state and then some seconds of silence of all sources."""
    judge = FindingTracker(Limits(**limits), detectors)
    for step in range(25):
        judge(later(snapshot, 5.0 * step - 120))
    return judge(replace(snapshot, taken=NOW + seconds, faults=(*snapshot.faults, *faults))).findings


class FreshTracker(FindingTracker):
    """Runs detectors on snapshots. Every source has new facts before each run, at least two seconds after the last run."""

    last = 0.0

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        self.last = max(snapshot.taken, self.last + 2)
        return super().__call__(as_fresh(replace(snapshot, taken=self.last)))


def as_fresh(snapshot: Snapshot) -> Snapshot:
    """The snapshot with all times moved so that its facts are as fresh as at `NOW`."""

    def moved(at: float) -> float:
        return at if at > NOW else at + max(0.0, snapshot.taken - NOW)

    nodes = snapshot.nodes and tuple(_heard_at(node, moved) for node in snapshot.nodes)
    hosts = {
        name: replace(host, taken=host.taken and moved(host.taken), observed={source: moved(at) for source, at in host.observed.items()})
        for name, host in snapshot.hosts.items()
    }
    return replace(snapshot, nodes=nodes, hosts=hosts, as_of={source: moved(at) for source, at in snapshot.as_of.items()})


def only(findings: tuple[Finding, ...], code: str) -> Finding:
    """The only finding with this code."""
    named = [finding for finding in findings if finding.code == code]
    assert len(named) == 1, [finding.code for finding in findings]
    return named[0]


def codes(findings: tuple[Finding, ...]) -> set[str]:
    """The codes of these findings."""
    return {finding.code for finding in findings}
