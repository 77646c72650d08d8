"""Finds the subjects of a finding in a snapshot by their keys."""

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
"""Returns all values of one kind, by the prefix of their keys."""


def gpu_nodes(finding: Finding) -> list[str]:
    """Return the keys of the nodes whose GPUs it is about. A GPU's key is its node's key and its index, `node:…:3`."""
    parts = [key.rpartition(":") for key in finding.about if key.startswith("node:")]
    return [node for node, _, index in parts if node != "node" and index.isdigit()]


def find_things(finding: Finding, snapshot: Snapshot) -> list[Any]:
    """Return the subjects of a finding that are in the snapshot; for a GPU it is the node."""
    wanted = {*finding.about, *gpu_nodes(finding)}
    kinds = {key.partition(":")[0] for key in wanted}
    return [thing for kind, list_all in LISTS.items() if kind in kinds for thing in list_all(snapshot) or () if thing.key in wanted]
