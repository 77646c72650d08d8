"""Somebody sets the wall clock, forwards and backwards: nothing grows old by that, nothing stands still, nothing lasts longer."""

from __future__ import annotations

import time

import pytest

from cockpit.findings import DETECTORS, FindingTracker, Limits
from cockpit.model import Host
from cockpit.monitor.poller import Poller
from cockpit.sources.ray.oom import OomKills, WorkerRecord
from cockpit.sources.ray.wire import Listing
from cockpit.times.clock import CLOCK, Clock
from tests.world import node, snapshot

HOUR = 3600.0
JUMPS = (HOUR, -HOUR, 400 * 86400.0, -400 * 86400.0)


class Walls:
    """A wall clock that can be set, and the steady one beside it."""

    def __init__(self):
        self.steady, self.ahead = 5000.0, 1_795_000_000.0
        self.clock = Clock(lambda: self.steady + self.ahead, lambda: self.steady)

    @property
    def wall(self):
        return self.steady + self.ahead


def test_it_is_the_wall_clock_until_that_is_set():
    assert pytest.approx(time.time(), abs=1.0) == CLOCK()
    assert CLOCK.shift() == 0.0


@pytest.mark.parametrize("jump", JUMPS)
def test_it_goes_on_when_the_wall_clock_is_set(jump):
    walls = Walls()
    before = walls.clock()
    walls.steady, walls.ahead = walls.steady + 2, walls.ahead + jump
    assert walls.clock() == before + 2


@pytest.mark.parametrize("jump", JUMPS)
def test_a_date_of_the_wall_clock_is_as_long_ago_as_it_was(jump):
    walls = Walls()
    walls.ahead += jump
    began = walls.wall - 60
    assert walls.clock() - (began + walls.clock.shift()) == pytest.approx(60)
    walls.ahead -= jump
    assert walls.clock.shift() == 0.0


def test_drift_makes_no_new_dates():
    walls = Walls()
    walls.ahead += HOUR
    shift = walls.clock.shift()
    for _ in range(100):
        walls.ahead += 0.009
        assert walls.clock.shift() == shift


@pytest.mark.parametrize("jump", JUMPS)
def test_new_facts_are_no_older_and_no_fault_lasts_longer(jump):
    walls, published = Walls(), []
    poller = Poller(published.append, clock=walls.clock)
    poller.report_fault("ray.nodes", "no answer")
    poller.update_host(Host("w1", taken=walls.clock()))
    walls.ahead += jump
    walls.steady += 3
    poller.rejoin()
    now = poller.snapshot
    assert now.taken - now.as_of["probe:w1"] == pytest.approx(3)
    assert now.taken - now.faults[0].since == pytest.approx(3)


@pytest.mark.parametrize("jump", JUMPS)
def test_nothing_is_found_because_of_it(jump):
    walls = Walls()
    judge = FindingTracker(Limits(), DETECTORS)

    def found():
        now = walls.clock()
        return {one.code for one in judge(snapshot(taken=now, nodes=(node(1, seen=now), node(2, seen=now)))).findings}

    for _ in range(3):
        before = found()
        walls.steady += 2
    walls.ahead += jump
    assert found() == before


@pytest.mark.parametrize("jump", JUMPS)
def test_a_kill_that_ray_reports_is_dated_by_our_clock(jump):
    walls = Walls()
    walls.ahead += jump
    worker = WorkerRecord(node_id="n", pid=7, end_time_ms=1000 * (walls.wall - 60), exit_type="NODE_OUT_OF_MEMORY", exit_detail="")
    told = OomKills(walls.clock).update(Listing(result=[worker], total=1), None, 0.1)
    assert walls.clock() - told.kills[0].moment == pytest.approx(60)
