"""GPUs that are lost, faulty or throttled, and GPU counts that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.gpus import gpu_counts, gpu_trouble
from cockpit.model import Allocation, Finding, Gpu, Host, Node, Quantity, RayProcess, Snapshot, Xid
from tests.findings.detection import after_silence, codes, detect, later, only
from tests.world import NOW, actor, gpu, node, snapshot

ILL, COUNTS = (gpu_trouble,), (gpu_counts,)
ID = f"{1:056x}"


def host(*gpus: Gpu, **more: Any) -> Host:
    return Host("node1", ("10.0.0.1",), NOW, **{"gpus": gpus, "nodes": (ID,), **more})


def seen(*gpus: Gpu, **more: Any) -> Snapshot:
    return snapshot(hosts={"node1": host(*gpus, **more)})


def test_a_lost_gpu_is_critical_after_several_samples_and_a_host_has_one_finding():
    lost = Gpu(3, fault="GPU is lost")
    found = only(detect(seen(gpu(0), lost), detectors=ILL), "gpu-lost")
    assert (found.level, found.subject) == ("critical", "node1")
    assert found.text == "GPU 3 of node1 is lost: NVML can't reach it any more"
    assert found.evidence == ("GPU 3: NVML: GPU is lost; `dmesg | grep -i xid` shows why",)
    assert found.about == (f"node:{ID}",)
    assert found.remedy.action is None
    assert "`nvidia-smi -r -i 3`" in found.remedy.text
    assert detect(seen(gpu(0), lost), 5, detectors=ILL) == ()
    found = only(detect(seen(*(Gpu(index, fault="Unknown Error") for index in range(8))), detectors=ILL), "gpu-lost")
    assert found.text == "GPUs 0, 1, 2, 3, 4, 5, 6, 7 of node1 are lost: NVML can't reach them any more"
    assert "`nvidia-smi -r -i 0,1,2,3,4,5,6,7`" in found.remedy.text


def test_a_lost_gpu_has_the_drivers_xid():
    line = "NVRM: Xid (PCI:0000:b1:00): 79, GPU has fallen off the bus."
    xids = (Xid(119, NOW - 900), Xid(31, NOW - 800), Xid(74, NOW - 700), Xid(79, NOW - 600, line), Xid(45, NOW - 599))
    found = only(detect(seen(gpu(0, xids=(Xid(79, NOW),)), Gpu(3, fault="GPU is lost", xids=xids)), detectors=ILL), "gpu-lost")
    assert found.evidence == (
        "GPU 3: NVML: GPU is lost",
        f"GPU 3: Xid 79, the GPU has fallen off the bus, 10m00s ago (`dmesg -T | grep -i xid`: {line})",
        "GPU 3: Xid 74, an NVLink error, 11m40s ago (reported by NVML)",
    )


@pytest.mark.parametrize("xids", [None, (), (Xid(31, NOW),), (Xid(45, NOW), Xid(13, NOW)), (Xid(79, None),)])
def test_an_application_xid_does_not_explain_a_faulty_gpu(xids):
    found = only(detect(seen(Gpu(3, fault="GPU is lost", xids=xids)), detectors=ILL), "gpu-lost")
    assert found.evidence == ("GPU 3: NVML: GPU is lost; `dmesg | grep -i xid` shows why",)


@pytest.mark.parametrize(
    ("facts", "code", "level", "text", "evidence"),
    [
        ({"recovery": "reset"}, "gpu-recovery", "critical", "has failed: NVML requests a recovery", "NVML requests: reset"),
        ({"recovery": "drain and reset"}, "gpu-drain", "warning", "still works, but NVML asks for no new work on it", "drain and reset"),
        (
            {"ecc": 2},
            "gpu-ecc",
            "warning",
            "has lost data through memory errors (ECC) since its driver was loaded",
            "2 uncorrected ECC errors",
        ),
        ({"remap": True}, "gpu-remap", "warning", "has bad memory rows and needs a reset to replace them", "row remap is pending"),
        ({"slowed": ("thermal",)}, "gpu-slowed", "warning", "is throttled", "throttle reason: thermal at 61 degrees C"),
    ],
)
def test_a_faulty_gpu_is_reported_with_its_remedy(facts: dict[str, Any], code: str, level: str, text: str, evidence: str):
    found = only(detect(seen(gpu(2, **facts)), detectors=ILL), code)
    assert (found.level, found.text) == (level, f"GPU 2 of node1 {text}")
    assert evidence in found.evidence[0]
    assert "nvidia-smi" in found.evidence[0]
    assert found.remedy.action is None


def test_bad_memory_has_its_xid_and_heat_has_none():
    found = only(detect(seen(gpu(2, remap=True, xids=(Xid(63, NOW - 60),))), 0, detectors=ILL), "gpu-remap")
    (line,) = found.evidence[1:]
    assert line == "GPU 2: Xid 63, a bad row of GPU memory is marked to be retired or remapped, 1m00s ago (reported by NVML)"
    assert len(only(detect(seen(gpu(0, slowed=("thermal",), xids=(Xid(79, NOW),))), 200, detectors=ILL), "gpu-slowed").evidence) == 1
    assert codes(detect(seen(gpu(2, recovery="reset", remap=True)), detectors=ILL)) == {"gpu-recovery"}, "one reset has one finding"


def test_healthy_gpus_have_no_finding_and_old_facts_say_so():
    fine = seen(gpu(0, slowed=(), remap=False), Gpu(1), gpu(2, ecc=None), gpu(3, ecc=-1))
    assert detect(fine, detectors=ILL) == ()
    assert detect(seen(gpus=None), detectors=ILL) == ()
    found = only(after_silence(snapshot(hosts={"node1": host(Gpu(3, fault="lost"))}), 300, detectors=ILL), "gpu-lost")
    assert found.seen == NOW
    assert found.text.endswith(", as of 5m00s ago")


def test_short_heat_is_no_finding_and_a_short_pause_does_not_end_it():
    hot, cool = seen(gpu(0, slowed=("thermal",))), seen(gpu(0, slowed=()))
    assert detect(hot, 50, detectors=ILL) == ()
    judge = FindingTracker(Limits(), ILL)
    reported = [codes(judge(later(hot if second % 20 else cool, second)).findings) for second in range(0, 200, 5)]
    assert reported[10] == set()
    assert reported[20:] == [{"gpu-slowed"}] * 20
    ended = [judge(later(cool, 200 + second)).findings for second in range(0, 80, 5)]
    assert ended[0][0].text == "A GPU of node1 was throttled within the last 1m00s"
    assert ended[-1] == ()
    (found,) = FindingTracker(Limits(), ILL, assumed=60.0)(seen(gpu(0, slowed=("thermal",)))).findings
    assert (found.code, found.level) == ("gpu-slowed", "info")


@dataclass
class Raylet:
    """A node and its host."""

    promised: float | None = 8
    there: int = 8
    visible: str | None = None
    head: bool = False
    is_readable: bool = True
    """Whether the probe may read the raylet's environment."""

    def node(self, number: int = 1, **more: Any) -> Node:
        gpus = tuple(gpu(index, uuid=f"GPU-{number}-{index}") for index in range(self.there))
        resources = {"CPU": Quantity(0, 8), **({} if self.promised is None else {"GPU": Quantity(0, self.promised)})}
        return node(number, **{"gpus": gpus, "resources": resources, "head": self.head, "probed": True, **more})

    def seen(self, **more: Any) -> Snapshot:
        rays = (RayProcess("raylet", 5, node=ID, visible=self.visible, files=100 if self.is_readable else None),)
        facts = {"nodes": (self.node(),), "actors": (), "placement_groups": (), "hosts": {"node1": host(gpu(0), rays=rays)}}
        return snapshot(**{**facts, **more})


@pytest.mark.parametrize(
    "raylet",
    [
        Raylet(),
        Raylet(4, 8, "0,1,2,3"),
        Raylet(2, 8, "GPU-1-0,GPU-1-5"),
        Raylet(0, 8, ""),
        Raylet(None, 8, head=True),
        Raylet(None, 0),
        Raylet(float("nan"), 8),
        Raylet(8, 8, "0,1,2,3,4,5,6,7"),
    ],
)
def test_equal_or_chosen_gpu_counts_are_fine(raylet: Raylet):
    assert detect(raylet.seen(), detectors=COUNTS) == ()


def test_only_a_probe_sees_how_many_gpus_slurm_gave():
    unseen = Raylet(2, 8).seen(hosts={}, nodes=(Raylet(2, 8).node(probed=False),))
    assert codes(detect(unseen, detectors=COUNTS)) == {"gpu-unused"}
    assert detect(replace(unseen, allocation=Allocation("42", "RUNNING", None, ())), detectors=COUNTS) == ()


def test_more_gpus_than_exist_or_are_visible_is_a_warning():
    found = only(detect(Raylet(8, 7).seen(), detectors=COUNTS), "gpu-count")
    assert (found.level, found.subject) == ("warning", "node1")
    assert found.text == "Ray offers 8 GPUs on node1, but NVML sees 7: work placed there can fail for lack of a GPU"
    assert found.evidence == ("Ray: 8 GPUs (`ray status -v`)", "`nvidia-smi -L`: 7 GPUs")
    assert found.remedy.text.endswith("if not, restart Ray on node1 with `--num-gpus=7`, and without RAY_OVERRIDE_RESOURCES")
    assert detect(Raylet(8, 7).seen(), 20, detectors=COUNTS) == ()
    found = only(detect(Raylet(8, 8, "0,1").seen(), detectors=COUNTS), "gpu-count")
    assert "but its raylet can use only 2" in found.text
    assert found.evidence[-1] == "CUDA_VISIBLE_DEVICES=0,1 in /proc/PID/environ of its raylet"
    assert "restart Ray on node1 with `--num-gpus=2` and `CUDA_VISIBLE_DEVICES=0,1` before it" in found.remedy.text


def test_fewer_gpus_is_an_info_and_a_warning_while_work_waits_for_gpus():
    few = Raylet(4, 8)
    found = only(detect(few.seen(), detectors=COUNTS), "gpu-unused")
    assert (found.level, found.text) == ("info", "Ray offers only 4 GPUs of the 8 usable on node1")
    assert found.remedy.text == "if Ray may use the others: restart Ray on node1 with `--num-gpus=8`"
    waiting = actor(9, state="PENDING_CREATION", node=None, needs={"GPU": 1.0}, wait="held", since=NOW - 200)
    found = only(detect(few.seen(actors=(waiting,)), detectors=COUNTS), "gpu-unused")
    assert (found.level, found.text) == (
        "warning",
        "Ray offers only 4 GPUs of the 8 usable on node1, while 1 actor or placement group waits for GPUs",
    )
    never = replace(waiting, wait="label")
    assert only(detect(few.seen(actors=(never,)), detectors=COUNTS), "gpu-unused").level == "info"
    starts = replace(waiting, since=NOW - 20)
    assert only(detect(few.seen(actors=(starts,)), detectors=COUNTS), "gpu-unused").level == "info", (
        "starting work always waits for a while"
    )


def test_a_remedy_requests_no_more_gpus_than_cuda_visible_devices_names():
    """Ray refuses to start with more: `Attempting to start raylet with 8 GPU, but CUDA_VISIBLE_DEVICES contains …`."""
    known = only(detect(Raylet(2, 8, "1,2,4,5").seen(), detectors=COUNTS), "gpu-unused")
    assert known.text == "Ray offers only 2 GPUs of the 4 usable on node1"
    assert known.remedy.text == (
        "if Ray may use the others: restart Ray on node1 with `--num-gpus=4` and `CUDA_VISIBLE_DEVICES=1,2,4,5` before it"
    )
    unknown = only(detect(Raylet(4, 8, is_readable=False).seen(), detectors=COUNTS), "gpu-unused")
    assert unknown.text == "Ray offers only 4 GPUs of the 8 on node1"
    assert unknown.remedy.text == (
        "if Ray may use the others: restart Ray on node1 with `--num-gpus=8`, from a shell in which you ran "
        "`unset CUDA_VISIBLE_DEVICES`: it may name fewer, and Ray then refuses to start"
    )


UUIDS = ",".join(f"GPU-{number:036}" for number in range(4))


@pytest.mark.parametrize(
    ("visible", "words"),
    [
        ("0,$(reboot)", "`CUDA_VISIBLE_DEVICES='0,$(reboot)'` before it"),
        (UUIDS, f"`CUDA_VISIBLE_DEVICES={UUIDS}` before it"),
        ("0,`reboot`", "a CUDA_VISIBLE_DEVICES that names as many before it"),
    ],
)
def test_a_raylets_devices_are_printed_complete_and_quoted_or_not_printed(visible, words):
    found = detect(Raylet(8, 8, visible).seen(), detectors=COUNTS)
    assert only(found, "gpu-count").remedy.text.endswith(f" and {words}, and without RAY_OVERRIDE_RESOURCES")


def test_without_a_probe_rays_agent_is_quoted_and_may_see_no_gpu():
    def find(there: tuple[Gpu, ...] | None, others: tuple[Gpu, ...] | None) -> tuple[Finding, ...]:
        nodes = (Raylet().node(probed=False, gpus=there, seen=NOW), node(2, gpus=others, resources={}))
        return detect(snapshot(nodes=nodes, hosts={}, actors=(), placement_groups=()), detectors=COUNTS)

    found = only(find((gpu(0), gpu(1)), (gpu(0),)), "gpu-count")
    assert "but Ray's agent there reports 2 (it stops at the first GPU that NVML can't reach)" in found.text
    assert found.evidence[1] == "Ray's agent there (/nodes?view=summary): 2 GPUs"
    assert "but Ray's agent there reports none" in only(find(None, (gpu(0),)), "gpu-count").text
    assert find(None, None) == ()


def test_a_raylet_with_nonexistent_gpus():
    found = only(detect(Raylet(2, 8, "6,9").seen(), detectors=COUNTS), "gpu-visible")
    assert found.text == "The raylet of node1 was given GPUs that do not exist: CUDA_VISIBLE_DEVICES names 9"
    assert found.remedy.text == (
        "restart Ray on node1 with `--num-gpus=1` and `CUDA_VISIBLE_DEVICES=6` before it, or with others that `nvidia-smi -L` lists"
    )
    none_is_there = only(detect(Raylet(1, 8, "9").seen(), detectors=COUNTS), "gpu-visible")
    assert none_is_there.remedy.text == "restart Ray on node1, from a shell in which you ran `unset CUDA_VISIBLE_DEVICES`"
    assert codes(detect(Raylet(2, 8, "GPU-1-0,GPU-7-0").seen(), detectors=COUNTS)) == {"gpu-visible"}


MIG = tuple(Gpu(index, uuid=f"MIG-{index}") for index in range(1000, 1007))


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param((Raylet(1).node(gpus=MIG),), id="one MIG device"),
        pytest.param((Raylet(7).node(gpus=MIG),), id="all MIG devices"),
        pytest.param(tuple(replace(Raylet(4).node(), id=f"{number:056x}") for number in (1, 2)), id="two raylets on a host"),
        pytest.param((Raylet(8, 7).node(state="DEAD"), node(2, gpus=None, ip="10.0.0.2")), id="a dead node and one without facts"),
    ],
)
def test_unknown_or_differently_counted_gpus_are_not_compared(nodes):
    assert detect(snapshot(nodes=nodes, hosts={}), detectors=COUNTS) == ()
