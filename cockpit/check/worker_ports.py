"""Checks whether a job's nodes have enough ports for its workers: a worker without a port can't start, and its actor waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.budget import Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.nodes import Site
from cockpit.findings.port_ranges import Ranges, count_ports, worker_ports, write_ranges
from cockpit.presets import Preset, RayStart
from cockpit.text import gpus_words, plural


def worker_port_lines(placed: PlacedGroups, site: Site, preset: Preset) -> Iterator[Line]:
    """One line for each node with fewer ports than the job's GPUs there. A job may have more workers than GPUs, and seldom has fewer."""
    for node_id in placed.amounts_by_node:
        ranges, gpus = _worker_ports(node_id, site, preset), placed.amount_on(node_id, "GPU")
        if ranges and count_ports(ranges) < gpus:
            text = (
                f"the job would hold {gpus_words(gpus)} on {site.title(node_id)}, whose raylet has {plural(count_ports(ranges), 'port')} "
                f"for workers ({write_ranges(ranges)}): Ray needs a port for each worker"
            )
            yield Line("doubt", text, "a wider range from min_worker_port to max_worker_port, or more ports in worker_port_list")


def _worker_ports(node_id: str, site: Site, preset: Preset) -> Ranges:
    """Return the ports for workers of the running raylet, or else of the planned one; empty: any port, or unknown."""
    if not site.planned:
        return worker_ports(site.hosts.get(node_id), node_id)
    starts = preset.ray.nodes if isinstance(preset.ray, RayStart) else ()
    start = next((start for start in starts if start.host == node_id), None)
    if start is None:
        return ()
    # Ray's rule: a list overrules the range; the default range is 10002 to 19999 (2.60, scripts.py).
    listed = start.flags.get("worker_port_list")
    if isinstance(listed, str):
        return tuple((int(port), int(port)) for port in listed.split(","))
    low, high = start.flags.get("min_worker_port", 10002), start.flags.get("max_worker_port", 19999)
    return ((low, high or 65535),) if isinstance(low, int) and isinstance(high, int) and low else ()
