"""GPU memory that grows until it is full is predicted; memory that is taken once, returns or stops growing is not."""

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
from tests.findings.detection import HeardAgain, only
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
    judge, told = HeardAgain(limits or Limits(), GROWING), snapshot()
    for step in range(int(minutes * MINUTE / EVERY) + 1):
        at = step * EVERY
        told = judge(world(at, *(curve(at) for curve in curves), **more))
        assert told.faults == ()
    return told.findings


def line(start: float, an_hour: float) -> Curve:
    return lambda at: min(80.0, start + an_hour * at / HOUR)


def test_memory_that_creeps_is_told_with_the_figures_and_who_holds_it():
    told = only(watched(62, line(62, 12)), "gpu-memory-grows")
    assert (told.level, told.subject) == ("warning", "job train1")
    assert told.text == (
        "GPU memory of job train1 grows and will be full in ~29 min: GPU 0 of node1 with 74G of 80G in use, +12G/h for 53m20s"
    )
    assert told.evidence == ("node1 GPU 0: peak 64G 53m20s ago, peak 74G now (`nvidia-smi`); held by pid 100 actor1 59G",)
    assert told.about == (JOB.key, f"{node(1).key}:0", rank(0).key)
    assert told.remedy.action == "stop-job"
    assert "torch.cuda.memory_allocated()" in told.remedy.text


def test_several_gpus_of_a_job_are_one_finding_and_without_a_job_the_node_is_named():
    told = only(watched(62, line(60, 12), line(64, 12), line(20, 0)), "gpu-memory-grows")
    assert "2 GPUs, first of them GPU 1 of node1 with 76G" in told.text
    assert len(told.evidence) == 2
    told = only(watched(62, line(62, 12), holders=(rank(0, job=None, actor=None, kind="foreign"),)), "gpu-memory-grows")
    assert (told.subject, told.remedy.action) == ("node1", None)
    assert told.text.startswith("GPU memory of node1 grows")


def test_it_is_told_once_enough_was_watched_and_only_if_it_is_full_soon_and_somebody_uses_it():
    assert HeardAgain(Limits(), GROWING, assumed=60.0)(world(0, 79.0)).findings == (), "a single look"
    assert watched(38, line(62, 20)) == ()
    assert watched(48, line(62, 20)) != ()
    assert watched(62, line(50, 12)) == (), "beyond the horizon"
    assert watched(62, line(62, 12), holders=()) == ()
    assert watched(62, line(62, 12), holders=(rank(0, kind="orphan"),)) == ()


def test_what_was_told_stays_told_while_the_growth_is_half_as_steep():
    judge = HeardAgain(Limits(), GROWING)
    slower = [judge(world(at, 62 + 12 * min(at, 3700) / HOUR + 3 * max(0, at - 3700) / HOUR)) for at in range(0, 6000, 20)]
    assert slower[3720 // 20].findings != ()
    assert slower[4400 // 20].findings != ()
    assert slower[-1].findings == (), "it has come to rest"


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
def test_other_ways_to_fill_a_gpu_are_not_told(why, curve):
    judge = HeardAgain(Limits(), GROWING)
    told = [judge(world(at, curve(at))).findings for at in range(0, 7300, 20)]
    assert not any(told), why


def test_a_tooth_that_is_longer_than_the_window_is_not_told_once_it_has_returned():
    def tooth(at: float) -> float:
        return 30 + 45 * (at % 6000) / 6000

    judge = HeardAgain(Limits(), GROWING)
    told = [judge(world(at, tooth(at))).findings for at in range(0, 12000, 20)]
    assert not any(told[6500 // 20 :])


def test_creeping_peaks_of_engines_that_sleep_are_told():
    def creeping(at: float) -> float:
        return 62 + 12 * at / HOUR if at % 300 < 150 else 12.0

    assert watched(62, creeping) != ()


def test_other_processes_begin_anew_and_are_told_before_they_are_as_full_as_the_last_ones_were():
    judge = HeardAgain(Limits(), GROWING)
    for at in range(0, 9000, 20):
        used, holder = (70.0, rank(0)) if at < 3000 else (min(60.0, (at - 3000) / 20), rank(0, pid=900, ticks=9000))
        assert judge(world(at, used, holders=(holder,))).findings == ()
    judge = HeardAgain(Limits(), GROWING)
    found = ()
    for at in range(0, 6800, 20):
        used, holder = (79.5, rank(0)) if at < 3000 else (62 + 12 * (at - 3000) / HOUR, rank(0, pid=900, ticks=9000))
        found = judge(world(at, used, holders=(holder,))).findings
    assert only(found, "gpu-memory-grows")


def test_a_silence_is_no_rest_and_no_growth_and_old_facts_are_not_new_ones():
    judge = HeardAgain(Limits(), GROWING)
    told = ()
    for at in [*range(0, 1600, 20), *range(2400, 3720, 20)]:
        told = judge(world(at, 62 + 12 * at / HOUR)).findings
    assert only(told, "gpu-memory-grows")
    judge, told = HeardAgain(Limits(), GROWING), snapshot()
    for at in range(0, 3720, 20):
        seen = world(at, 62 + 12 * at / HOUR)
        told = judge(replace(seen, nodes=tuple(with_figures(one, seen=NOW - 100) for one in seen.nodes)))
    assert told.findings == ()


@given(st.lists(st.floats(0, 80), min_size=20, max_size=60))
def test_only_what_has_never_been_higher_is_told(amounts):
    judge = HeardAgain(Limits(gpu_memory_watched=90), GROWING)
    highest = 0.0
    for number, amount in enumerate(amounts):
        told = judge(world(number * 10.0, amount)).findings
        newest = max(amounts[: number + 1])
        if told:
            assert newest >= highest, "nothing that only returns"
            assert max(amounts[max(0, number - 3) : number + 1]) >= 0.5 * 80
        highest = max(highest, newest)
