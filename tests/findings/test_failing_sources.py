"""Failing sources: level, cause and remedy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.failing_sources import failing_reads, unseen_gpus, unseen_hosts
from cockpit.model import Actor, Bundle, Cluster, Fault, Host, Job, PlacementGroup, Quantity, Snapshot
from tests.findings.detection import detect, only
from tests.world import NOW, gpu, node, snapshot

NVML, PROBES, READS = (unseen_gpus,), (unseen_hosts,), (failing_reads,)
W1 = node(1, host="w1", resources={"GPU": Quantity(2, 4)}, head=False)
MISMATCH = "NVML can't be started: Driver/library version mismatch"


def without_nvml(text: str = MISMATCH, since: float = NOW - 600, **more) -> Snapshot:
    host = Host("w1", ("10.0.0.1",), NOW, nodes=(W1.id,), faults=(Fault("nvml", text, since, "w1"),), **more)
    group = PlacementGroup("07" * 18, state="CREATED", bundles=(Bundle({"GPU": 1.0}, W1.id), Bundle({"GPU": 1.0}, W1.id)), job="02000000")
    jobs = (Job("nvml-1", "02000000", "nvml-1", "RUNNING"),)
    return snapshot(nodes=(W1,), hosts={"w1": host}, jobs=jobs, actors=(), placement_groups=(group,), faults=host.faults, processes=())


def test_a_failed_nvml_on_a_used_node_is_critical_with_cause_and_remedy():
    found = only(detect(without_nvml(), detectors=NVML), "gpus-unseen")
    assert found.level == "critical"
    assert found.text == (
        "NVML on w1 can't be used (driver and library versions differ: the driver was upgraded while it was loaded): its 4 GPUs, 2 "
        "reserved by job nvml-1, can't be seen and new work placed there will fail"
    )
    assert found.remedy.action == "drain-node"
    assert found.remedy.text.startswith("reboot the host, or end all GPU processes there and reload the driver (`rmmod ")
    assert found.remedy.text.endswith("drain the node until then (`cockpit drain-node w1`)")
    assert found.about == (W1.key,)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("NVML can't be started: RM has detected an NVML/RM version mismatch.", "driver and library versions differ"),
        ("NVML failed: Unknown Error", "unknown error, as in a container that has lost its GPU devices"),
        ("NVML has not answered for 40 s", "the driver does not answer"),
        ("NVML can't be started: Driver Not Loaded", "the driver is not loaded"),
        ("NVML can't be started: GPU is on fire", "NVML can't be started: GPU is on fire"),
    ],
)
def test_the_cause_is_described(text, cause):
    assert f"can't be used ({cause}" in only(detect(without_nvml(text), detectors=NVML), "gpus-unseen").text


def test_reserved_gpus_decide_the_level_including_those_of_single_actors():
    free = replace(without_nvml(), placement_groups=())
    assert only(detect(free, detectors=NVML), "gpus-unseen").level == "warning"
    found = only(
        detect(without_nvml("NVML can't be asked: the Python module pynvml is missing (No module)"), detectors=NVML), "gpus-unseen"
    )
    assert (found.level, "will fail" in found.text) == ("info", False)
    assert found.remedy.text.endswith("`pip install nvidia-ml-py`")
    actor = Actor("0a" * 16, "Engine", state="ALIVE", job="02000000", node=W1.id, needs={"GPU": 1.0})
    alone = replace(without_nvml(), placement_groups=(), actors=(actor,))
    assert ", 1 reserved by job nvml-1," in only(detect(alone, detectors=NVML), "gpus-unseen").text
    no_ray = replace(without_nvml(gpus=(gpu(0),)), nodes=(replace(W1, resources={}),), placement_groups=())
    assert only(detect(no_ray, detectors=NVML), "gpus-unseen").level == "info"
    assert detect(replace(no_ray, hosts={"w1": replace(no_ray.hosts["w1"], gpus=None)}), detectors=NVML) == ()


def test_a_short_failure_of_nvml_is_no_finding_except_in_one_sample():
    young = without_nvml(since=NOW - 3)
    assert FindingTracker(Limits(), NVML)(young).findings == ()
    assert FindingTracker(Limits(), NVML, assumed=60.0)(young).findings != ()


def silent(*faults: Fault, **more) -> Snapshot:
    return snapshot(nodes=(W1,), faults=faults, processes=(), **more)


def test_hosts_that_fall_silent_or_were_never_probed_are_reported():
    host = Host("w1", ("10.0.0.1",), NOW - 100, nodes=(W1.id,))
    found = only(
        FindingTracker(Limits(), PROBES)(silent(Fault("probe", "no answer", NOW - 90, "w1"), hosts={"w1": host})).findings, "host-unseen"
    )
    assert found.text == ("w1 has not been seen for 1m40s: no answer; what is shown of its processes, GPUs, memory and disks is as old")
    assert (found.level, found.subject, found.since) == ("warning", "w1", NOW - 100)
    faults = (Fault("probe", "w1: Permission denied", NOW - 90, "w1"), Fault("probe", "w9: Permission denied", NOW - 90, "w9"))
    known = only(detect(silent(faults[0], hosts={}), detectors=PROBES), "hosts-unreached")
    assert known.level == "info"
    assert known.text.startswith(
        "No probe runs on w1: orphans, /dev/shm, drivers and logs there can't be seen; for GPUs and memory Ray's own"
    )
    both = only(detect(silent(*faults, hosts={}), detectors=PROBES), "hosts-unreached")
    assert (both.level, both.text.startswith("No probe runs on w1, w9: ")) == ("warning", True)


def test_a_hanging_disk_and_a_failing_list_are_named_unless_the_dashboard_is_silent():
    host = Host("w1", ("10.0.0.1",), NOW, nodes=(W1.id,))
    disk = Fault("disks", "A disk has not answered for 90 s", NOW - 90, "w1")
    found = only(detect(silent(disk, hosts={"w1": replace(host, faults=(disk,))}), detectors=READS), "source-failing")
    assert (found.level, found.subject, found.text) == (
        "warning",
        "w1 disks",
        "w1: its disks can't be seen: A disk has not answered for 90 s",
    )
    jobs = only(detect(silent(Fault("ray.jobs", "HTTP 500", NOW - 90), hosts={}), detectors=READS), "source-failing")
    assert jobs.text == "Ray's dashboard does not list jobs: HTTP 500"
    gone = silent(Fault("ray.jobs", "no answer within 15 s", NOW - 90), hosts={}, cluster=Cluster("http://head:8265", reachable=False))
    assert detect(gone, detectors=READS) == ()


@pytest.mark.parametrize(
    "fault",
    [
        Fault("ray.jobs", "HTTP 500", NOW - 5),
        Fault("ray.jobs", "nothing listens there", NOW - 90, cause="silent"),
        Fault("ray.identity", "nothing listens there", NOW - 90),
        Fault("probe", "no answer", NOW - 90, "w1"),
    ],
)
def test_short_faults_and_faults_with_their_own_finding_are_not_reported_here(fault):
    assert FindingTracker(Limits(), READS)(silent(fault, hosts={})).findings == ()
