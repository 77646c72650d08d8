"""Power limits below the default and clocks far below the others' are found; idle GPUs and GPUs at their power limit are not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.gpu_speed import low_clocks, lowered_power
from cockpit.model import Finding, Gpu, Host, Snapshot
from tests.findings.detection import detect, only
from tests.world import NOW, gpu, node, snapshot

CLOCKS = (lowered_power, low_clocks)


def clocked(index: int, clock: int | None = 1980, **more: Any) -> Gpu:
    return gpu(
        index, **{"utilization": 95.0, "power": 400.0, "power_default": 700.0, "clock": clock, "clock_reasons": 0, "slowed": (), **more}
    )


def world(*gpus: Gpu, at: float = 0.0) -> Snapshot:
    host = Host("node1", ("10.0.0.1",), NOW + at, gpus=gpus, nodes=(f"{1:056x}",))
    return snapshot(taken=NOW + at, nodes=(node(1, gpus=gpus, seen=NOW + at),), hosts={"node1": host}, faults=())


def watched(minutes: float, *gpus: Gpu) -> tuple[Finding, ...]:
    judge, reported = FindingTracker(Limits(), CLOCKS), snapshot()
    for at in range(0, int(60 * minutes) + 1, 10):
        reported = judge(world(*gpus, at=at))
    return reported.findings


FAST = tuple(clocked(index) for index in range(7))


def test_a_clock_far_below_the_others_is_reported_with_its_cause():
    reported = only(watched(8, *FAST, clocked(7, 1200, clock_reasons=0x2)), "gpu-clock-low")
    assert reported.text == (
        "GPU 7 of node1 has run at 1200 MHz for 6m00s, other GPUs of this model at 1980 MHz: a job is as slow as its slowest GPU"
    )
    assert reported.evidence == (
        "GPU 7: 1200 MHz on average, 400 of 700 W; throttle reason: locked clocks (`nvidia-smi -q -d CLOCK,PERFORMANCE`)",
    )
    assert reported.about == (f"{node(1).key}:7",)
    assert watched(6, *FAST, clocked(7, 1200)) == ()


@pytest.mark.parametrize(
    "other",
    [
        clocked(7, 1500), clocked(7, None), clocked(7, 345, utilization=0.0), clocked(7, 1200, power=690.0), clocked(7, 1200, power=None),
        clocked(7, 1200, slowed=("thermal",)), clocked(7, 1200, name="NVIDIA A100-SXM4-80GB"), clocked(7, 1200, power_limit=None),
        clocked(7, -5), clocked(7, 10**9),
    ],
)  # fmt: skip
def test_clocks_that_are_near_idle_power_limited_or_explained_elsewhere_are_not_reported(other):
    assert watched(12, *FAST, other) == ()


def test_no_clocks_are_compared_if_half_are_slow_in_one_sample_or_on_an_unknown_host():
    assert watched(12, *FAST[:3], *(clocked(index, 1200) for index in range(3, 8))) == ()
    assert FindingTracker(Limits(), CLOCKS, assumed=60.0)(world(*FAST, clocked(7, 1200))).findings == ()
    seen = world(*FAST)
    assert detect(replace(seen, hosts={"node1": replace(seen.hosts["node1"], gpus=None)}), 60, detectors=CLOCKS) == ()


def test_a_unique_power_limit_is_a_warning_and_a_common_one_an_info():
    reported = only(detect(world(*FAST, clocked(7, power_limit=500.0)), 0, detectors=CLOCKS), "gpu-power-capped")
    assert (reported.level, reported.subject) == ("warning", "node1")
    assert reported.text == (
        "GPU 7 of node1 has a power limit below its default; other GPUs of this model have a higher one, "
        "and a job is as slow as its slowest GPU"
    )
    assert reported.evidence == ("GPU 7: 500 W, by default 700 W (`nvidia-smi -q -d POWER`)",)
    reported = only(detect(world(*(clocked(index, power_limit=500.0) for index in range(8))), 0, detectors=CLOCKS), "gpu-power-capped")
    assert (reported.level, reported.text) == ("info", "GPUs 0, 1, 2, 3, 4, 5, 6, 7 of node1 have power limits below their default")


@pytest.mark.parametrize(
    "more",
    [
        {"power_default": None},
        {"power_limit": None},
        {"power_limit": 690.0},
        {"power_limit": 0.0},
        {"power_limit": 900.0},
        {"power_default": 1e9},
    ],
)
def test_other_limits_are_not_reported(more):
    assert detect(world(clocked(0, **more)), 0, detectors=CLOCKS) == ()
