"""A recording of a fictitious cluster with trouble in it, and its content."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from cockpit.model import Gpu, Snapshot
from cockpit.recording.changes import events_between
from cockpit.recording.writer import SegmentWriter
from tests import world

STEP = 5.0


def snapshots(count: int, seed: int = 1) -> Iterator[Snapshot]:
    """One snapshot every 5 s: numbers change all the time, sometimes a process, a finding or a node appears or disappears."""
    chance, now = random.Random(seed), world.snapshot()
    for number in range(count):
        if number:
            now = changed(now, chance)
        yield now


def busier(gpus: tuple[Gpu, ...] | None, chance: random.Random) -> tuple[Gpu, ...] | None:
    return gpus and tuple(replace(gpu, utilization=float(chance.randrange(100))) for gpu in gpus)


def changed(now: Snapshot, chance: random.Random) -> Snapshot:
    nodes = tuple(
        world.with_figures(node, seen=(node.agent.seen or 0) + STEP, cpu=float(chance.randrange(100)), gpus=busier(node.agent.gpus, chance))
        for node in now.nodes or ()
    )
    hosts = {name: replace(host, gpus=busier(host.gpus, chance), cpu=float(chance.randrange(100))) for name, host in now.hosts.items()}
    processes = list(now.processes or ())
    if chance.random() < 0.3:
        processes.insert(
            chance.randrange(len(processes) + 1), world.process(chance.randrange(2000, 9000), rss=1024 * chance.randrange(1 << 20))
        )
    if len(processes) > 8 and chance.random() < 0.3:
        processes.pop(chance.randrange(len(processes)))
    findings = now.findings if chance.random() < 0.8 else (() if now.findings else (world.finding(),))
    return replace(
        now,
        taken=now.taken + STEP,
        nodes=nodes,
        hosts=hosts,
        processes=tuple(processes),
        findings=findings,
        as_of={"ray.nodes": now.taken + STEP},
    )


def write(folder: Path, written: Sequence[Snapshot]) -> Path:
    """Writes a recording of these snapshots; the path of its only segment."""
    folder.mkdir(parents=True, exist_ok=True)
    writer, before = SegmentWriter(folder), Snapshot()
    for snapshot in written:
        writer.write(snapshot, [*events_between(before, snapshot)])
        before = snapshot
    writer.close()
    assert writer.path is not None
    return writer.path


def differences(one: Snapshot, other: Snapshot | None) -> list[str]:
    """The fields in which two snapshots differ. The time of the findings is not recorded: it is that of the snapshot."""
    names = {*Snapshot.__struct_fields__} - {"findings_as_of"}
    return [name for name in sorted(names) if getattr(one, name) != getattr(other, name, None)]
