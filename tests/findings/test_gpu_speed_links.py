"""Links of GPUs that are down, slow or faulty are found; idle links, bridges and old counts are not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.gpu_speed import faulty_links
from cockpit.model import Finding, Gpu, GpuLinks, Host, Snapshot
from tests.findings.detection import codes, detect, only
from tests.world import NOW, gpu, node, snapshot

LINKS = (faulty_links,)
GOOD: dict[str, Any] = {
    "pcie_generation": 5, "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0,
    "nvlinks": 18, "nvlinks_active": 18, "nvlink_errors": 0,
}  # fmt: skip


def linked(index: int, *, used: float = 90.0, name: str = "NVIDIA H100 80GB HBM3", **more: Any) -> Gpu:
    return gpu(index, utilization=used, name=name, links=GpuLinks(**{**GOOD, **more}))


def world(*gpus: Gpu, **more: Any) -> Snapshot:
    host = Host("node1", ("10.0.0.1",), NOW, gpus=gpus, nodes=(f"{1:056x}",))
    return snapshot(**{"nodes": (node(1, gpus=gpus),), "hosts": {"node1": host}, "faults": (), **more})


def watched(minutes: float, *gpus: Gpu) -> tuple[Finding, ...]:
    return detect(world(*gpus), 60 * minutes, detectors=LINKS)


ALL_GOOD = tuple(linked(index) for index in range(8))


def with_one(**more: Any) -> tuple[Gpu, ...]:
    return (*ALL_GOOD[:3], linked(3, **more), *ALL_GOOD[4:])


@pytest.mark.parametrize(
    "active",
    [
        [18] * 8, [18, 18, 18, 18, 18, 18, 0, 0], [18, 18, 0, 0, 0, 0, 0, 0], [0] * 8, [18] * 4 + [16] * 4, [12] * 8, [18, 16],
        [None] * 3 + [18] * 5, [16] * 7 + [18],
    ],
)  # fmt: skip
def test_healthy_paired_or_half_different_links_are_not_reported(active):
    assert watched(20, *(linked(index, nvlinks_active=number) for index, number in enumerate(active))) == ()


def test_nvlinks_that_are_down_are_compared_with_gpus_of_that_model():
    reported = only(watched(3, *with_one(nvlinks_active=16)), "gpu-nvlink-down")
    assert (reported.level, reported.subject, reported.about) == ("warning", "node1", (f"{node(1).key}:3",))
    assert reported.text.startswith("GPU 3 of node1 has NVLinks that are down: ")
    assert reported.evidence == ("GPU 3: 16 of 18 NVLinks are active, 18 on most GPUs of this model (`nvidia-smi nvlink -s`)",)
    assert watched(1.5, *with_one(nvlinks_active=16)) == ()
    assert only(watched(3, *with_one(nvlinks_active=0)), "gpu-nvlink-down")
    others = tuple(linked(index, name="NVIDIA A100-SXM4-80GB", nvlinks_active=12) for index in range(4, 8))
    assert watched(5, *ALL_GOOD[:4], *others) == ()
    seen = world(*with_one(nvlinks_active=16))
    old = replace(seen, hosts={"node1": replace(seen.hosts["node1"], taken=NOW - 100)})
    assert detect(old, 600, detectors=LINKS) == ()


@pytest.mark.parametrize(
    ("slow", "line"),
    [
        ({"pcie_width": 8}, "PCIe width x8 of 16 under load"),
        ({"pcie_generation": 3}, "PCIe generation 3 of 5 under load"),
        ({"pcie_generation": 1, "pcie_width": 4}, "PCIe width x4 of 16 and generation 1 of 5 under load"),
    ],
)
def test_a_pcie_link_that_is_slow_under_load_is_reported(slow, line):
    reported = only(watched(6, *with_one(**slow)), "gpu-pcie-slow")
    assert line in reported.evidence[0]
    assert watched(4, *with_one(**slow)) == ()


@pytest.mark.parametrize(
    "more",
    [
        {"pcie_generation": 1, "used": 0.0}, {"pcie_generation": 1, "used": 45.0}, {"pcie_generation": 0}, {"pcie_width": None},
        {"pcie_width": 16, "pcie_width_max": None}, {"pcie_width": 16, "pcie_width_max": 8}, {"pcie_width": -1},
    ],
)  # fmt: skip
def test_idle_links_and_unknown_values_are_not_reported(more):
    assert watched(20, *with_one(**more)) == ()


def test_a_link_that_wakes_with_its_gpu_is_not_reported():
    judge = FindingTracker(Limits(), LINKS)
    for second in range(0, 1800, 10):
        asleep = second % 240 < 60
        seen = world(linked(0, pcie_generation=1 if second % 240 < 100 else 5, used=0.0 if asleep else 95.0), taken=NOW + second)
        seen = replace(seen, hosts={"node1": replace(seen.hosts["node1"], taken=NOW + second)})
        assert judge(seen).findings == ()


def counting(*counts: Any, name: str = "nvlink_errors", every: float = 60.0) -> list[tuple[Finding, ...]]:
    judge, reported = FindingTracker(Limits(), LINKS), []
    for minute, number in enumerate(counts):
        seen = world(linked(0, **{name: number}), linked(1), taken=NOW + minute * every)
        reported.append(judge(replace(seen, hosts={"node1": replace(seen.hosts["node1"], taken=NOW + minute * every)})).findings)
    return reported


def test_growing_errors_are_reported_and_old_ones_are_not():
    reported = counting(500, 500, 504, 509, 511)
    assert reported[:4] == [()] * 4
    found = only(reported[-1], "gpu-nvlink-errors")
    assert found.text == "GPU 0 of node1 has a growing number of NVLink errors: data is sent again, and all ranks wait for it"
    assert found.evidence == ("GPU 0: 11 more in the last 3m00s, 511 since its driver was loaded (`nvidia-smi nvlink -e`)",)


def test_pcie_replays_have_their_own_mark_and_must_grow():
    assert codes(counting(0, 79, name="pcie_replays")[-1]) == set()
    assert codes(counting(0, 80, name="pcie_replays")[-1]) == {"gpu-pcie-errors"}
    assert counting(0, 20, *[20] * 15)[-1] == (), "it stopped growing"
    assert not any(counting(None, None, 900, 900)), "it was unknown before"
    assert not any(counting(900, 900, 0, 3)), "it was reset"
    assert not any(counting(0, -5, 2**62))
