"""A rank slower than its group is reported; other roles, natural imbalance, phases and waiting are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.findings import Limits
from cockpit.findings.slow_ranks import lagging_gpus
from cockpit.model import Finding, Hold, Job, Snapshot
from tests.findings.detection import FreshTracker, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

LAGGING = (lagging_gpus,)
JOB = Job("train1", "02000000", "train1", "RUNNING", started=NOW - 9000)
Load = tuple[float | None, float | None]
WORKS, LAGS, SPINS, RESTS = (97.0, 560.0), (31.0, 210.0), (100.0, 130.0), (0.0, 75.0)
At = Callable[[float], Load]


def rank(number: int, class_: str = "WorkerDict", name: str = "pool_WorkerDict_0:", **more: Any) -> Any:
    return actor(number, class_=class_, name=f"{name}{number}", **more)


def world(at: float, *loads: Load, actors: tuple[Any, ...] | None = None, **more: Any) -> Snapshot:
    """One actor on each GPU."""
    gpus = tuple(gpu(index, 60, utilization=busy, power=watts, uuid=f"GPU-{index}") for index, (busy, watts) in enumerate(loads))
    held = actors if actors is not None else tuple(rank(index) for index in range(len(loads)))
    facts = {
        "nodes": (node(1, gpus=gpus, seen=NOW + at),),
        "actors": held,
        "processes": tuple(
            process(100 + index, gpus=(Hold(index, 50 * GIB),), actor=one.id, job="02000000") for index, one in enumerate(held)
        ),
        "jobs": (JOB,),
        "hosts": {},
        "faults": (),
    }
    return snapshot(taken=NOW + at, **{**facts, **more})


def watched(minutes: float, *loads: Load | At, **more: Any) -> tuple[Finding, ...]:
    judge, reported = FreshTracker(Limits(), LAGGING), snapshot()
    for at in range(0, int(minutes * 60) + 1, 10):
        reported = judge(world(at, *(load(at) if callable(load) else load for load in loads), **more))
        assert reported.faults == ()
    return reported.findings


def test_a_rank_that_is_slow_for_minutes_is_reported_with_all_figures():
    reported = only(watched(15, *[WORKS] * 3, LAGS, *[WORKS] * 4), "gpu-lags")
    assert (reported.level, reported.subject) == ("warning", "node1 GPU 3")
    assert reported.text == (
        "GPU 3 of node1 lags behind the other 7 GPUs of WorkerDict of job train1: 31% busy with 210 W on average, "
        "the others 97% busy with 560 W, for 13m00s"
    )
    assert reported.evidence == (
        "node1 GPU 3: 31% busy with 210 W, pid 103 pool_WorkerDict_0:3 (`nvidia-smi dmon -s pu`)",
        "node1 GPU 0, 1, 2, 4, 5, 6, 7: 97% busy with 560 W",
    )
    assert reported.about[:2] == (f"{node(1).key}:3", "process:node1:103:1030")
    assert JOB.key in reported.about


def test_it_is_reported_after_ten_minutes():
    assert watched(11, *[WORKS] * 7, LAGS) == ()
    assert watched(13, *[WORKS] * 7, LAGS) != ()
    assert FreshTracker(Limits(), LAGGING, assumed=60.0)(world(0, *[WORKS] * 7, LAGS)).findings == (), "a single look"


def test_ranks_with_common_phases_are_compared_by_their_average():
    def phases(at: float) -> Load:
        return WORKS if at % 60 < 50 else RESTS

    def lags(at: float) -> Load:
        return WORKS if at % 60 < 20 else RESTS

    assert only(watched(20, *[phases] * 7, lags), "gpu-lags").subject == "node1 GPU 7"
    assert watched(20, *[phases] * 8) == ()


def test_other_holders_of_the_gpu_are_named():
    strange = process(900, kind="foreign", gpus=(Hold(1, 5 * GIB),), name="finetune")
    ranks = tuple(process(100 + index, gpus=(Hold(index, 50 * GIB),), actor=rank(index).id, job="02000000") for index in range(4))
    reported = only(watched(15, WORKS, LAGS, WORKS, WORKS, processes=(*ranks, strange)), "gpu-lags")
    assert reported.evidence[-1] == "also held by 1 other process: pid 900 (foreign) finetune"


ENGINES = tuple(
    rank(number, "LLMRayActor" if number > 3 else "PolicyModelActor", "engine" if number > 3 else "actor") for number in range(8)
)


@pytest.mark.parametrize(
    ("why", "loads", "more"),
    [
        ("engines beside actors", [*[WORKS] * 4, *[LAGS] * 4], {"actors": ENGINES}),
        ("one engine beside actors", [*[WORKS] * 7, LAGS], {"actors": (*(rank(number) for number in range(7)), ENGINES[7])}),
        ("two of eight", [*[WORKS] * 6, LAGS, LAGS], {}),
        ("a pipeline", [(95.0, 560.0), (80.0, 480.0), (60.0, 400.0), (40.0, 250.0)], {}),
        ("three ranks", [WORKS, WORKS, LAGS], {}),
        ("a rank that waits at 100 %", [*[WORKS] * 7, SPINS], {}),
        ("a little less", [*[WORKS] * 7, (70.0, 420.0)], {}),
        ("a rank that saves while the others wait", [*[SPINS] * 7, RESTS], {}),
        ("all have little to do", [*[(40.0, 300.0)] * 7, (5.0, 90.0)], {}),
        ("power that is not known", [*[(97.0, None)] * 7, (31.0, None)], {}),
        ("utilization that is not known", [*[WORKS] * 7, (None, 210.0)], {}),
        ("absurd figures", [*[WORKS] * 7, (float("nan"), -5.0)], {}),
        ("actors that have died", [*[WORKS] * 7, LAGS], {"actors": tuple(rank(number, state="DEAD") for number in range(8))}),
        ("nobody's processes", [*[WORKS] * 7, LAGS], {"processes": ()}),
        ("an actor with two GPUs", [*[WORKS] * 7, LAGS], {"actors": (*(rank(number) for number in range(7)), rank(6))}),
    ],
)
def test_natural_differences_are_not_reported(why, loads, more):
    assert watched(20, *loads, **more) == (), why


def test_gpus_of_different_models_are_not_compared():
    gpus = tuple(gpu(index, utilization=WORKS[0], power=WORKS[1]) for index in range(7))
    old = gpu(7, utilization=LAGS[0], power=LAGS[1], name="NVIDIA A100-SXM4-80GB")
    judge = FreshTracker(Limits(), LAGGING)
    for at in range(0, 1200, 10):
        seen = world(at, *[WORKS] * 7, LAGS, nodes=(node(1, gpus=(*gpus, old), seen=NOW + at),))
        assert judge(seen).findings == ()


def test_gpus_with_an_additional_engine_are_not_compared_with_others():
    engine = rank(20, "LLMRayActor", "engine")
    more = process(920, gpus=(Hold(3, 20 * GIB),), actor=engine.id, job="02000000")
    actors = (*(rank(number) for number in range(8)), engine)
    ranks = tuple(process(100 + index, gpus=(Hold(index, 50 * GIB),), actor=rank(index).id, job="02000000") for index in range(8))
    assert watched(20, *[WORKS] * 3, LAGS, *[WORKS] * 4, actors=actors, processes=(*ranks, more)) == ()


def test_a_rank_that_recovers_for_a_while_starts_again():
    def often(at: float) -> Load:
        return WORKS if at % 500 < 200 else LAGS

    assert watched(40, *[WORKS] * 7, often) == ()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(70, 100), st.floats(400, 700)), min_size=4, max_size=8))
def test_busy_ranks_are_never_reported(loads):
    judge = FreshTracker(Limits(gpu_lags_for=0), LAGGING)
    for at in range(0, 200, 10):
        assert judge(world(at, *loads)).findings == ()
