"""Measures the join, the detectors and the check of a large job at 1,000 nodes, beside the decoding of Ray's answers."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec.structs import replace

from bench import big
from bench.row import Row, unmeasured
from cockpit.budget import Budget, Group
from cockpit.check.check import check
from cockpit.findings import DETECTORS, FindingTracker, Limits
from cockpit.model import Host, Snapshot
from cockpit.monitor.join import Join
from cockpit.monitor.source_answers import Parts
from cockpit.presets import JobSpec, Preset
from cockpit.sources.lenient_json import decode
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.replies import NodeReader
from cockpit.sources.source import SourceError

LOOKS = 30
EVERY = 5.0
JOIN = f"{big.TITLE}: joining the answers / decoding them, CPU"
JUDGE = f"{big.TITLE}: all {len(DETECTORS)} detectors / decoding the answers, CPU"
GROUPS = 300
CHECK = f"{big.TITLE}: whether a job of {GROUPS} groups fits / decoding the answers, CPU"
LINES = (
    (CHECK, 2.0, ""),
    *((f"{what}, {when}", 1.0, "") for when in ("Ray alone", "every host probed") for what in (JOIN, JUDGE)),
)
_PARTS = {"ray.nodes": "nodes", "ray.status": "status", "ray.actors": "actors", "ray.placement_groups": "groups", "ray.jobs": "jobs"}


def measure() -> list[Row]:
    """What the thread that joins and judges takes, look by look, with new figures each time."""
    options = ("--nodes", str(big.NODES), "--gpus", str(big.GPUS), "--actors", str(big.ACTORS), "--pending", str(big.PENDING))
    try:
        with big.dashboard(*options) as address, _decoding() as decodes:
            parts = asyncio.run(_read(address))
    except SourceError as error:
        return unmeasured(LINES, str(error))
    decode = sum(decodes)
    gc.freeze()  # as the screen does (cockpit/cli/screen.py)
    values = [_checked(Join()(parts, time.time()), decode)]
    probed = replace(parts, hosts=_hosts(Join()(parts, time.time())))
    for seen in (parts, probed):
        looks, found = _looks(seen)
        for times in zip(*looks, strict=True):
            middle = statistics.median(times)
            words = f"{1000 * middle:.0f} ms / {1000 * decode:.0f} ms, worst {1000 * max(times):.0f} ms, {found} findings, {LOOKS} looks"
            values.append((middle / decode, words))
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(LINES, values, strict=True)]


@contextmanager
def _decoding() -> Iterator[list[float]]:
    """CPU seconds of each answer's decoding, by msgspec into its type."""
    spent: list[float] = []

    def timed(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_timed(*args: Any) -> Any:
            started = time.thread_time()
            found = read(*args)
            spent.append(time.thread_time() - started)
            return found

        return read_timed

    with (
        mock.patch("cockpit.sources.ray.http.decode", timed(decode)),
        mock.patch.object(NodeReader, "take", timed(NodeReader.take)),
    ):
        yield spent


async def _read(address: str) -> Parts:
    ray = RayClient(address)
    try:
        cluster = await ray.identify()
        read = {_PARTS[source.name]: await source.read() for source in ray.sources if source.name in _PARTS}
        return Parts(cluster=cluster, as_of=dict.fromkeys(_PARTS, time.time()), **read)  # type: ignore[arg-type]
    finally:
        await ray.close()


def _hosts(snapshot: Snapshot) -> dict[str, Host]:
    """The same as if a probe told of each host, its GPUs and who holds them."""
    by_node = {node.id: [process for process in snapshot.processes or () if process.node == node.id] for node in snapshot.nodes or ()}
    return {
        node.title: Host(
            node.title,
            (node.ip,),
            snapshot.taken,
            gpus=snapshot.index.machine(node).gpus,
            processes=tuple(by_node[node.id]),
            nodes=(node.id or "",),
            sessions=(),
        )
        for node in snapshot.nodes or ()
    }


def _checked(snapshot: Snapshot, decode: float) -> tuple[float, str]:
    pools = tuple(Group(f"pool{number}", (({"GPU": 1.0, "CPU": 3.0}, 8),), "STRICT_PACK") for number in range(GROUPS))
    preset = Preset("large", Path("large.yaml"), job=JobSpec("python train.py"))
    started = time.thread_time()
    verdict = check(preset, Budget("veRL", groups=pools), snapshot).verdict
    took = time.thread_time() - started
    return took / decode, f"{1000 * took:.0f} ms / {1000 * decode:.0f} ms; it fits: {verdict}"


def _looks(parts: Parts) -> tuple[list[tuple[float, float]], int]:
    """CPU seconds of joining and of judging, look by look; findings."""
    assert parts.nodes is not None
    join, judge, times, found = Join(), FindingTracker(Limits(), DETECTORS), [], 0
    begin = time.time()
    for step in range(LOOKS):
        now = begin + EVERY * step
        nodes = replace(parts.nodes, nodes=tuple(replace(node, agent=replace(node.agent, seen=now)) for node in parts.nodes.nodes))
        hosts = {name: replace(host, taken=now) for name, host in parts.hosts.items()}
        fresh = replace(parts, nodes=nodes, hosts=hosts, as_of=dict.fromkeys(parts.as_of, now))
        started = time.thread_time()
        joined = join(fresh, now)
        middle = time.thread_time()
        judge.run_detectors(joined)
        found = len(judge.with_findings(joined).findings)
        times.append((middle - started, time.thread_time() - middle))
    return times, found
