"""Runs detectors on made-up snapshots, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from cockpit.findings import DETECTORS, Detector, FindingTracker, Limits
from cockpit.model import Fault, Finding, Host, Node, Snapshot
from tests.world import NOW, with_figures


def looked(snapshot: Snapshot, seconds: float = 120, *, detectors: tuple[Detector, ...] = DETECTORS, **limits: Any) -> tuple[Finding, ...]:
    """The findings after this state has lasted for a time; sampled every 5 s, with all facts as fresh as at first."""
    judge = FindingTracker(Limits(**limits), detectors)
    for step in range(int(seconds // 5)):
        judge(later(snapshot, 5.0 * step - seconds))
    told = judge(snapshot)
    assert told.faults == snapshot.faults, "a detector tripped"
    return told.findings


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
    """The findings after this state has lasted for two minutes, and then all sources were silent for some seconds."""
    judge = FindingTracker(Limits(**limits), detectors)
    for step in range(25):
        judge(later(snapshot, 5.0 * step - 120))
    return judge(replace(snapshot, taken=NOW + seconds, faults=(*snapshot.faults, *faults))).findings


class HeardAgain(FindingTracker):
    """Runs detectors on snapshots; every source has new facts before each run, at least two seconds after the last run."""

    last = 0.0

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        self.last = max(snapshot.taken, self.last + 2)
        return super().__call__(heard_again(replace(snapshot, taken=self.last)))


def heard_again(snapshot: Snapshot) -> Snapshot:
    """The value with all times up to `NOW` moved by the time between `NOW` and the snapshot."""

    def moved(at: float) -> float:
        return at if at > NOW else at + max(0.0, snapshot.taken - NOW)

    nodes = snapshot.nodes and tuple(_heard_at(node, moved) for node in snapshot.nodes)
    hosts = {
        name: replace(host, taken=host.taken and moved(host.taken), observed={source: moved(at) for source, at in host.observed.items()})
        for name, host in snapshot.hosts.items()
    }
    return replace(snapshot, nodes=nodes, hosts=hosts, as_of={source: moved(at) for source, at in snapshot.as_of.items()})


def only(findings: tuple[Finding, ...], code: str) -> Finding:
    """The one finding with this code."""
    named = [finding for finding in findings if finding.code == code]
    assert len(named) == 1, [finding.code for finding in findings]
    return named[0]


def codes(findings: tuple[Finding, ...]) -> set[str]:
    """The codes of these findings."""
    return {finding.code for finding in findings}
