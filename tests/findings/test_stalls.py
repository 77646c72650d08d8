"""Jobs whose GPUs do no work are found; jobs that load, save or wait for a moment are not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.stalls import jobs_with_still_gpus, most_watts, stalled_jobs
from cockpit.model import Cluster, Failure, Finding, Gpu, Hold, Host, Job, Process, Snapshot
from tests.findings.detection import codes, later, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

STALLED = (stalled_jobs,)
JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 9000)
MINUTE = 60
SESSION = "session_1"
Facts = dict[str, Any]
IDLE, WORKS, SPINS = {"utilization": 0.0, "power": 75.0}, {"utilization": 97.0, "power": 560.0}, {"utilization": 100.0, "power": 120.0}


def world(*gpus: Facts, silent: float | None = None, job: Job = JOB, **more: Any) -> Snapshot:
    """A job with a process on each of these GPUs of a probed node, and a log that has been silent for a time."""
    made = tuple(gpu(index, 60, **facts) for index, facts in enumerate(gpus))
    wrote = {} if silent is None else {SESSION: {"train1": NOW - silent}}
    facts = {
        "cluster": Cluster(session=SESSION),
        "nodes": (node(1, gpus=made, seen=NOW),),
        "processes": tuple(rank(index) for index in range(len(gpus))),
        "hosts": {"node1": Host("node1", ("10.0.0.1",), NOW, gpus=made, nodes=(f"{1:056x}",), wrote=wrote)},
        "jobs": (job,),
        "actors": (),
        "faults": (),
    }
    return snapshot(**{**facts, **more})


def rank(index: int, **more: Any) -> Process:
    return process(100 + index, **{"gpus": (Hold(index, 59 * GIB),), "job": "02000000", **more})


def found(seen: Snapshot, minutes: float) -> tuple[Finding, ...]:
    """The findings after this state with a silent log has lasted for a time; sampled every half minute."""
    judge = FindingTracker(Limits(), STALLED)
    reported: tuple[Finding, ...] = ()
    for step in range(int(minutes * 2) + 1):
        reported = judge(later(seen, 30.0 * step - minutes * MINUTE)).findings
    return reported


def test_one_sample_never_reports_a_stall():
    stall = world(*[IDLE] * 8, silent=12 * MINUTE)
    short = Limits(idle_for=30, spin_for=30)
    assert FindingTracker(short, STALLED, assumed=60.0)(stall).findings == ()
    assert FindingTracker(short, STALLED, assumed=60.0)(world(*[SPINS] * 8, silent=12 * MINUTE)).findings == ()


def test_idle_gpus_and_a_silent_log_are_an_info_and_then_a_warning():
    stall = world(*[IDLE] * 8, silent=12 * MINUTE)
    assert found(stall, 4.5) == ()
    assert only(found(stall, 5), "job-stalled").level == "info"
    reported = only(found(stall, 12), "job-stalled")
    assert (reported.level, reported.subject, reported.about) == ("warning", "job train1", (JOB.key,))
    assert (
        reported.text
        == "All 8 GPUs of job train1 have been at 0% for 12m00s, with 480G of memory in use, and its log has not grown for 12m00s"
    )
    assert reported.evidence == (
        "node1 GPU 0, 1, 2, 3, 4, 5, 6, 7: 0%, 75 W (`nvidia-smi`)",
        "job-driver-train1.log was last written 12m00s ago",
    )
    assert reported.remedy.action == "stop-job"
    assert reported.since == NOW - 12 * MINUTE


def test_the_log_must_be_silent_for_as_long_and_without_a_log_it_takes_longer():
    assert found(world(IDLE, IDLE, silent=4 * MINUTE), 20) == ()
    assert only(found(world(IDLE, IDLE, silent=7 * MINUTE), 20), "job-stalled").level == "info"
    assert found(world(IDLE, IDLE), 29) == ()
    reported = only(found(world(IDLE, IDLE), 30), "job-stalled")
    unknown = "Both GPUs of job train1 have been at 0% for 30m00s, with 120G of memory in use; whether its log still grows is unknown"
    assert (reported.level, reported.text) == ("warning", unknown)
    reported = only(found(world(IDLE, silent=10), 40), "job-stalled")
    grows = "The only GPU of job train1 has been at 0% for 40m00s, with 60G of memory in use; its log still grows"
    assert (reported.level, reported.text) == ("info", grows)


@pytest.mark.parametrize(
    "fine",
    [
        world(WORKS, IDLE, IDLE, IDLE, silent=3600),
        world(IDLE, {"utilization": None}, silent=3600),
        world(IDLE, {"utilization": float("nan")}, silent=3600),
        world(IDLE, IDLE, silent=3600, job=replace(JOB, status="SUCCEEDED")),
        world(IDLE, IDLE, silent=3600, jobs=None),
        world(IDLE, IDLE, silent=3600, nodes=None),
        world(IDLE, IDLE, silent=3600, nodes=(node(1, gpus=None),), hosts={}),
        world(IDLE, IDLE, silent=3600, processes=()),
        world(IDLE, silent=3600, processes=(rank(0, kind="orphan"), rank(0, job=None, other_job="02000000", ours=False))),
        world(*[{"utilization": 97.0, "power": 260.0}] * 8, silent=3600),
        world(*[{"utilization": 100.0, "power": None}] * 8, silent=3600),
        world(*[{"utilization": 100.0, "power": 100.0, "power_limit": None, "name": "NVIDIA X1"}] * 8, silent=3600),
        world(*[{"utilization": 100.0, "power": 240.0, "power_limit": None}] * 8, silent=3600),
        world(*[{"utilization": 60.0, "power": 120.0}] * 8, silent=3600),
        world(SPINS, silent=3600),
        snapshot(),
    ],
)
def test_busy_or_unknown_jobs_are_not_reported(fine: Snapshot):
    assert found(fine, 60) == ()


def test_without_a_probe_the_power_limit_comes_from_the_gpus_name():
    hung = only(found(world(*[{"utilization": 100.0, "power": 120.0, "power_limit": None}] * 8), 20), "job-hung")
    assert hung.text.startswith("All 8 GPUs of job train1 have been at 100% with at most 120 W")


@pytest.mark.parametrize(
    ("name", "watts"),
    [
        ("NVIDIA H100 80GB HBM3", 700), ("NVIDIA H100 PCIe", 350), ("NVIDIA H100 NVL", 400), ("NVIDIA H200", 700), ("NVIDIA H20", None),
        ("NVIDIA A100-SXM4-40GB", 400), ("NVIDIA A100-PCIE-40GB", 250), ("NVIDIA A100 80GB PCIe", 300), ("Tesla V100-SXM2-32GB", 300),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", None), ("NVIDIA GB200", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_the_highest_power_is_known_by_nvmls_names(name: str | None, watts: float | None):
    assert most_watts(name) == watts


def test_one_busy_sample_restarts_it_and_old_facts_do_not_extend_it():
    stall, judge = world(IDLE, IDLE, silent=3600), FindingTracker(Limits(), STALLED)
    for minute in range(60):
        seen = world(WORKS, IDLE, silent=3600) if minute % 4 == 3 else stall
        assert judge(later(seen, 60 * minute - 3600)).findings == ()
    stall = world(IDLE, IDLE, silent=3600)
    judge = FindingTracker(Limits(), STALLED)
    for minute in range(60):
        seen = later(stall, 60 * minute)
        reported = judge(seen if minute < 4 else replace(seen, hosts=later(stall, 200).hosts)).findings
    assert reported == ()


def test_engines_without_a_known_owner_may_be_the_jobs():
    engine = process(300, kind="unknown", gpus=(Hold(1, 59 * GIB),), node=f"{2:056x}", host="node2")
    away = node(2, gpus=(gpu(0, **IDLE), gpu(1, **WORKS)), seen=NOW, probed=False)
    here = world(IDLE, IDLE, silent=3600)
    two = replace(here, nodes=(*here.nodes, away), processes=(*here.processes, engine))
    assert codes(found(two, 20)) == {"job-stalled"}
    assert found(replace(two, actors=(actor(1, node=f"{2:056x}"),)), 20) == ()


def test_gpus_that_wait_for_each_other_are_reported_with_the_different_one():
    hang = world(*[SPINS] * 7, {"utilization": 0.0, "power": 78.0})
    assert found(hang, 4.5) == ()
    reported = only(found(hang, 6), "job-hung")
    assert (reported.level, reported.subject) == ("warning", "job train1")
    assert reported.text == (
        "7 of 8 GPUs of job train1 have been at 100% with at most 120 W for 6m00s: they wait for other ranks, as in a hung "
        "NCCL collective; different from the others: node1 GPU 7; whether its log still grows is unknown"
    )
    assert reported.evidence[0] == "different from the others: node1 GPU 7: 0%, 78 W, pid 107 python"
    assert reported.about == (JOB.key, rank(7).key)
    assert reported.remedy.action == "stop-job"
    assert only(found(hang, 10), "job-hung").level == "critical"


def test_the_gpu_that_the_others_wait_for_has_another_power_or_is_lost():
    reported = only(found(world(*[SPINS] * 7, {"utilization": 100.0, "power": 70.0}), 6), "job-hung")
    assert "All 8 GPUs of job train1 have been at 100%" in reported.text
    assert "different from the others: node1 GPU 7" in reported.text
    assert "odd one out" not in only(found(world(*[SPINS] * 8), 6), "job-hung").text
    assert "odd one out" not in only(found(world(*[SPINS] * 4, *[IDLE] * 4), 6), "job-hung").text
    hang = world(*[SPINS] * 7, IDLE)
    lost = (*hang.index.machine(hang.nodes[0]).gpus[:7], Gpu(7, fault="GPU is lost"))
    reported = only(found(replace(hang, nodes=(node(1, gpus=lost, seen=NOW),)), 6), "job-hung")
    assert "different from the others: node1 GPU 7" in reported.text
    assert reported.evidence[0] == "different from the others: node1 GPU 7: lost, pid 107 python"


def test_signs_against_a_hang_make_it_take_three_times_as_long():
    talks = world(*[SPINS] * 8, silent=5)
    assert found(talks, 14) == ()
    assert only(found(talks, 15), "job-hung").text.endswith("; its log still grows")
    tail = world(SPINS, *[IDLE] * 7)
    assert found(tail, 14) == ()
    assert "different from the others: node1 GPU 0" in only(found(tail, 15), "job-hung").text
    assert only(found(world(SPINS, *[IDLE] * 7, silent=3600), 5), "job-hung")


def test_changing_memory_is_a_sign_of_life():
    judge = FindingTracker(Limits(), STALLED)
    for minute in range(60):
        facts = {**SPINS, "memory_used": (60 << 30) + (minute // 4 << 20)}
        assert judge(later(world(facts, facts), 60 * minute)).findings == ()


def test_a_hang_lasts_until_a_gpu_clearly_works():
    judge = FindingTracker(Limits(), STALLED)
    reported = [codes(judge(later(world(*[SPINS] * 8), 30 * step)).findings) for step in range(12)]
    assert reported[-1] == {"job-hung"}
    wavers = {"utilization": 92.0, "power": 230.0}
    assert codes(judge(later(world(*[wavers] * 8), 360)).findings) == {"job-hung"}
    assert judge(later(world(*[{"utilization": 92.0, "power": 280.0}] * 8), 390)).findings == ()


def test_many_nodes_are_summarized():
    nodes = tuple(node(number, gpus=(gpu(0, **IDLE),), seen=NOW) for number in range(1, 13))
    ranks = tuple(replace(rank(0), pid=number, node=f"{number:056x}") for number in range(1, 13))
    reported = only(found(world(silent=3600, nodes=nodes, processes=ranks), 12), "job-stalled")
    assert len(reported.evidence) == 10
    assert reported.evidence[8] == "the same on 4 more nodes"


def test_another_rays_log_for_a_job_of_the_same_name_does_not_count():
    stall = world(IDLE, IDLE, silent=12 * MINUTE)
    host = stall.hosts["node1"]
    beside = replace(host, wrote={**host.wrote, "session_of_another_ray": {"train1": NOW}})
    assert only(found(replace(stall, hosts={"node1": beside}), 12), "job-stalled").level == "warning"
    alone = replace(host, wrote={"session_of_another_ray": {"train1": NOW}})
    assert "whether its log still grows is unknown" in only(found(replace(stall, hosts={"node1": alone}), 30), "job-stalled").text


def reported(**more: Any) -> dict[str, Any]:
    """What the log of the running job last reported."""
    return {"failures": (Failure(JOB.key, **{"file": "job-driver-train1.log", **more}),)}


def test_a_log_that_only_repeats_a_line_counts_as_silent():
    repeats = reported(repeats='INFO: "GET /health HTTP/1.1" 200 OK', repeats_since=NOW - 12 * MINUTE)
    told = only(found(world(*[IDLE] * 8, silent=0, **repeats), 12), "job-stalled")
    assert told.level == "warning"
    assert told.text.endswith(", and its log has only repeated one line for 12m00s")
    assert told.evidence[-1] == 'job-driver-train1.log repeats: INFO: "GET /health HTTP/1.1" 200 OK'
    assert found(world(*[IDLE] * 8, silent=0), 12) == ()


def test_a_repetition_that_has_just_begun_does_not_make_a_log_silent():
    repeats = reported(repeats="x", repeats_since=NOW - 2 * MINUTE)
    assert found(world(*[IDLE] * 8, silent=0, **repeats), 12) == ()


def test_what_the_log_last_reported_is_told_in_the_text_if_it_is_known_and_no_consequence():
    facts = {"text": "X: y", "known": "x", "cause": "a peer is gone"}
    told = only(found(world(*[IDLE] * 8, silent=12 * MINUTE, **reported(**facts)), 12), "job-stalled")
    assert told.text.endswith("its log has not grown for 12m00s; its log last reported: a peer is gone")
    assert told.evidence[-2:] == ("its log last reported: a peer is gone", "its log last reported: X: y")
    hung = only(found(world(*[SPINS] * 8, silent=40 * MINUTE, **reported(**facts)), 40), "job-hung")
    assert hung.text.endswith("; its log last reported: a peer is gone")


@pytest.mark.parametrize("more", [{"known": None, "cause": None}, {"is_consequence": True}])
def test_an_unknown_error_or_a_consequence_is_only_evidence(more: Facts):
    facts = {"text": "X: y", "known": "x", "cause": "a peer is gone", **more}
    told = only(found(world(*[IDLE] * 8, silent=12 * MINUTE, **reported(**facts)), 12), "job-stalled")
    assert told.text.endswith("its log has not grown for 12m00s")
    assert told.evidence[-1] == "its log last reported: X: y"


def test_a_log_that_could_not_be_read_says_nothing_about_a_stall():
    told = only(found(world(*[IDLE] * 8, silent=12 * MINUTE, **reported(unread="no way there")), 12), "job-stalled")
    assert told.evidence[-1] == "job-driver-train1.log was last written 12m00s ago"


def test_only_running_jobs_whose_gpus_are_all_known_to_be_still_are_worth_reading():
    def keys(*gpus: Facts, **more: Any) -> list[str]:
        return list(jobs_with_still_gpus(world(*gpus, **more)))

    assert keys(IDLE, SPINS) == [JOB.key]
    assert keys(IDLE, {"utilization": 40.0}) == []
    assert keys(IDLE, {"utilization": None}) == []
    assert keys(IDLE, job=replace(JOB, status="FAILED")) == []
    assert keys() == []
