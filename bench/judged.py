"""What is found out from one snapshot of 1,000 nodes: by all detectors, every host looked at by a probe too; whether a large job fits."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from msgspec.structs import replace

from bench import big
from bench.row import Row, unmeasured
from cockpit.budget import Budget, Group
from cockpit.check import check
from cockpit.findings import CHECKS, DETECTORS, FindingTracker, Limits
from cockpit.model import Host, Snapshot
from cockpit.monitor.join import Join, Parts
from cockpit.presets import JobSpec, Preset
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import SourceError

LOOKS = 30
EVERY = 5.0
LINES = ((f"{big.TITLE}: all {len(DETECTORS)} detectors on one snapshot, median CPU", 50.0, "ms"),)
GROUPS = 300
CHECK = f"{big.TITLE}: whether a job of {GROUPS} groups fits, CPU"
_PARTS = {"ray.nodes": "nodes", "ray.status": "status", "ray.actors": "actors", "ray.placement_groups": "groups", "ray.jobs": "jobs"}


def measure() -> list[Row]:
    """What the judge's own thread takes, look by look, with figures that are new each time."""
    options = ("--nodes", str(big.NODES), "--gpus", str(big.GPUS), "--actors", str(big.ACTORS), "--pending", str(big.PENDING))
    try:
        with big.dashboard(*options) as address:
            snapshot = asyncio.run(_known(address))
    except SourceError as error:
        return unmeasured((*LINES, (CHECK, 250.0, "ms")), str(error))
    rows = [_checked(snapshot)]
    for note, seen in (("Ray alone", snapshot), ("every host probed", _probed(snapshot))):
        times, found = _looks(seen)
        words = f"{note}: worst {1000 * max(times):.0f} ms, {found} findings, {len(CHECKS)} checks, {LOOKS} looks"
        rows += [Row(f"{what}, {note}", limit, 1000 * statistics.median(times), unit, words) for what, limit, unit in LINES]
    return rows


async def _known(address: str) -> Snapshot:
    ray = RayClient(address)
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


def _checked(snapshot: Snapshot) -> Row:
    pools = tuple(Group(f"pool{number}", (({"GPU": 1.0, "CPU": 3.0}, 8),), "STRICT_PACK") for number in range(GROUPS))
    preset = Preset("large", Path("large.yaml"), job=JobSpec("python train.py"))
    started = time.thread_time()
    verdict = check(preset, Budget("veRL", groups=pools), snapshot).verdict
    return Row(CHECK, 250.0, 1000 * (time.thread_time() - started), "ms", f"it fits: {verdict}")


def _looks(snapshot: Snapshot) -> tuple[list[float], int]:
    judge, times = FindingTracker(Limits(), DETECTORS), []
    for step in range(LOOKS):
        now = snapshot.taken + EVERY * step
        nodes = tuple(replace(node, seen=now) for node in snapshot.nodes or ())
        hosts = {name: replace(host, taken=now) for name, host in snapshot.hosts.items()}
        fresh = replace(snapshot, taken=now, nodes=nodes, hosts=hosts, as_of=dict.fromkeys(snapshot.as_of, now))
        started = time.thread_time()
        judge.run_detectors(fresh)
        times.append(time.thread_time() - started)
    return times, len(judge.with_findings(fresh).findings)
