"""Every test of a detector also checks that the detector has declared each source without which its findings vanish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker
from cockpit.findings.facts import Facts
from cockpit.findings.sources import DECLARED_SOURCES, ON_A_MACHINE, Detector, SourceTimes, without_old_facts
from cockpit.model import Finding, Snapshot
from tests.world import with_figures

LISTS = ("ray.nodes", "ray.status", "ray.actors", "ray.placement_groups", "ray.jobs", "slurm", "kubernetes")
LONG_AGO_S = 10_000.0


def silenced(snapshot: Snapshot, source: str, *, agents: bool) -> Snapshot:
    """The snapshot if that source has been silent for hours. On a node without a probe, Ray's agent replaces all of a machine's sources."""
    then = snapshot.taken - LONG_AGO_S
    if source in LISTS:
        return replace(snapshot, as_of={**snapshot.as_of, source: then})
    hosts = {name: replace(host, observed={**host.observed, source: then}) for name, host in snapshot.hosts.items()}
    nodes = snapshot.nodes and tuple(with_figures(node, seen=then) if agents and not node.probed else node for node in snapshot.nodes)
    return replace(snapshot, hosts=hosts, nodes=nodes)


def without(facts: Facts, source: str, *, agents: bool) -> Facts:
    known: Mapping[str, Any] = vars(facts)
    silent = silenced(facts.known, source, agents=agents)
    fresh = without_old_facts(silent, SourceTimes(silent))
    return Facts(
        fresh, facts.limits, known["_held"], known["_found"], facts.counted, facts.memory, known["_assumed"], facts.gpu_history, silent
    )


@pytest.fixture(autouse=True)
def every_source_is_declared(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """A finding that vanishes with a source must declare that source."""
    run, seen, undeclared = FindingTracker._run_detector, set[tuple[str, str]](), set[str]()

    def checked(tracker: FindingTracker, detect: Detector, facts: Facts, bugs: Any) -> list[Finding]:
        found = run(tracker, detect, facts, bugs)
        new = {finding.key for finding in found if (detect.__name__, finding.code) not in seen}
        seen.update((detect.__name__, finding.code) for finding in found)
        declared = DECLARED_SOURCES.get(detect, frozenset())
        all_is_fresh = facts.snapshot is facts.known
        if new and declared and all_is_fresh:
            times = SourceTimes(facts.known)
            by_agents = any(one.source.endswith(" agent") for finding in found for one in times.of_finding(finding, declared))
            for source in {*LISTS, *ON_A_MACHINE} - declared - ({"ray.nodes"} if by_agents else set()):  # both come with the same answer
                left = {finding.key for finding in detect(without(facts, source, agents=declared.isdisjoint(ON_A_MACHINE)))}
                undeclared.update(f"{detect.__name__} rests on {source}: {key}" for key in new - left)
        return found

    if "hostile" not in request.node.nodeid:
        monkeypatch.setattr(FindingTracker, "_run_detector", checked)
    yield
    assert not undeclared
