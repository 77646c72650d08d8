"""Faults grouped by cause: a silent dashboard stops eight sources, and is shown as one fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from cockpit.alike import group_by
from cockpit.model import Fault

_TOKEN = ("no token", "wrong token")
_TITLES = {
    "ray.identity": "the cluster",
    "ray.gcs": "the GCS",
    "ray.nodes": "nodes",
    "ray.status": "resource usage",
    "ray.actors": "actors",
    "ray.placement_groups": "placement groups",
    "ray.jobs": "jobs",
    "ray.oom": "out-of-memory kills",
}
"""What a source tells of, in the words of people, where there are any."""


def by_cause(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Those of one cause as one, since its first, with all sources that it takes down; in the order in which the causes began."""
    listed = tuple(faults)
    root = _root(listed)
    groups = group_by(listed, lambda fault: root if root is not None and _follows(fault, root) else (fault.host, fault.text))
    return tuple(_one(group, root if key is root else None) for key, group in groups.items())


def also_down(fault: Fault) -> str:
    """What else it takes down, for the end of its sentence; empty where it is nothing."""
    others = [_TITLES.get(source, source) for source in fault.sources if source != fault.source]
    return f"; no new data on: {', '.join(others)}" if others else ""


def _root(faults: Sequence[Fault]) -> Fault | None:
    """What all of Ray's sources hang on: its GCS where the dashboard itself says that this is gone, else the dashboard."""
    gcs = next((fault for fault in faults if fault.source == "ray.gcs" and fault.cause == "gcs"), None)
    return gcs or next((fault for fault in faults if fault.source == "ray.identity"), None)


def _follows(fault: Fault, root: Fault) -> bool:
    """A token that is asked for is a cause of its own, unless it is what keeps the dashboard from answering."""
    return fault.source.startswith("ray.") and (fault.cause not in _TOKEN or fault.cause == root.cause)


def _one(group: Sequence[Fault], root: Fault | None) -> Fault:
    first = root or group[0]
    sources = (first.source, *sorted({fault.source for fault in group} - {first.source}))
    return replace(first, since=min(fault.since for fault in group), sources=sources)
