"""GPU memory of orphans is found, and no other."""

from __future__ import annotations

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.gpu_leftovers import orphaned_memory
from cockpit.model import Hold, Host, Job
from tests.findings.detection import after_silence, codes, detect, only
from tests.world import GIB, NOW, node, process, snapshot

ALONE = (orphaned_memory,)


def test_memory_of_orphans_is_reported_by_host_and_gpu():
    left = process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB), Hold(3, 40 * GIB)), why=("its raylet is dead",))
    found = only(detect(snapshot(processes=(left,))), "gpu-memory-orphaned")
    assert (
        found.text
        == "1 orphan process holds 80G of GPU memory on 2 GPUs of node1 (2, 3): its job or Ray has ended and nothing alive owns it"
    )
    assert found.evidence == (
        "pid 1200 (orphan) python holds GPU 2: 40G, GPU 3: 40G: its raylet is dead",
        "the memory has been held for at least 2m00s",
    )
    assert found.remedy.action == "kill-orphans"
    assert found.about == (left.key,)
    assert found.since == NOW - 120


def test_a_node_has_its_name_and_two_nodes_on_one_host_are_separate():
    named = (node(1, name="head"), node(2, name="w1"))
    left = [process(number, kind="orphan", host="vm", node=named[number - 1].id, gpus=(Hold(0, GIB),)) for number in (1, 2)]
    found = detect(snapshot(processes=tuple(left), nodes=named), detectors=ALONE)
    assert sorted((each.subject, each.text.partition(":")[0]) for each in found) == [
        ("head", "1 orphan process holds 1.0G of GPU memory on head GPU 0"),
        ("w1", "1 orphan process holds 1.0G of GPU memory on w1 GPU 0"),
    ]


def test_the_job_of_all_orphans_is_named_if_ray_says_that_it_ended():
    left = tuple(process(pid, kind="orphan", job="02000000", gpus=(Hold(2, GIB),)) for pid in (1200, 1300))

    def text(job: Job) -> str:
        return only(detect(snapshot(processes=left, jobs=(job,)), detectors=ALONE), "gpu-memory-orphaned").text.partition(": ")[2]

    assert text(Job("eval", "02000000", status="FAILED", ended=NOW - 250)) == "job eval FAILED 4m10s ago and nothing alive owns them"
    assert text(Job("eval", "02000000", status="STOPPED")) == "job eval STOPPED and nothing alive owns them"
    assert text(Job("eval", "03000000", status="FAILED")) == "their job or Ray has ended and nothing alive owns them"


def test_living_empty_and_fresh_orphans_are_not_reported():
    fine = (process(1, kind="worker", gpus=(Hold(0, GIB),)), process(2, kind="orphan"), process(3, kind="foreign", gpus=(Hold(1, GIB),)))
    assert codes(detect(snapshot(processes=fine), detectors=ALONE)) == set()
    left = snapshot(processes=(process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB),)),))
    assert detect(left, 5, detectors=ALONE) == ()
    assert detect(left, 10, detectors=ALONE)
    found = only(FindingTracker(Limits(), ALONE, assumed=60.0)(left).findings, "gpu-memory-orphaned")
    assert (found.since, len(found.evidence)) == (None, 1)


def test_stale_processes_and_mig_devices_count_and_old_facts_say_so():
    left = process(1200, kind="stale", gpus=(Hold(3001, None),))
    found = only(detect(snapshot(processes=(left,)), detectors=ALONE), "gpu-memory-orphaned")
    assert found.text.startswith("1 orphan process holds GPU memory on node1 GPU 3.1: ")
    assert found.evidence[0].startswith("pid 1200 (stale) python holds GPU 3.1: –: ")
    assert found.level == "warning"
    left = process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB),))
    there = snapshot(processes=(left,), hosts={"node1": Host("node1", taken=NOW)})
    assert only(after_silence(there, 300, detectors=ALONE), "gpu-memory-orphaned").seen == NOW
