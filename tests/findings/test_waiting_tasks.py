"""Tasks too large for every node are reported by their needs; the level rises with time and when no more nodes join."""

from __future__ import annotations

import pytest

from cockpit.findings import Limits
from cockpit.findings.waiting_tasks import waiting_tasks
from cockpit.model import Demand
from tests.findings.detection import FreshTracker, detect, only
from tests.world import NOW, node, snapshot

WHY = "never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8"
LARGE = Demand({"CPU": 1.0, "GPU": 16.0}, 2, WHY, "never")
GROWS = Demand({"GPU": 16.0}, 1, "does not fit on the current nodes: needs 16 GPUs on one node; 2 nodes have 8")
QUEUE = Demand({"CPU": 1.0}, 500)
ALONE = (waiting_tasks,)


def seen(*demand: Demand, seconds: float = 60):
    return detect(snapshot(demand=demand), seconds, detectors=ALONE)


def test_tasks_have_their_number_needs_and_reason_and_a_moving_queue_has_no_finding():
    found = only(seen(QUEUE, LARGE), "task-pending")
    assert found.text == f"2 tasks wait for 16 GPUs, 1 CPU: {WHY}"
    assert (found.level, found.subject, found.since) == ("critical", "16 GPUs, 1 CPU", NOW - 60)
    assert found.remedy is not None
    assert found.about == (LARGE.key,)
    assert seen(QUEUE, seconds=3600) == ()
    assert detect(snapshot(demand=None), 60, detectors=ALONE) == ()
    found = only(FreshTracker(Limits(), ALONE, assumed=60.0)(snapshot(demand=(LARGE,))).findings, "task-pending")
    assert (found.level, found.since) == ("critical", None)


@pytest.mark.parametrize(
    ("demand", "seconds", "level"),
    [
        (LARGE, 5, None),
        (LARGE, 10, "info"),
        (LARGE, 30, "critical"),
        (GROWS, 60, "info"),
        (GROWS, 120, "warning"),
        (GROWS, 9000, "warning"),
    ],
)
def test_the_level_of_tasks_depends_on_the_duration(demand, seconds, level):
    assert [found.level for found in seen(demand, seconds=seconds)] == [level] * (level is not None)


def test_while_nodes_join_tasks_may_wait_for_them():
    judge = FreshTracker(Limits(), ALONE)

    def find(at: float, joined: float) -> str:
        nodes = (node(1, started=NOW - 600), node(2, started=NOW + at - joined))
        return only(judge(snapshot(taken=NOW + at, nodes=nodes, demand=(LARGE,))).findings, "task-pending").level

    judge(snapshot(demand=(LARGE,), nodes=(node(2, started=NOW - 5),)))
    assert [find(20, 25), find(40, 5), find(70, 35)] == ["info", "info", "critical"]
    assert find(75, 1) == "critical", "a joining node does not make an old impossible request better"
