"""Whether Ray itself is as the job needs it: versions, open files, and what is wrong with it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.budget import Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.installed import installed_lines
from cockpit.check.nodes import Site
from cockpit.config.thresholds import Limits
from cockpit.model import Finding, Snapshot
from cockpit.presets import Needs
from cockpit.presets.amounts import version_matches
from cockpit.text import join_first, plural

MAX_FINDINGS = 4
LOW_FILES_LIMIT = 4096
"""Below this Ray's drivers warn (ray/_private/worker.py)."""
EVERYWHERE = frozenset(["node-dead", "nodes-dead", "gcs-silent", "ray-ended", "monitor-silent", "ray-versions", "python-versions"])
"""What is wrong for every job, wherever it runs."""
THERE = frozenset([
    "gpu-lost", "gpu-recovery", "gpu-drain", "gpu-count", "gpu-visible", "object-store-full", "open-files-full", "sessions-several",
    "agent-silent", "temp-dir-foreign", "disk-full", "cpus-overcounted", "node-address-loopback", "node-address-shared",
    "node-address-foreign",
])  # fmt: skip
"""What is wrong for those that run on these nodes."""
BETWEEN_NODES = frozenset(["locked-memory-low", "host-name-loopback"])
"""What is wrong for those that run on several nodes, some of them these."""


def ray_lines(
    placed: PlacedGroups, site: Site, snapshot: Snapshot, needs: Needs, limits: Limits, framework: str | None = None
) -> Iterator[Line]:
    """Nothing of a Ray that does not run yet. `framework` is what the command is for."""
    if not site.planned and site.nodes:
        yield from _version("Ray", "needs.ray_version", needs.ray_version, _rays(site, snapshot))
        yield from _version("Python", "needs.python_version", needs.python_version, site.raylets_by(lambda raylet: raylet.python))
        yield from installed_lines(site, framework)
        yield from _open_files(site, needs, limits)
    yield from _findings(placed, site, snapshot)


def _rays(site: Site, snapshot: Snapshot) -> Mapping[str, list[str]]:
    """By version, where it runs; the dashboard's own is that of the head."""
    found = site.raylets_by(lambda raylet: raylet.ray)
    if snapshot.cluster.ray_version:
        found.setdefault(snapshot.cluster.ray_version, ["the head"])
    return found


def _version(what: str, key: str, wanted: str | None, found: Mapping[str, list[str]]) -> Iterator[Line]:
    if wanted is None:
        return
    if not found:
        yield Line("unknown", f"{key} asks for {wanted}; the version of {what} is unknown")
        return
    wrong = {version: places for version, places in found.items() if not version_matches(wanted, version)}
    if wrong:
        told = ", ".join(f"{version} on {join_first(places)}" for version, places in wrong.items())
        change = f"start Ray from an environment with {what} {wanted}, or change {key}"
        yield Line("never", f"{key} asks for {wanted}, but {what} is {told}", change)
    else:
        yield Line("fine", f"{what} is {' and '.join(found)}; {key} asks for {wanted}")


def _open_files(site: Site, needs: Needs, limits: Limits) -> Iterator[Line]:
    """Workers are given what their raylet has."""
    known = {name: raylet.files_limit for name, raylet in site.raylets() if raylet.files_limit is not None}
    least = needs.open_files or LOW_FILES_LIMIT
    few = {name: limit for name, limit in known.items() if limit < least}
    change = f"`ulimit -n {max(least, limits.open_files_least)}` before `ray start`"
    told = join_first([f"{limit} on {name}" for name, limit in few.items()])
    if needs.open_files is None:
        if few:
            yield Line("doubt", f"low open-file limit for Ray and its workers: {told}; Ray warns below {least}", change)
    elif few:
        yield Line("never", f"needs.open_files asks for {least}, but Ray runs with {told}, until it is restarted", change)
    elif not known:
        yield Line("unknown", f"needs.open_files asks for {least}; Ray's open-file limit is unknown")
    else:
        yield Line("fine", f"open files: needs.open_files asks for {least}; Ray's limit is at least {min(known.values())}")


def _findings(placed: PlacedGroups, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """One line for each that would hurt, the worst first; all of them are the doctor's to tell."""
    keys = {node.key for place, node in site.nodes.items() if place in placed.homes or not placed.homes}
    everywhere = EVERYWHERE if site.nodes and not site.planned else frozenset()
    there = THERE if len(placed.homes) == 1 else THERE | BETWEEN_NODES
    hurting = [finding for finding in snapshot.findings if _hurts(finding, everywhere, there, keys)]
    for finding in hurting[:MAX_FINDINGS]:
        yield Line("doubt", f"{finding.level} now: {finding.text}", finding.remedy.text if finding.remedy else None)
    if len(hurting) > MAX_FINDINGS:
        yield Line("doubt", f"{plural(len(hurting) - MAX_FINDINGS, 'more finding')}", "run `cockpit doctor`")


def _hurts(finding: Finding, everywhere: frozenset[str], there: frozenset[str], keys: set[str]) -> bool:
    if finding.level == "info":
        return False
    return finding.code in everywhere or (finding.code in there and not keys.isdisjoint(finding.about))
