"""The recent past of GPUs: loads are averages of what was known for long enough, and growth is what no peak before it had."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.findings.gpu_history import MAX_GAP_S, GpuHistory, find_growth
from cockpit.model import AgentReport, Hold, Node, Snapshot
from tests.world import NOW, gpu, node, process, snapshot

KEY = node(1).key


def world(at: float, **facts: Any) -> Snapshot:
    return snapshot(taken=NOW + at, nodes=(node(1, gpus=(gpu(0, **facts),), seen=NOW + at),), processes=())


def fed(*facts: dict[str, Any], every: float = 10.0) -> GpuHistory:
    history = GpuHistory()
    for step, each in enumerate(facts):
        history.record(world(step * every, **each))
    return history


def busy(percent: float | None, watts: float | None = 400.0, clock: int | None = 1980) -> dict[str, Any]:
    return {"utilization": percent, "power": watts, "clock": clock}


def test_a_load_is_known_after_two_minutes():
    steady = [busy(80.0)] * 13
    assert fed(*steady[:-1]).load(KEY, 0) is None
    assert fed(*steady).load(KEY, 0) == (80.0, 400.0, 1980.0)
    assert fed(*steady).load(KEY, 1) is None
    assert fed(*steady).load("node:other", 0) is None


def test_a_load_follows_slowly():
    load = fed(*[busy(100.0)] * 20, *[busy(0.0)] * 12).load(KEY, 0)
    assert load is not None
    assert 30 < (load[0] or 0) < 45, "two minutes later a third of it is left"


@given(st.lists(st.floats(0, 100), min_size=13, max_size=40))
def test_an_average_lies_between_the_least_and_the_most(percents):
    load = fed(*(busy(percent) for percent in percents)).load(KEY, 0)
    assert load is not None
    assert min(percents) - 1e-6 <= (load[0] or 0) <= max(percents) + 1e-6


def test_who_takes_a_free_gpu_begins_a_load_of_his_own():
    history, held = fed(*[busy(0.0)] * 20), (process(7, gpus=(Hold(0, 1),)),)
    for step in range(20, 35):
        history.record(replace(world(10.0 * step, **busy(90.0)), processes=held))
    assert history.load(KEY, 0) == (90.0, 400.0, 1980.0)


def test_a_silence_and_what_is_not_told_begin_anew():
    history = fed(*[busy(80.0)] * 20)
    history.record(world(200 + MAX_GAP_S + 1, **busy(80.0)))
    assert history.load(KEY, 0) is None
    assert fed(*[busy(80.0)] * 20, busy(None), *[busy(80.0)] * 3).load(KEY, 0) is None


def test_a_load_of_long_ago_is_not_known():
    history = fed(*[busy(80.0)] * 20)
    history.record(snapshot(taken=NOW + 190 + MAX_GAP_S + 1, nodes=(), processes=()))
    assert history.load(KEY, 0) is None


def test_what_can_not_be_is_not_known():
    assert fed(*[busy(80.0, -5.0, 10**9)] * 20).load(KEY, 0) == (80.0, None, None)


def test_nodes_that_are_gone_are_forgotten():
    history = GpuHistory()
    for number in range(1, 300):
        history.record(snapshot(taken=NOW, nodes=(Node(str(number), "w", agent=AgentReport(gpus=(gpu(0),), seen=NOW)),), processes=()))
    assert len(history._pasts) < 150


@pytest.mark.parametrize(
    ("peaks", "grows"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], True),
        ([None, None, None, 4, 5, 6, 7, 8, 9], True),
        ([None, None, None, None, 5, 6, 7, 8, 9], False),
        ([1, 1, 1, 1, 1, 1, 9, 9, 9], False),
        ([1, 5, 7, 8, 8.5, 8.8, 8.9, 8.95, 9], False),
        ([9, 1, 2, 3, 4, 5, 6, 7, 8, 9], False),
        ([3, 1, 2, 3, 4, 5, 6, 7, 8, 9], True),
        ([1, 2, 3, 4, 5, 6, 7, 8, None], False),
        ([9, 8, 7, 6, 5, 4, 3, 2, 1], False),
        ([1, 1, 2, 2, 3, 3, 4, 4, 5], True),
    ],
)
def test_growth_is_steady_goes_on_and_leads_beyond_what_was(peaks, grows):
    found = find_growth([None] * 20 + peaks, 400.0)
    assert (found is not None) == grows
