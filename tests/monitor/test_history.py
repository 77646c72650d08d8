from __future__ import annotations

import pytest

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Hold, HostMemory, Job, Snapshot
from cockpit.monitor.history import JOBS_KEPT, STEP_S, STEPS_KEPT, History
from tests.world import GIB, NOW, gpu, node, process


class Past:
    """Records snapshots of one node, one step after another."""

    def __init__(self):
        self.history, self.now = History(), NOW - NOW % STEP_S

    def record(self, utilization=None, *, wait=STEP_S, seen=None, **more):
        self.now += wait
        facts = {"seen": self.now if seen is None else seen, "gpus": (gpu(0, utilization=utilization),), **more}
        self.history.record(Snapshot(taken=self.now, nodes=(node(1, **facts),)))

    def silence(self, wait=STEP_S):
        self.now += wait
        self.history.record(Snapshot(taken=self.now, nodes=()))

    def tail(self, what="gpu", index=0, width=5):
        return self.history.tail(node(1).key, what, index, width)


@pytest.fixture
def past():
    return Past()


def test_a_tail_ends_with_the_newest_value_and_has_exactly_the_requested_steps(past):
    assert past.tail() == [None] * 5
    assert past.history.tail("node:nobody", "gpu", 0, 3) == [None] * 3
    for value in (10, 20, 30):
        past.record(value)
    assert past.tail() == [None, None, 10, 20, 30]
    assert past.tail(width=2) == [20, 30]
    assert len(past.tail(width=2 * STEPS_KEPT)) == 2 * STEPS_KEPT


def test_a_silence_is_a_gap_and_moves_the_past_to_the_left(past):
    past.record(10)
    past.record(40, wait=3 * STEP_S)
    past.silence(2 * STEP_S)
    assert past.tail(width=7) == [None, 10, None, None, 40, None, None]
    past.history.record(Snapshot(taken=past.now + STEP_S, nodes=None))
    assert past.tail(width=4) == [40, None, None, None]
    past.silence(100 * STEP_S)
    assert past.tail() == [None] * 5
    past.record(20, wait=10 * STEPS_KEPT * STEP_S)
    assert past.tail(width=STEPS_KEPT) == [None] * (STEPS_KEPT - 1) + [20]


def test_two_values_within_a_step_are_one(past):
    past.record(10)
    past.record(90, wait=STEP_S / 5)
    assert past.tail() == [None, None, None, None, 90]


def test_an_idle_gpu_is_zero_and_one_without_a_rate_is_unknown(past):
    past.record(0)
    past.record(None)
    assert past.tail(width=2) == [0, None]


def test_only_new_facts_are_recorded(past):
    past.history.record(Snapshot(taken=past.now, nodes=(node(1, seen=None),)))
    past.record(50, seen=past.now + STEP_S - STALE_AFTER_S - 1)
    assert past.tail() == [None] * 5
    past.record(60, seen=past.now + STEP_S - STALE_AFTER_S + 1)
    assert past.tail() == [None] * 4 + [60]
    seen = past.now
    for _ in range(3):
        past.record(50, seen=seen)
    assert past.tail() == [None, 60, 50, None, None]


def test_a_clock_that_goes_back_breaks_nothing(past):
    past.record(10)
    past.record(20, wait=-STEP_S)
    assert past.tail(width=1) == [20]


def test_memory_is_a_percentage_and_a_node_is_the_mean_of_its_gpus(past):
    gpus = (gpu(0, 20, utilization=100.0), gpu(1, 60, utilization=50.0), gpu(2, utilization=None, memory_used=None))
    past.record(gpus=(), memory=HostMemory())
    past.record(gpus=None)
    assert past.tail("gpu", None) == [None] * 5
    assert past.tail("host", None, 2)[0] is None
    past.record(gpus=gpus, memory=HostMemory(25 * GIB, 100 * GIB))
    assert past.tail("memory", 0, 1) == [25]
    assert past.tail("memory", 2, 1) == [None]
    assert past.tail("gpu", None, 1) == [75]
    assert past.tail("memory", None, 1) == [50]
    assert past.tail("host", None, 1) == [25]


def test_the_past_of_a_limited_number_of_steps_and_nodes_is_kept(past):
    for value in range(3 * STEPS_KEPT):
        past.record(value % 100)
    kept = past.history._pasts[node(1).key].steps
    assert STEPS_KEPT <= len(kept) <= 2 * STEPS_KEPT
    assert past.tail(width=2) == [(3 * STEPS_KEPT - 2) % 100, (3 * STEPS_KEPT - 1) % 100]
    history = History()
    for number in range(300):
        history.record(Snapshot(taken=NOW + number, nodes=(node(number, seen=NOW + number, gpus=()),)))
    assert len(history._pasts) <= 102
    assert history.tail(node(299).key, "host", None, 1) == [70]


# Idle


def idle(past):
    return past.history.idle_seconds(node(1).key, 0)


def test_a_gpu_is_idle_since_it_was_busy_last(past):
    for value in (0, 90, 0, 4, 0):
        past.record(value)
    assert idle(past) == (3 * STEP_S, False)
    past.record(90)
    assert idle(past) == (0, False)


def test_a_gpu_that_was_never_seen_busy_may_be_idle_for_longer(past):
    for value in (0, 0):
        past.record(value)
    assert idle(past) == (2 * STEP_S, True)
    past.record(None)
    past.record(0)
    assert idle(past) == (STEP_S, True)


def test_idleness_is_unknown_from_old_facts(past):
    assert idle(past) is None
    past.record(0)
    past.silence(STALE_AFTER_S + 2 * STEP_S)
    assert idle(past) is None
    past.record(None)
    assert idle(past) is None


# Jobs


def step(history, number, *gpus, jobs=("ppo",), holds=((1, 0), (1, 1)), **more):
    """A job that holds these GPUs of nodes, after this many steps."""
    now = NOW - NOW % STEP_S + number * STEP_S
    processes = tuple(process(pid, node=node(at).id, gpus=(Hold(index, GIB),), job="01000000") for pid, (at, index) in enumerate(holds))
    facts = {
        "nodes": (node(1, seen=now, gpus=gpus), node(2, seen=now)),
        "processes": processes,
        "jobs": jobs and tuple(Job(name, status="RUNNING", job=f"{place:02d}000000") for place, name in enumerate(jobs, 1)),
    }
    history.record(Snapshot(taken=now, **{**facts, **more}))


def test_the_past_of_a_job_is_that_of_its_processes_gpus_each_counted_once():
    history = History()
    step(history, 1, gpu(0, 20, utilization=100.0), gpu(1, 60, utilization=50.0), gpu(2, 80, utilization=0.0))
    step(history, 2, gpu(0, 0, utilization=0.0), gpu(1, 40, utilization=0.0), gpu(2, 80, utilization=100.0))
    step(history, 3, gpu(0, utilization=100.0), gpu(1, utilization=0.0), holds=((1, 0), (1, 0), (1, 1)))
    assert history.job_tail("01000000", "gpu", 4) == [None, 75, 0, 50]
    assert history.job_tail("01000000", "memory", 3)[:2] == [50, 25]


@pytest.mark.parametrize(
    "unknown",
    [
        {"processes": None},
        {"processes": ()},
        {"jobs": None},
        {"jobs": ()},
        {"nodes": None},
        {"nodes": (node(1, seen=NOW - STALE_AFTER_S - 10),)},
    ],
)
def test_a_job_with_unknown_gpus_has_a_gap_and_not_a_zero(unknown):
    history = History()
    step(history, 1, gpu(0, utilization=90.0), gpu(1, utilization=90.0), **unknown)
    assert history.job_tail("01000000", "gpu", 2) == [None, None]
    assert history.job_tail("01000000", "memory", 2) == [None, None]


def test_a_job_has_a_gap_while_it_holds_no_gpu_and_its_past_goes_with_it():
    history = History()
    for number, holds in enumerate((((1, 0),), (), ((1, 0),))):
        step(history, number, gpu(0, utilization=40.0), holds=holds)
    assert history.job_tail("01000000", "gpu", 3) == [40, None, 40]
    history = History()
    step(history, 1, gpu(0, utilization=90.0), holds=((1, 0),))
    step(history, 2, gpu(0, utilization=90.0), holds=((1, 0),), jobs=())
    assert history.job_tail("01000000", "gpu", 2) == [None, None]


def test_the_past_of_a_limited_number_of_jobs_is_kept():
    history = History()
    for number in range(2 * STEPS_KEPT):
        step(history, number, gpu(0, utilization=90.0), holds=((1, 0),), jobs=[f"job{each}" for each in range(99 if number else 300)])
    assert len(history._jobs) <= JOBS_KEPT
    assert len(history._jobs["01000000"].steps) == STEPS_KEPT
