"""The recent past of GPUs: loads are averages over known figures, and growth exceeds all earlier peaks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cockpit.findings.gpu_history import MAX_GAP_S, GpuHistory
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


def test_a_load_is_known_after_two_minutes_and_changes_slowly():
    steady = [busy(80.0)] * 13
    assert fed(*steady[:-1]).load(KEY, 0) is None
    assert fed(*steady).load(KEY, 0) == (80.0, 400.0, 1980.0)
    assert fed(*steady).load(KEY, 1) is None
    assert fed(*steady).load("node:other", 0) is None
    load = fed(*[busy(100.0)] * 20, *[busy(0.0)] * 12).load(KEY, 0)
    assert load is not None
    assert 30 < (load[0] or 0) < 45, "two minutes later a third of it is left"


def test_a_new_user_of_a_free_gpu_starts_a_new_load():
    history, held = fed(*[busy(0.0)] * 20), (process(7, gpus=(Hold(0, 1),)),)
    for step in range(20, 35):
        history.record(replace(world(10.0 * step, **busy(90.0)), processes=held))
    assert history.load(KEY, 0) == (90.0, 400.0, 1980.0)


def test_a_silence_or_unknown_figure_restarts_a_load_and_an_absurd_figure_is_unknown():
    history = fed(*[busy(80.0)] * 20)
    history.record(world(200 + MAX_GAP_S + 1, **busy(80.0)))
    assert history.load(KEY, 0) is None
    assert fed(*[busy(80.0)] * 20, busy(None), *[busy(80.0)] * 3).load(KEY, 0) is None
    history = fed(*[busy(80.0)] * 20)
    history.record(snapshot(taken=NOW + 190 + MAX_GAP_S + 1, nodes=(), processes=()))
    assert history.load(KEY, 0) is None
    assert fed(*[busy(80.0, -5.0, 10**9)] * 20).load(KEY, 0) == (80.0, None, None)


def test_vanished_nodes_are_forgotten():
    history = GpuHistory()
    for number in range(1, 300):
        history.record(snapshot(taken=NOW, nodes=(Node(str(number), "w", agent=AgentReport(gpus=(gpu(0),), seen=NOW)),), processes=()))
    assert len(history._pasts) < 150
