"""Slurm jobs and nodes that end soon are found, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings.allocation import ending_allocation, leaving_nodes, requeued_allocation
from cockpit.model import Allocation, Fault, Finding, Job, SlurmNode, Snapshot
from tests.findings.detection import detect, only
from tests.world import NOW, node, snapshot

BOTH = (ending_allocation, leaving_nodes)
RUNNING = Job("ppo-7b", status="RUNNING")


def seen(*nodes: SlurmNode, ends: float | None = None, jobs: tuple[Job, ...] | None = (RUNNING,)) -> Snapshot:
    return replace(snapshot(), nodes=(node(1), node(2)), jobs=jobs, allocation=Allocation("42", "RUNNING", ends, nodes))


def test_an_allocation_that_ends_soon_names_the_jobs_that_end_with_it():
    def find(ends: float = 720, **more: Any) -> Finding:
        return only(detect(seen(ends=NOW + ends, **more), 0, detectors=BOTH, slurm_ends=max(1800.0, ends)), "slurm-ends")

    found = find()
    assert found.text == "Slurm job 42 reaches its time limit in 12 min, and this Ray cluster and job ppo-7b will end with it"
    assert found.remedy is not None
    assert "scontrol update JobId=42 TimeLimit=+60" in found.remedy.text
    jobs = (RUNNING, Job("sft", status="RUNNING"), Job("old", status="SUCCEEDED"))
    assert "this Ray cluster and 2 running jobs" in find(jobs=jobs).text
    assert [find().level, find(jobs=()).level, find(jobs=None).level] == ["warning", "info", "warning"], "unknown jobs may run"
    assert find(ends=3000), "the warning time is a threshold"
    bare = seen(ends=NOW + 720, jobs=())
    found = only(detect(replace(bare, cluster=replace(bare.cluster, reachable=False)), 0, detectors=BOTH), "slurm-ends")
    assert found.text == "Slurm job 42 reaches its time limit in 12 min"


@pytest.mark.parametrize("ends", [None, NOW + 1801, NOW + 86400])
def test_an_allocation_with_time_or_without_a_limit_is_fine(ends: float | None):
    assert detect(seen(ends=ends), 0, detectors=BOTH) == ()


def test_an_ended_allocation_that_slurm_has_forgotten_is_not_reported():
    over = replace(seen(ends=NOW - 60), faults=(Fault("slurm", "Slurm job 42 has ended, or there is none", NOW),))
    assert detect(over, 0, detectors=BOTH) == ()
    assert detect(seen(ends=NOW - 60), 0, detectors=BOTH), "Slurm lets a job run over its time (OverTimeLimit)"


@pytest.mark.parametrize("state", ["draining", "fail"])
def test_a_drained_or_failing_node_under_a_living_ray_is_reported_with_the_reason(state: str):
    found = only(detect(seen(SlurmNode("node2", state, "Xid 79"), SlurmNode("node1", "mixed")), 0, detectors=BOTH), "slurm-node-drain")
    assert found.text.startswith("Slurm takes node2 out of service after job 42: what runs there continues")
    assert (found.subject, found.about) == ("node2", (node(2).key,))
    assert found.evidence == (f"sinfo: node2 is {state}: Xid 79",)


@pytest.mark.parametrize("state", ["down", "down*", "allocated*", "draining*"])
def test_a_node_that_slurm_has_lost_under_a_living_ray_is_reported_once(state: str):
    found = detect(seen(SlurmNode("node1", state)), 0, detectors=BOTH)
    assert [one.code for one in found] == ["slurm-node-down"]
    assert "calls node1 down or not responding, but Ray counts it as alive" in found[0].text


@pytest.mark.parametrize("state", ["allocated", "mixed", "idle", "completing", "allocated+", "mixed-", "reserved"])
def test_a_node_in_service_is_fine(state: str):
    assert detect(seen(SlurmNode("node1", state)), 0, detectors=BOTH) == ()


def test_a_node_that_is_also_dead_for_ray_has_one_finding_and_without_ray_slurm_decides():
    gone = replace(seen(SlurmNode("node1", "down*")), nodes=(replace(node(1), state="DEAD"), node(2)))
    assert detect(gone, 0, detectors=BOTH) == ()
    unseen = replace(seen(SlurmNode("node1", "down"), SlurmNode("node2", "draining", "Xid 79")), nodes=None)
    found = {one.code: one for one in detect(unseen, 0, detectors=BOTH)}
    assert set(found) == {"slurm-node-down", "slurm-node-drain"}
    assert (
        found["slurm-node-down"].text
        == "Slurm calls node1 down or not responding: when Slurm gives up the node, it ends job 42 on all nodes"
    )


def test_a_written_reason_is_shown_and_cannot_control_the_terminal():
    found = only(detect(seen(SlurmNode("node1", "drained", "\x1b[2Jbad\nfan")), 0, detectors=BOTH), "slurm-node-drain")
    assert found.evidence == ("sinfo: node1 is drained: �[2Jbad fan",)


@pytest.mark.parametrize("other", ["node-2.cluster", "c27n02", "10.0.0.2"])
def test_a_node_with_another_slurm_name_is_known_by_its_host_name_or_address(other: str):
    known = seen(SlurmNode("gpu-a-02", "draining", "Xid 79", ("c27n02", "10.0.0.2")))
    called = replace(node(2), host=other if other != "10.0.0.2" else "elsewhere", ip="10.0.0.2" if other != "c27n02" else "")
    found = only(detect(replace(known, nodes=(node(1), called)), 0, detectors=BOTH), "slurm-node-drain")
    assert (found.subject, found.about) == ("gpu-a-02", (called.key,))


def test_a_requeued_job_is_reported():
    waits = replace(seen(), allocation=Allocation("42", "PENDING", None, ()))
    found = only(detect(waits, 0, detectors=(requeued_allocation,)), "slurm-requeued")
    assert found.text.startswith("Slurm job 42 waits for nodes again, and what ran in it has ended")
    assert detect(seen(), 0, detectors=(requeued_allocation,)) == ()
