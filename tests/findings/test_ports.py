"""A failed job's port, its host, and the process that listens there now."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings.jobs import failed_jobs
from cockpit.findings.ports import MAX_FAILURES, WantedPort, find_wanted_port, last_failures
from cockpit.model import Finding, Job, Listener, Port, Snapshot
from tests.findings.detection import detect, only
from tests.world import NOW, node, process, snapshot

SAID = "DistNetworkError: bind to [::]:29500 (errno: 98 - Address already in use)."
ASK = "`ss -ltnp 'sport = :29500'` on the node where it failed shows who has port 29500 now"
HERE = WantedPort("node1", 29500)


def job(message: str = SAID, **more: Any) -> Job:
    return Job("raysubmit_1", **{"status": "FAILED", "ended": NOW - 60, "message": message, "driver_node": node(1).id, **more})


def world(one: Job, *ports: Port) -> Snapshot:
    first = snapshot()
    second = replace(first.hosts["node1"], name="node2", nodes=(node(2).id,))
    hosts = {"node1": replace(first.hosts["node1"], nodes=(node(1).id,)), "node2": second}
    return replace(first, nodes=(node(1), node(2)), hosts=hosts, jobs=(one,), ports=ports)


def find(*listeners: Listener) -> Finding:
    return only(detect(world(job(), Port(HERE.host, HERE.port, listeners)), detectors=(failed_jobs,)), "job-failed")


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (job(), HERE),
        (job(f"(RayWorker pid=7) {SAID}"), HERE),
        (job(f"(RayWorker pid=7, ip=10.0.0.2) {SAID}"), WantedPort("node2", 29500)),
        (job(f"(RayWorker pid=7, ip=10.0.0.9) {SAID}"), None),
        (job(driver_node=None), None),
        (job(driver_node="f" * 56), None),
        (job("OSError: [Errno 98] Address already in use"), None),
        (
            job("OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address already in use"),
            WantedPort("node1", 8265),
        ),
        (
            job("OSError: [Errno 98] error while attempting to bind on address ('10.0.0.2', 8265): address already in use"),
            WantedPort("node2", 8265),
        ),
        (job("OSError: [Errno 98] error while attempting to bind on address ('10.9.9.9', 8265): address already in use"), None),
        (job("CUDA out of memory"), None),
        (job(""), None),
    ],
)
def test_the_host_comes_from_the_worker_or_else_the_driver(one: Job, wanted: WantedPort | None):
    there = world(one)
    assert find_wanted_port(one, there) == wanted


def test_an_unprobed_or_dead_node_is_not_asked():
    there = world(job())
    assert find_wanted_port(job(), replace(there, hosts={})) is None
    assert find_wanted_port(job(), replace(there, nodes=(node(1, state="DEAD"),))) is None


def test_a_leftover_listener_is_named_and_can_be_ended():
    first = process(7, host="node1", kind="orphan", session="session_old")
    there = replace(world(job(), Port(HERE.host, HERE.port, (Listener(pid=7, ticks=first.ticks, user="train"),))), processes=(first,))
    found = only(detect(there, detectors=(failed_jobs,)), "job-failed")
    assert found.evidence[-2] == "process 7 of train listens on port 29500 of node1 now (orphan, session_old)"
    assert found.about == ("job:raysubmit_1", first.key)
    assert found.remedy.action == "kill-orphans"


@pytest.mark.parametrize("ticks", [None, 1])
def test_another_process_with_the_known_pid_is_not_that_process(ticks: int | None):
    first = process(7, host="node1", kind="orphan")
    there = replace(world(job(), Port(HERE.host, HERE.port, (Listener(pid=7, ticks=ticks),))), processes=(first,))
    found = only(detect(there, detectors=(failed_jobs,)), "job-failed")
    assert found.evidence[-2] == "process 7 listens on port 29500 of node1 now"
    assert (found.about, found.remedy.action) == (("job:raysubmit_1",), None)


def test_the_present_listener_is_named():
    found = find(Listener(pid=4711, ticks=5, user="alice", command="python -m  vllm\n.entrypoints"))
    assert found.evidence[-2] == "process 4711 of alice listens on port 29500 of node1 now: python -m vllm .entrypoints"
    assert found.about == ("job:raysubmit_1",)
    assert found.remedy.action is None
    assert find(Listener(pid=None, user="root")).evidence[-2] == "a process of root listens on port 29500 of node1 now"
    assert find().evidence[-2] == "nothing listens on port 29500 of node1 now (containers not checked)"


def test_an_unasked_port_has_a_command_for_a_person():
    for there in (world(job()), world(job(), Port("node2", 29500)), world(job(), Port("node1", 29501)), world(job(driver_node=None))):
        assert only(detect(there, detectors=(failed_jobs,)), "job-failed").evidence[-2] == ASK


def test_a_listeners_command_cannot_do_harm():
    assert "\x1b" not in find(Listener(pid=1, ticks=1, user="a\x1b[2J", command="x\x1b]52;c;eA==\x07" + "y" * 9999)).evidence[-2]
    assert len(find(Listener(pid=1, command="y" * 9999)).evidence[-2]) < 200


def test_a_rerun_job_is_left_out_and_only_the_newest_failures_count():
    failed, runs = job(entrypoint="a", started=NOW - 100), Job("b", entrypoint="a", status="RUNNING", started=NOW - 5)
    assert list(last_failures((failed,), NOW, 3600)) == [failed]
    assert list(last_failures((failed, runs), NOW, 3600)) == []
    assert list(last_failures((failed,), NOW + 4000, 3600)) == []
    jobs = [Job(id=str(number), status="FAILED", entrypoint=f"train {number}", ended=NOW - number) for number in range(3 * MAX_FAILURES)]
    assert {job.id for job in last_failures(reversed(jobs), NOW, 3600)} == {str(number) for number in range(MAX_FAILURES)}
