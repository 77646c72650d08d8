"""All detectors on one snapshot of 1,000 nodes, every host of it looked at by a probe too."""

from __future__ import annotations

import asyncio
import statistics
import time

from msgspec.structs import replace

from bench import big
from bench.row import Row, unmeasured
from cockpit.findings import CHECKS, DETECTORS, Judge, Limits
from cockpit.join import Join, Parts
from cockpit.model import Host, Snapshot
from cockpit.sources.ray import Ray
from cockpit.sources.source import SourceError

LOOKS = 30
EVERY = 5.0
LINES = ((f"{big.TITLE}: all {len(DETECTORS)} detectors on one snapshot, median CPU", 50.0, "ms"),)
_PARTS = {"ray.nodes": "nodes", "ray.status": "status", "ray.actors": "actors", "ray.placement_groups": "groups", "ray.jobs": "jobs"}


def measure() -> list[Row]:
    """What the judge's own thread takes, look by look, with figures that are new each time."""
    options = ("--nodes", str(big.NODES), "--gpus", str(big.GPUS), "--actors", str(big.ACTORS), "--pending", str(big.PENDING))
    try:
        with big.dashboard(*options) as address:
            snapshot = asyncio.run(_known(address))
    except SourceError as error:
        return unmeasured(LINES, str(error))
    rows = []
    for note, seen in (("Ray alone", snapshot), ("every host probed", _probed(snapshot))):
        times, found = _looks(seen)
        words = f"{note}: worst {1000 * max(times):.0f} ms, {found} findings, {len(CHECKS)} checks, {LOOKS} looks"
        rows += [Row(f"{what}, {note}", limit, 1000 * statistics.median(times), unit, words) for what, limit, unit in LINES]
    return rows


async def _known(address: str) -> Snapshot:
    ray = Ray(address)
    try:
        cluster = await ray.identify()
        read = {_PARTS[source.name]: await source.read() for source in ray.sources if source.name in _PARTS}
        now = time.time()
        return Join()(Parts(cluster=cluster, as_of=dict.fromkeys(_PARTS, now), **read), now)  # type: ignore[arg-type]
    finally:
        await ray.close()


def _probed(snapshot: Snapshot) -> Snapshot:
    """The same as if a probe told of each host, its GPUs and who holds them."""
    by_node = {node.id: [process for process in snapshot.processes or () if process.node == node.id] for node in snapshot.nodes or ()}
    hosts = {
        node.title: Host(
            node.title, (node.ip,), snapshot.taken, gpus=node.gpus, processes=tuple(by_node[node.id]), nodes=(node.id or "",), sessions=()
        )
        for node in snapshot.nodes or ()
    }
    nodes = tuple(replace(node, probed=True) for node in snapshot.nodes or ())
    return replace(snapshot, hosts=hosts, nodes=nodes)


def _looks(snapshot: Snapshot) -> tuple[list[float], int]:
    judge, times = Judge(Limits(), DETECTORS), []
    for step in range(LOOKS):
        now = snapshot.taken + EVERY * step
        nodes = tuple(replace(node, seen=now) for node in snapshot.nodes or ())
        hosts = {name: replace(host, taken=now) for name, host in snapshot.hosts.items()}
        fresh = replace(snapshot, taken=now, nodes=nodes, hosts=hosts, as_of=dict.fromkeys(snapshot.as_of, now))
        started = time.thread_time()
        judge.look(fresh)
        times.append(time.thread_time() - started)
    return times, len(judge.told(fresh).findings)
