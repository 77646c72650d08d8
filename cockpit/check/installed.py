"""Finds the releases of training frameworks that are installed beside Ray; a job may bring another release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cockpit.budget import Line
from cockpit.check.nodes import Site
from cockpit.model import Snapshot
from cockpit.text import join_first

PACKAGES: Mapping[str, str] = {"OpenRLHF": "openrlhf", "veRL": "verl"}
ABSENT = "missing"
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)+[\w.+!]*", re.ASCII)


def find_frameworks(snapshot: Snapshot) -> dict[str, str]:
    """Return the frameworks on the head node, where the drivers of jobs run, with their releases; empty if they are unknown."""
    heads = {node.id for node in snapshot.nodes or () if node.head and node.id and node.state == "ALIVE"}
    on_head = [
        ray.frameworks
        for host in snapshot.hosts.values()
        for ray in host.rays or ()
        if ray.role == "raylet" and ray.node in heads and ray.frameworks
    ]
    return {name: release for name, release in on_head[0].items() if _RELEASE.fullmatch(release)} if len(on_head) == 1 else {}


def installed_lines(site: Site, framework: str | None) -> Iterator[Line]:
    """A line about the framework's releases on the nodes; none if it is installed beside no Ray, because then the job brings it."""
    package = PACKAGES.get(framework or "")
    if package is None:
        return
    found = site.raylets_by(lambda raylet: None if raylet.frameworks is None else raylet.frameworks.get(package, ABSENT))
    if set(found) <= {ABSENT}:
        return
    if len(found) == 1:
        yield Line("fine", f"{framework} {next(iter(found))} is installed beside Ray")
    else:
        releases = ", ".join(f"{release} on {join_first(names)}" for release, names in found.items())
        yield Line(
            "doubt",
            f"different releases of {framework} are installed beside Ray: {releases}",
            "install one release everywhere, unless the job brings its own",
        )
