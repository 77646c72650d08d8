"""Idle workers that hold GPU memory are found; busy, briefly waiting and nearly empty workers are not."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.findings import Limits
from cockpit.findings.gpu_leftovers import idle_workers
from cockpit.model import Hold, Process, Snapshot
from tests.findings.detection import FreshTracker, detect, only
from tests.world import GIB, NOW, node, process, snapshot

IDLE = (idle_workers,)
GPU_HOLD = (Hold(0, 6 * GIB),)


def worker(pid: int = 500, **more: Any) -> Process:
    return process(pid, **{"command": "ray::IDLE", "name": "ray::IDLE", "gpus": GPU_HOLD, "job": "02000000", **more})


def world(*processes: Process, **more: Any) -> Snapshot:
    return snapshot(nodes=(node(1),), processes=processes, faults=(), **more)


def test_idle_workers_with_memory_are_listed_with_size_and_time():
    reported = only(detect(world(worker(), worker(501, gpus=(Hold(3, 2 * GIB),))), 310, detectors=IDLE), "gpu-memory-idle-worker")
    assert (reported.level, reported.subject, reported.since) == ("warning", "node1", NOW - 310)
    assert reported.text == (
        "2 idle Ray workers hold 8.0G of GPU memory on 2 GPUs of node1 (0, 3) for at least 5m10s; no task runs in them"
    )
    assert reported.evidence[0] == (
        "pid 500 ray::IDLE of job ppo-7b holds GPU 0: 6.0G, started 1h00m ago, idle for at least 5m10s (`nvidia-smi`, `ps -fp 500`)"
    )
    assert reported.about == (worker().key, worker(501).key)
    assert reported.remedy.action == "kill"


def test_a_worker_between_two_tasks_is_not_reported():
    assert detect(world(worker()), 290, detectors=IDLE) == ()
    judge = FreshTracker(Limits(), IDLE)
    for second in range(0, 1200, 5):
        title = "ray::score" if second % 240 == 0 else "ray::IDLE"
        assert judge(world(worker(command=title, name=title), taken=NOW + second)).findings == ()


@pytest.mark.parametrize(
    "other",
    [
        worker(command="ray::reward_fn", name="ray::reward_fn"),
        worker(command="ray::IDLE_SpillWorker", name="ray::IDLE_Spill"),
        worker(actor=f"{1:032x}"),
        worker(kind="orphan"),
        worker(kind="foreign", command="ray::IDLE"),
        worker(ours=False),
        worker(gpus=()),
        worker(gpus=(Hold(0, None),)),
        worker(gpus=(Hold(0, GIB // 2),)),
        worker(gpus=(Hold(0, -5),)),
        worker(command=None, name=None),
    ],
)
def test_other_processes_are_not_reported(other):
    assert detect(world(other), 600, detectors=IDLE) == ()


def test_the_finding_ends_below_three_quarters():
    def end(memory: float) -> tuple[Any, ...]:
        judge = FreshTracker(Limits(), IDLE)
        for second in range(0, 400, 5):
            judge(world(worker(), taken=NOW + second))
        return judge(world(worker(gpus=(Hold(0, int(memory * GIB)),)), taken=NOW + 400)).findings

    assert end(0.8)
    assert not end(0.7)


def test_one_sample_gives_an_info_without_a_duration():
    (found,) = FreshTracker(Limits(), IDLE, assumed=60.0)(world(worker())).findings
    assert (found.level, "for at least" in found.text) == ("info", False)
