"""What a recording costs: CPU of the recorder's thread and bytes, of a dashboard that only pretends, and what that makes of a day."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import threading
import time
from pathlib import Path

from msgspec.structs import replace

from bench import big
from cockpit.config.settings import Config
from cockpit.config.thresholds import DAY_S, LARGE_CLUSTER_NODES
from cockpit.model import Gpu, Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.recording.files import RecordKind, Segment, list_segments
from cockpit.recording.folder import list_recordings
from cockpit.recording.recorder import STEP_S, Recorder
from cockpit.recording.recording import Recording
from cockpit.recording.writer import KEY_EVERY_S, LARGE_KEY_EVERY_S, SegmentWriter

SETTLE_S = 30.0
"""Seconds before it is recorded: every source has answered once then."""
RECORD_BYTES = 29
"""Of a record's head."""
TICKS = os.sysconf("SC_CLK_TCK")


def thread_seconds(thread: threading.Thread) -> float:
    """CPU of one thread."""
    fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def record(address: str, root: Path, seconds: float) -> tuple[float, float]:
    """Follow it for so long: CPU seconds of the first key frame, and the share of a core that the recorder took after it."""
    monitor, recorder = ClusterMonitor(Config(address=address), lambda _: None), Recorder(root)
    running = asyncio.ensure_future(monitor.run())
    try:
        await asyncio.sleep(SETTLE_S)
        monitor.poller.subscribe(recorder.on_snapshot)
        while recorder.state.path is None:
            await asyncio.sleep(0.1)
        thread = next(one for one in threading.enumerate() if one.name == "recorder")
        key = thread_seconds(thread)
        await asyncio.sleep(seconds)
        return key, (thread_seconds(thread) - key) / seconds
    finally:
        monitor.close()
        running.cancel()
        recorder.close()


def day(root: Path, nodes: int) -> str:
    """Bytes of a day that goes on as these minutes: changes as they came, and as many key frames as fall into it."""
    segments = [Segment(path) for folder in list_recordings(root) for path in list_segments(folder)]
    for segment in segments:
        segment.scan()
    records = [record for segment in segments for record in segment.records]
    sizes = {kind: [one.length + RECORD_BYTES for one in records if one.kind == kind] for kind in RecordKind}
    span = records[-1].time - records[0].time
    key = max(one.length for one in records if one.kind == RecordKind.KEY)
    changes = (sum(sizes[RecordKind.DELTA]) + sum(sizes[RecordKind.EVENTS])) / span * DAY_S
    keys = key * DAY_S / (LARGE_KEY_EVERY_S if nodes > LARGE_CLUSTER_NODES else KEY_EVERY_S)
    rows = ", ".join(f"{kind.name.lower()} {len(found)} x {sum(found) / max(1, len(found)):.0f} B" for kind, found in sizes.items())
    return (
        f"{(changes + keys) / 1e6:.1f} MB a day: changes {changes / 1e6:.1f}, keys {keys / 1e6:.1f} (a key {key:,} B; {rows}; {span:.0f} s)"
    )


def fill(root: Path, hours: float) -> Recording:
    """Hours like what was recorded, at the same pace: all figures of GPUs are new in every frame."""
    folder = list_recordings(root)[0]
    now = next(iter(Recording.open(folder).walk(step_s=SETTLE_S)))
    writer, chance = SegmentWriter(root / "day"), random.Random(1)
    (root / "day").mkdir()
    for number in range(int(hours * 3600 / STEP_S)):
        writer.write(_later(now, number * STEP_S, chance))
    writer.close()
    return Recording.open(root / "day")


def _later(now: Snapshot, seconds: float, chance: random.Random) -> Snapshot:
    nodes = tuple(
        replace(node, agent=replace(node.agent, seen=(node.agent.seen or 0) + seconds, gpus=_others(node.agent.gpus, chance)))
        for node in now.nodes or ()
    )
    return replace(now, taken=now.taken + seconds, nodes=nodes)


def _others(gpus: tuple[Gpu, ...] | None, chance: random.Random) -> tuple[Gpu, ...] | None:
    return gpus and tuple(_other(gpu, chance) for gpu in gpus)


def _other(gpu: Gpu, chance: random.Random) -> Gpu:
    return replace(gpu, utilization=float(chance.randrange(50, 100)), memory_used=chance.randrange(70_000, 80_000) << 20)


def seek(recording: Recording, times: int = 40) -> tuple[float, float]:
    """CPU seconds to open it, and the most of some moments of it, each by a reader that knows nothing yet of its frames."""
    chance, longest = random.Random(2), 0.0
    began = time.process_time()
    Recording.open(recording.path)
    opened = time.process_time() - began
    for _ in range(times):
        moment = chance.uniform(recording.begin, recording.end)
        began = time.process_time()
        recording.snapshot_at(moment)
        longest = max(longest, time.process_time() - began)
    return opened, longest


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--keep", type=Path, help="a folder to leave the recording in")
    parser.add_argument("--hours", type=float, default=0.0, help="also make a recording of so many hours, and see any moment of it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cockpit-bench-") as folder:
        root = (options.keep or Path(folder)) / "state" / "recordings"
        wanted = ("--nodes", str(options.nodes), "--gpus", "8", "--actors", str(10 * options.nodes), "--pending", str(2 * options.nodes))
        with big.dashboard(*wanted) as address:
            key, share = asyncio.run(record(address, root, options.seconds))
        told = day(root, options.nodes)  # before more lies there
        if options.hours:
            whole = fill(root, options.hours)
            opened, longest = seek(whole)
            megabytes = sum(path.stat().st_size for path in list_segments(whole.path)) / 1e6
            print(f"{options.hours:g} h: {megabytes:.1f} MB, opened with {opened:.2f} s of CPU, any moment with {longest:.2f} s at most")
        print(f"{options.nodes} nodes: {100 * share:.2f} % of a core, and {key:.2f} s a key frame; {told}")


if __name__ == "__main__":
    main()
