"""GPU memory that grows until it is full is predicted; memory taken once, returned or stable is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.gpu_memory_growth import growing_gpu_memory
from cockpit.model import Finding, Hold, Job, Process, Snapshot
from tests.findings.detection import FreshTracker, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot, with_figures

GROWING = (growing_gpu_memory,)
JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 90000)
MINUTE = 60.0
EVERY = 20.0
HOUR = 3600.0
Curve = Callable[[float], float | None]
"""Gibibytes in use, as a function of the seconds watched."""


def rank(index: int, **more: Any) -> Process:
    facts = {"gpus": (Hold(index, 59 * GIB),), "job": "02000000", "actor": f"{1:032x}", **more}
    return process(facts.pop("pid", 100 + index), **facts)


def world(at: float, *used: float | None, holders: tuple[Process, ...] | None = None, **more: Any) -> Snapshot:
    made = tuple(
        gpu(index, 0, memory_used=None if amount is None else int(amount * GIB), uuid=f"GPU-{index}") for index, amount in enumerate(used)
    )
    held = tuple(rank(index) for index in range(len(used))) if holders is None else holders
    facts = {
        "nodes": (node(1, gpus=made, seen=NOW + at, probed=True),),
        "processes": held,
        "hosts": {},
        "jobs": (JOB,),
        "actors": (actor(1),),
        "faults": (),
    }
    return snapshot(taken=NOW + at, **{**facts, **more})


def watched(minutes: float, *curves: Curve, limits: Limits | None = None, **more: Any) -> tuple[Finding, ...]:
    """The findings at the end of that time."""
    judge, reported = FreshTracker(limits or Limits(), GROWING), snapshot()
    for step in range(int(minutes * MINUTE / EVERY) + 1):
        at = step * EVERY
        reported = judge(world(at, *(curve(at) for curve in curves), **more))
        assert reported.faults == ()
    return reported.findings


def line(start: float, an_hour: float) -> Curve:
    return lambda at: min(80.0, start + an_hour * at / HOUR)


def test_growing_memory_is_reported_with_figures_and_holders():
    reported = only(watched(62, line(62, 12)), "gpu-memory-grows")
    assert (reported.level, reported.subject) == ("warning", "job train1")
    assert reported.text == (
        "GPU memory of job train1 grows and will be full in ~29 min: GPU 0 of node1 with 74G of 80G in use, +12G/h for 53m20s"
    )
    assert reported.evidence == ("node1 GPU 0: peak 64G 53m20s ago, peak 74G now (`nvidia-smi`); held by pid 100 actor1 59G",)
    assert reported.about == (JOB.key, f"{node(1).key}:0", rank(0).key)
    assert reported.remedy.action == "stop-job"
    assert "torch.cuda.memory_allocated()" in reported.remedy.text


def test_several_gpus_of_a_job_are_one_finding_and_without_a_job_the_node_is_named():
    reported = only(watched(62, line(60, 12), line(64, 12), line(20, 0)), "gpu-memory-grows")
    assert "2 GPUs, first of them GPU 1 of node1 with 76G" in reported.text
    assert len(reported.evidence) == 2
    reported = only(watched(62, line(62, 12), holders=(rank(0, job=None, actor=None, kind="foreign"),)), "gpu-memory-grows")
    assert (reported.subject, reported.remedy.action) == ("node1", None)
    assert reported.text.startswith("GPU memory of node1 grows")


def test_it_needs_enough_samples_a_near_limit_and_a_holder():
    assert FreshTracker(Limits(), GROWING, assumed=60.0)(world(0, 79.0)).findings == (), "a single look"
    assert watched(38, line(62, 20)) == ()
    assert watched(48, line(62, 20)) != ()
    assert watched(62, line(50, 12)) == (), "beyond the horizon"
    assert watched(62, line(62, 12), holders=()) == ()
    assert watched(62, line(62, 12), holders=(rank(0, kind="orphan"),)) == ()


def test_it_lasts_until_the_growth_is_half_as_steep():
    judge = FreshTracker(Limits(), GROWING)
    slower = [judge(world(at, 62 + 12 * min(at, 3700) / HOUR + 3 * max(0, at - 3700) / HOUR)) for at in range(0, 6000, 20)]
    assert slower[3720 // 20].findings != ()
    assert slower[4400 // 20].findings != ()
    assert slower[-1].findings == (), "it has stopped growing"


@pytest.mark.parametrize(
    ("why", "curve"),
    [
        ("vLLM's pool", lambda at: 72.0 + (at // 60 % 2) * 0.2),
        ("a pool that is taken after a while", lambda at: 5.0 if at < 20 * MINUTE else 72.0),
        ("a load in four steps, then rest", lambda at: 74.0 if at > 24 * MINUTE else 20.0 + 18 * (at // (8 * MINUTE))),
        ("a load of 20 minutes", lambda at: min(76.0, 76.0 * at / (20 * MINUTE))),
        ("engines that sleep and wake", lambda at: 75.0 if at % 300 < 150 else 12.0),
        ("a sawtooth of 15 minutes", lambda at: 40 + 35 * (at % (15 * MINUTE)) / (15 * MINUTE)),
        ("a sawtooth of 30 minutes", lambda at: 40 + 35 * (at % (30 * MINUTE)) / (30 * MINUTE)),
        ("a cache that comes to rest", lambda at: 76.0 - 30.0 / (1 + at / 400)),
        ("a little", line(78.5, 1.2)),
        ("memory that is given back", line(78, -12)),
        ("unknown", lambda _: None),
        ("beyond all there is", lambda at: 90.0 + at / 1000),
    ],
)
def test_other_ways_to_fill_a_gpu_are_not_reported(why, curve):
    judge = FreshTracker(Limits(), GROWING)
    reported = [judge(world(at, curve(at))).findings for at in range(0, 7300, 20)]
    assert not any(reported), why


def test_a_sawtooth_longer_than_the_window_is_not_reported_once_it_has_returned():
    def tooth(at: float) -> float:
        return 30 + 45 * (at % 6000) / 6000

    judge = FreshTracker(Limits(), GROWING)
    reported = [judge(world(at, tooth(at))).findings for at in range(0, 12000, 20)]
    assert not any(reported[6500 // 20 :])


def test_growing_peaks_of_sleeping_engines_are_reported():
    def creeping(at: float) -> float:
        return 62 + 12 * at / HOUR if at % 300 < 150 else 12.0

    assert watched(62, creeping) != ()


def test_new_processes_start_again_and_are_reported_at_a_lower_level():
    judge = FreshTracker(Limits(), GROWING)
    for at in range(0, 9000, 20):
        used, holder = (70.0, rank(0)) if at < 3000 else (min(60.0, (at - 3000) / 20), rank(0, pid=900, ticks=9000))
        assert judge(world(at, used, holders=(holder,))).findings == ()
    judge = FreshTracker(Limits(), GROWING)
    found = ()
    for at in range(0, 6800, 20):
        used, holder = (79.5, rank(0)) if at < 3000 else (62 + 12 * (at - 3000) / HOUR, rank(0, pid=900, ticks=9000))
        found = judge(world(at, used, holders=(holder,))).findings
    assert only(found, "gpu-memory-grows")


def test_a_silence_is_neither_rest_nor_growth_and_old_facts_are_not_new():
    judge = FreshTracker(Limits(), GROWING)
    reported = ()
    for at in [*range(0, 1600, 20), *range(2400, 3720, 20)]:
        reported = judge(world(at, 62 + 12 * at / HOUR)).findings
    assert only(reported, "gpu-memory-grows")
    judge, reported = FreshTracker(Limits(), GROWING), snapshot()
    for at in range(0, 3720, 20):
        seen = world(at, 62 + 12 * at / HOUR)
        reported = judge(replace(seen, nodes=tuple(with_figures(one, seen=NOW - 100) for one in seen.nodes)))
    assert reported.findings == ()


@given(st.lists(st.floats(0, 80), min_size=20, max_size=60))
def test_only_a_new_maximum_is_reported(amounts):
    judge = FreshTracker(Limits(gpu_memory_watched=90), GROWING)
    highest = 0.0
    for number, amount in enumerate(amounts):
        reported = judge(world(number * 10.0, amount)).findings
        newest = max(amounts[: number + 1])
        if reported:
            assert newest >= highest, "nothing that only returns"
            assert max(amounts[max(0, number - 3) : number + 1]) >= 0.5 * 80
        highest = max(highest, newest)
