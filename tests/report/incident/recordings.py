"""A made-up recording: a night in which one job hangs, is killed, and leaves orphans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from cockpit.model import Cluster, Fault, Finding, HostMemory, Job, OomKill, Remedy, Snapshot
from cockpit.recording.events import Event
from cockpit.recording.writer import SegmentWriter
from tests.usage.worlds import JOB, empty, group, holder, placed, world
from tests.world import GIB, NOW, with_figures

STEP_S = 10.0


class Made:
    """Takes the place of a recording."""

    def __init__(self, snapshots: Sequence[Snapshot], events: Sequence[Event] = (), damage: Sequence[str] = ()) -> None:
        self._snapshots, self._events, self.damage = snapshots, events, damage
        self.begin, self.end = snapshots[0].taken, snapshots[-1].taken
        self.cluster = snapshots[-1].cluster

    @property
    def gaps(self):
        times = [snapshot.taken for snapshot in self._snapshots]
        return [(one, other) for one, other in pairwise(times) if other - one > 20]

    def walk(self, begin=None, end=None, step_s=0):
        last = float("-inf")
        for snapshot in self._snapshots:
            if begin <= snapshot.taken <= end and snapshot.taken >= last + step_s:
                last = snapshot.taken
                yield snapshot

    def snapshot_at(self, moment):
        return next((snapshot for snapshot in reversed(self._snapshots) if 0 <= moment - snapshot.taken <= 20), None)

    def events(self, begin=None, end=None):
        return [event for event in self._events if begin <= event.at <= end]


def at(snapshot, after, **more):
    """The snapshot some seconds after the beginning."""
    now = NOW + after
    return replace(snapshot, taken=now, nodes=tuple(with_figures(each, seen=now) for each in snapshot.nodes or ()), **more)


CLUSTER = Cluster("http://10.0.0.1:8265", "2.60.0", "session_2026-11-21_01-17-58_164160_11638", "58908c", "disabled", True)
HUNG = Finding(
    "job-hung",
    "critical",
    "job ppo-7b",
    "3 of 4 GPUs of job ppo-7b have been at 100% with at most 120 W for 5m: they wait for other ranks, as in a hung NCCL collective",
    ("node1 GPU 0, 1, 2: 100 %, 118-120 W (`nvidia-smi`)", "node1 GPU 3: 0 %, 80 W (`nvidia-smi`)"),
    remedy=Remedy("compare the stacks of its ranks; then stop the job and start it from its last checkpoint", "stop-job"),
    about=("job:ppo-7b",),
)
ORPHANS = Finding(
    "gpu-memory-orphaned",
    "critical",
    "node1",
    "4 orphans hold 200G of GPU memory on node1",
    ("pid 1001 python train.py",),
    remedy=Remedy("end them", "kill-orphans"),
    about=(f"node:{1:056x}",),
)
DISK = Finding("disk-filling", "warning", "w9 /tmp", "/tmp on w9 is at 91 %", about=("node:other",))
RUNS = Job("ppo-7b", JOB, "ppo-7b", "RUNNING", "python -m openrlhf.cli.train_ppo_ray --critic.lr 9e-6", NOW + 5)
OVER = Job("ppo-7b", JOB, "ppo-7b", "FAILED", RUNS.entrypoint, NOW + 5, NOW + 2400, "RuntimeError: NCCL timed out")


def _moment(after: int) -> Snapshot:
    memory = HostMemory((500 + after // 10) * GIB, 1000 * GIB, 760 * GIB)
    held = group(*[placed()] * 4)
    four = holder(0, 1, 2, 3)
    if after < 600:
        made = world(four, rates=(80.0, 95.0, 70.0, 60.0), groups=[held])
    elif after < 2400:
        hung = replace(HUNG, since=NOW + 595)
        made = world(four, rates=(100.0, 100.0, 100.0, 0.0), groups=[held], findings=(hung, DISK))
    elif after < 3000:
        made = world(holder(0, 1, 2, 3, kind="orphan"), rates=(0.0,) * 4, findings=(ORPHANS,), jobs=(OVER,))
    else:
        made = world(nodes=empty(), jobs=(OVER,))
    nodes = tuple(with_figures(each, memory=memory) for each in made.nodes or ())
    killed = (OomKill("ray", NOW + 2300, 1001, job=JOB, node="1"),) if after >= 2300 else ()
    faults = (Fault("ray.identity", "http://10.0.0.1:8265: no answer within 4 s", NOW + 1200),) if 1200 <= after < 1500 else ()
    jobs = made.jobs if after >= 2400 else (RUNS,)
    return at(replace(made, nodes=nodes, cluster=CLUSTER, oom_kills=killed, faults=faults, jobs=jobs), after)


ACTION = {"act": "kill-orphans", "user": "ann", "host": "head"}
EVENTS = (
    Event(NOW + 2900, "act", "kill-orphans: 4 processes on node1", key="act:1", data=ACTION),
    Event(NOW + 2912, "act", "kill-orphans: ended 4 processes on node1", "end", key="act:1", data={**ACTION, "outcome": {"done": []}}),
    Event(NOW + 801, "finding", "GPU 3 of node1 is lost", level="critical", key="finding:gpu-lost:node1 GPU 3", subject="node1 GPU 3"),
    Event(NOW + 804, "finding", "GPU 3 of node1 is lost", "end", level="critical", key="finding:gpu-lost:node1 GPU 3"),
)


def night(events: Sequence[Event] = EVENTS, change=lambda snapshot: snapshot) -> Made:
    """An hour; ten minutes of it were not recorded."""
    moments = [after for after in range(0, 3600, int(STEP_S)) if not 1600 <= after < 2200]
    return Made([change(_moment(after)) for after in moments], events, ("20261123.rec: damaged from 02:10:05 to 02:15:05",))


def written(folder: Path, change=lambda snapshot: snapshot) -> Path:
    """The night, as a recording in this folder."""
    folder.mkdir(parents=True, mode=0o700)
    recorded, writer = night(change=change), SegmentWriter(folder)
    for snapshot in recorded.walk(recorded.begin, recorded.end):
        writer.write(snapshot)
    writer.write_events(list(EVENTS), EVENTS[0].at)
    writer.close()
    return folder


def anew(snapshot: Snapshot) -> Snapshot:
    """The same night in the next Ray at this address, two hours later."""
    moved = replace(CLUSTER, session="session_2026-11-21_03-30-00_1_1")
    jobs = tuple(replace(job, started=(job.started or 0) + 7200, ended=job.ended and job.ended + 7200) for job in snapshot.jobs or ())
    later = at(snapshot, snapshot.taken - NOW + 7200, cluster=moved, jobs=jobs)
    return replace(later, findings=tuple(replace(each, since=each.since and each.since + 7200) for each in snapshot.findings))


__all__ = ["CLUSTER", "EVENTS", "Made", "anew", "at", "night", "written"]
