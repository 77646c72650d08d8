"""How the recent past of a node is drawn."""

from __future__ import annotations

import pytest

from cockpit.monitor.history import STEP_S, History
from cockpit.ui.cells import recent_spark
from cockpit.ui.view import View
from tests.world import NOW, node, snapshot


def sparks(every_s, steps):
    """How a node's use is drawn that was recorded so often."""
    history = History()
    for number in range(int(steps * STEP_S / every_s) + 1):
        now = NOW + number * every_s
        history.record(snapshot(taken=now, nodes=(node(1, seen=now),)))
    return recent_spark(node(1), "gpu", None, steps, View(history=history))


@pytest.mark.parametrize("every_s", [5.0, 6.1, 8.3, 14.0])
def test_facts_that_arrive_less_often_than_every_step_leave_no_gaps(every_s):
    assert " " not in sparks(every_s, 20)


def test_a_pause_longer_than_facts_hold_is_a_gap():
    assert " " in sparks(60.0, 20)
