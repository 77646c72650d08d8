"""Whether the nodes that a job would run on have ports for its workers: without one a worker can't start, and its actor waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.budget import Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.nodes import Site
from cockpit.findings.port_ranges import Ranges, count_ports, write_ranges
from cockpit.presets import Preset, RayNode, RayStart
from cockpit.text import gpus_words, plural


def worker_port_lines(placed: PlacedGroups, site: Site, preset: Preset) -> Iterator[Line]:
    """One for each node that has fewer ports than the job would hold GPUs there: it may have more workers, and seldom has fewer."""
    for home in placed.homes:
        ranges, gpus = _find_ports(home, site, preset), placed.on(home, "GPU")
        if ranges and count_ports(ranges) < gpus:
            text = (
                f"the job would hold {gpus_words(gpus)} on {site.title(home)}, whose raylet has {plural(count_ports(ranges), 'port')} "
                f"for workers ({write_ranges(ranges)}): Ray needs a port for each worker"
            )
            yield Line("doubt", text, "a wider range from min_worker_port to max_worker_port, or more ports in worker_port_list")


def _find_ports(home: str, site: Site, preset: Preset) -> Ranges:
    """Of the raylet that runs there, else of the one that the preset would start; empty: any port, or unknown."""
    if site.planned:
        starts = preset.ray.nodes if isinstance(preset.ray, RayStart) else ()
        return next((_planned_ports(start) for start in starts if start.host == home), ())
    host = site.hosts.get(home)
    return next((ray.ports.workers for ray in (host.rays or () if host else ()) if ray.node == home and ray.ports), ())


def _planned_ports(start: RayNode) -> Ranges:
    """As Ray reads its flags: a list overrules the range; 10002 to 19999 is what it takes by itself (2.60, scripts.py)."""
    listed = start.flags.get("worker_port_list")
    if isinstance(listed, str):
        return tuple((int(port), int(port)) for port in listed.split(","))
    low, high = start.flags.get("min_worker_port", 10002), start.flags.get("max_worker_port", 19999)
    return ((low, high or 65535),) if isinstance(low, int) and isinstance(high, int) and low else ()
