"""Groups faults by cause: a silent dashboard stops eight sources, and is shown as one fault."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from cockpit.model import Fault
from cockpit.text.grouping import group_by

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
"""The facts of a source in plain words."""


def by_cause(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """One fault for each cause, with all sources that it stops and the time of the first; in the order of the faults."""
    listed = tuple(faults)
    # All of Ray's sources depend on the GCS if the dashboard says that it is gone, else on the dashboard.
    root = next((fault for fault in listed if fault.source == "ray.gcs" and fault.cause == "gcs"), None)
    root = root or next((fault for fault in listed if fault.source == "ray.identity"), None)

    def cause(fault: Fault) -> object:
        # A missing token is a cause of its own, unless it is also why the dashboard does not answer.
        is_of_root = root is not None and fault.source.startswith("ray.") and (fault.cause not in _TOKEN or fault.cause == root.cause)
        return root if is_of_root else (fault.host, fault.text)

    found: list[Fault] = []
    for key, group in group_by(listed, cause).items():
        first = root if root is not None and key is root else group[0]
        sources = (first.source, *sorted({fault.source for fault in group} - {first.source}))
        found.append(replace(first, since=min(fault.since for fault in group), sources=sources))
    return tuple(found)


def also_down(fault: Fault) -> str:
    """The other sources that fail with it, for the end of its sentence; empty if there are none."""
    others = [_TITLES.get(source, source) for source in fault.sources if source != fault.source]
    return f"; no new data on: {', '.join(others)}" if others else ""
