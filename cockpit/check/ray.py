"""Checks whether Ray itself is as the job needs it: versions, open files, and current findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.budget import Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.installed import installed_lines
from cockpit.check.nodes import Site
from cockpit.config.thresholds import Limits
from cockpit.model import Snapshot
from cockpit.presets import Needs
from cockpit.presets.amounts import version_matches
from cockpit.text import join_first, plural

MAX_FINDINGS = 4
LOW_FILES_LIMIT = 4096
"""Ray's drivers warn below this number (ray/_private/worker.py)."""
EVERYWHERE = frozenset(["node-dead", "nodes-dead", "gcs-silent", "ray-ended", "monitor-silent", "ray-versions", "python-versions"])
"""Findings that concern every job, on any nodes."""
ON_NODES = frozenset([
    "gpu-lost", "gpu-recovery", "gpu-drain", "gpu-count", "gpu-visible", "object-store-full", "open-files-full", "sessions-several",
    "agent-silent", "temp-dir-foreign", "disk-full", "cpus-overcounted", "node-address-loopback", "node-address-shared",
    "node-address-foreign", "gpu-unreserved",
])  # fmt: skip
"""Findings that concern a job on these nodes."""
BETWEEN_NODES = frozenset(["locked-memory-low", "host-name-loopback"])
"""Findings that concern a job on several nodes, if these are among them."""


def ray_lines(
    placed: PlacedGroups, site: Site, snapshot: Snapshot, needs: Needs, limits: Limits, framework: str | None = None
) -> Iterator[Line]:
    """Lines about Ray on the job's nodes; about a Ray that does not run yet only findings. `framework` is the framework of the command."""
    if not site.planned and site.nodes:
        rays = site.raylets_by(lambda raylet: raylet.ray)
        if snapshot.cluster.ray_version:
            rays.setdefault(snapshot.cluster.ray_version, ["the head"])  # the dashboard has the head's version
        yield from _version_lines("Ray", "needs.ray_version", needs.ray_version, rays)
        yield from _version_lines("Python", "needs.python_version", needs.python_version, site.raylets_by(lambda raylet: raylet.python))
        yield from installed_lines(site, framework)
        yield from _open_files_lines(site, needs, limits)
    yield from _finding_lines(placed, site, snapshot)


def _version_lines(what: str, key: str, wanted: str | None, found: Mapping[str, list[str]]) -> Iterator[Line]:
    """`found` has the nodes of each version."""
    if wanted is None:
        return
    if not found:
        yield Line("unknown", f"{key} asks for {wanted}; the version of {what} is unknown")
        return
    wrong = {version: nodes for version, nodes in found.items() if not version_matches(wanted, version)}
    if wrong:
        versions = ", ".join(f"{version} on {join_first(nodes)}" for version, nodes in wrong.items())
        change = f"start Ray from an environment with {what} {wanted}, or change {key}"
        yield Line("never", f"{key} asks for {wanted}, but {what} is {versions}", change)
    else:
        yield Line("fine", f"{what} is {' and '.join(found)}; {key} asks for {wanted}")


def _open_files_lines(site: Site, needs: Needs, limits: Limits) -> Iterator[Line]:
    """Lines about the limit of open files. Workers inherit it from their raylet."""
    known = {name: raylet.files_limit for name, raylet in site.raylets() if raylet.files_limit is not None}
    least = needs.open_files or LOW_FILES_LIMIT
    few = {name: limit for name, limit in known.items() if limit < least}
    change = f"`ulimit -n {max(least, limits.open_files_least)}` before `ray start`"
    limits_on_nodes = join_first([f"{limit} on {name}" for name, limit in few.items()])
    if needs.open_files is None:
        if few:
            yield Line("doubt", f"low open-file limit for Ray and its workers: {limits_on_nodes}; Ray warns below {least}", change)
    elif few:
        yield Line("never", f"needs.open_files asks for {least}, but Ray runs with {limits_on_nodes}, until it is restarted", change)
    elif not known:
        yield Line("unknown", f"needs.open_files asks for {least}; Ray's open-file limit is unknown")
    else:
        yield Line("fine", f"open files: needs.open_files asks for {least}; Ray's limit is at least {min(known.values())}")


def _finding_lines(placed: PlacedGroups, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """One line for each finding that concerns the job, the worst first. `cockpit doctor` shows all findings."""
    keys = {node.key for node_id, node in site.nodes.items() if node_id in placed.amounts_by_node or not placed.amounts_by_node}
    everywhere = EVERYWHERE if site.nodes and not site.planned else frozenset()
    on_nodes = ON_NODES if len(placed.amounts_by_node) == 1 else ON_NODES | BETWEEN_NODES
    relevant = [
        finding
        for finding in snapshot.findings
        if finding.level != "info" and (finding.code in everywhere or (finding.code in on_nodes and not keys.isdisjoint(finding.about)))
    ]
    for finding in relevant[:MAX_FINDINGS]:
        yield Line("doubt", f"{finding.level} now: {finding.text}", finding.remedy.text if finding.remedy else None)
    if len(relevant) > MAX_FINDINGS:
        yield Line("doubt", f"{plural(len(relevant) - MAX_FINDINGS, 'more finding')}", "run `cockpit doctor`")
