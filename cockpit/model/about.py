"""The things that a finding is about, found by their keys in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cockpit.model.finding import Finding
from cockpit.model.snapshot import Snapshot

LISTS: Final[Mapping[str, Callable[[Snapshot], Iterable[Any] | None]]] = {
    "node": lambda snapshot: snapshot.nodes,
    "session": lambda snapshot: snapshot.sessions,
    "process": lambda snapshot: snapshot.processes,
    "job": lambda snapshot: snapshot.jobs,
    "pg": lambda snapshot: snapshot.placement_groups,
    "actor": lambda snapshot: snapshot.actors,
    "tasks": lambda snapshot: snapshot.demand,
}
"""All things of one kind, by how their keys begin."""


def gpu_nodes(finding: Finding) -> list[str]:
    """The keys of the nodes whose GPUs it is about: a GPU's key is that of its node and its index, `node:…:3`."""
    parts = [key.rpartition(":") for key in finding.about if key.startswith("node:")]
    return [node for node, _, index in parts if node != "node" and index.isdigit()]


def find_things(finding: Finding, snapshot: Snapshot) -> list[Any]:
    """The things a finding is about that are in the snapshot: nodes (those of GPUs too), sessions, processes, jobs, groups, actors."""
    wanted = {*finding.about, *gpu_nodes(finding)}
    kinds = {key.partition(":")[0] for key in wanted}
    return [thing for kind, list_all in LISTS.items() if kind in kinds for thing in list_all(snapshot) or () if thing.key in wanted]
