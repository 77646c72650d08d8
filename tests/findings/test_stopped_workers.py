"""A worker that a signal has stopped is found, also by a cockpit that has just been started."""

from __future__ import annotations

from typing import Any

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.stopped_workers import stopped_workers
from cockpit.model import Finding, Host, Job, Process, Snapshot
from tests.findings.detection import later, only
from tests.world import NOW, node, process, snapshot

JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 9000)


def rank(pid: int, state: str = "S", **more: Any) -> Process:
    return process(pid, **{"command": "ray::WorkerDict.update", "name": "ray::WorkerDict", "job": "02000000", "state": state, **more})


def world(*ranks: Process, job: Job = JOB, taken: float = NOW) -> Snapshot:
    host = Host("node1", ("10.0.0.1",), taken, nodes=(f"{1:056x}",), local=True)
    place = (node(1, host="w1", probe="node1", seen=taken),)
    return snapshot(nodes=place, processes=ranks, hosts={"node1": host}, jobs=(job,), actors=(), faults=())


def found(seen: Snapshot, seconds: float, assumed: float = 0.0) -> tuple[Finding, ...]:
    """The findings after this state has lasted for a time; sampled every 5 s."""
    judge = FindingTracker(Limits(), (stopped_workers,), assumed=assumed)
    for at in range(int(seconds // 5)):
        judge(later(seen, 5.0 * at - seconds))
    return judge(seen).findings


def test_a_stopped_worker_is_named_with_how_to_let_it_go_on():
    told = only(found(world(rank(101), rank(102, "T")), 35), "worker-stopped")
    assert told.text.startswith("Stopped by a signal (state T) for 35s: WorkerDict on w1 (pid 102) of job train1;")
    assert "`kill -CONT 102` on w1" in told.remedy.text
    assert rank(102, "T").key in told.about


def test_one_look_finds_it_too():
    told = only(found(world(rank(102, "T")), 0, assumed=60.0), "worker-stopped")
    assert told.text.startswith("Stopped by a signal (state T): WorkerDict on w1 (pid 102)")


def test_a_worker_that_is_stopped_for_a_moment_or_traced_is_healthy():
    assert found(world(rank(102, "T")), 20) == ()
    assert found(world(rank(102, "t")), 60) == ()


def test_a_stopped_process_of_an_ended_job_or_of_no_job_is_another_matter():
    ended = Job("train1", "02000000", "train1", "FAILED", ended=NOW - 100)
    assert found(world(rank(102, "T"), job=ended), 60) == ()
    assert found(world(rank(102, "T", job=None)), 60) == ()
