"""Host memory over time: gaps stay gaps, growth is measured robustly, and each byte has an owner."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.findings.memory_trend import MAX_STEPS, STEP_S, KillLine, MemoryHistory, kill_line
from cockpit.model import Amount, HostMemory, MemoryUser
from tests.world import GIB, NOW, OTHER_RAY, node, process, snapshot, theirs

KEY = node(1).key


class Past:
    """Records one node and its host, step after step."""

    def __init__(self):
        self.memory, self.now = MemoryHistory(), NOW - NOW % STEP_S

    def record(self, used=None, *processes, wait=STEP_S, seen=None, **host):
        self.now += wait
        known = node(1, seen=self.now if seen is None else seen, memory=HostMemory(used, 1000 * GIB), shm=None)
        facts = {"processes": processes, "memory_users": (), "shm": Amount(), **host}
        detect = replace(snapshot().hosts["node1"], taken=self.now, **facts)
        self.memory.record(snapshot(taken=self.now, nodes=(known,), processes=processes, hosts={"node1": detect}))

    def grow(self, *gibs):
        for gib in gibs:
            self.record(None if gib is None else int(gib * GIB))

    def silence(self, seconds):
        self.now += seconds
        self.memory.record(snapshot(taken=self.now, nodes=(), processes=(), hosts={}))

    def tail(self, width=5):
        return self.memory.tail(KEY, width)

    @property
    def trend(self):
        return self.memory.trend(KEY)

    def held(self):
        return {one.owner.key: one.used // GIB for one in self.memory.holdings("node1")}


@pytest.fixture
def past():
    return Past()


def test_unreported_nodes_are_unknown(past):
    assert past.tail() == [None] * 5
    assert past.trend is None
    assert past.memory.holdings("node1") is None
    assert past.memory.owner_tail("node1", "ray", 3) == [None] * 3


def test_the_newest_value_is_last_and_a_silence_is_a_gap_that_moves_the_past_to_the_left(past):
    past.grow(1, 2)
    past.record(4 * GIB, wait=3 * STEP_S)
    past.silence(2 * STEP_S)
    assert past.tail(7) == [GIB, 2 * GIB, None, None, 4 * GIB, None, None]
    past.silence(MAX_STEPS * STEP_S)
    assert past.tail(MAX_STEPS) == [None] * MAX_STEPS
    past.record(3 * GIB, wait=-STEP_S)
    assert past.tail(1) == [3 * GIB], "a clock that was set back is harmless"


def test_only_new_and_plausible_amounts_are_recorded(past):
    past.grow(1, None)
    for absurd in (-1, 2**70, math.nan, math.inf):
        past.record(absurd)
    past.grow(2)
    assert past.tail(7) == [GIB, None, None, None, None, None, 2 * GIB]


def test_facts_that_were_old_or_did_not_change_are_not_recorded(past):
    seen = past.now
    past.record(GIB, seen=seen)
    past.record(2 * GIB, seen=seen)
    past.record(3 * GIB, seen=past.now + STEP_S - STALE_AFTER_S - 1)
    assert past.tail(3) == [GIB, None, None]


def test_the_past_is_bounded(past):
    past.grow(*range(1, 2 * MAX_STEPS))
    assert past.tail(2 * MAX_STEPS)[: MAX_STEPS + 1] == [None] * MAX_STEPS + [MAX_STEPS * GIB]


@pytest.mark.parametrize("used", [range(100, 124), [None if 8 <= number < 14 else 100 + number for number in range(24)]])
def test_even_growth_is_exact_even_with_gaps_until_it_is_old(past, used):
    past.grow(1, 2, 3, 4, 5)
    assert past.trend is None, "too few samples"
    past.silence(MAX_STEPS * STEP_S)
    past.grow(*used)
    assert past.trend.slope == pytest.approx(GIB / STEP_S)
    assert past.trend.steady
    past.silence(150)
    assert past.trend is None


@pytest.mark.parametrize(
    ("used", "is_steady"),
    [
        pytest.param([*[100] * 12, *[200] * 12], False, id="one jump"),
        pytest.param([*[100] * 8, *[110] * 8, *[120] * 8], True, id="portions"),
        pytest.param([100 + number % 6 for number in range(24)], False, id="sawtooth"),
        pytest.param([*range(100, 120), *[60] * 4], False, id="fall"),
    ],
)
def test_growth_is_steady_if_it_comes_in_portions_but_not_in_one_jump_a_sawtooth_or_a_fall(past, used, is_steady):
    past.grow(*used)
    assert past.trend.steady is is_steady


def test_one_spike_moves_the_slope_little(past):
    past.grow(*(100 + number + (500 if number == 12 else 0) for number in range(24)))
    assert past.trend.slope == pytest.approx(GIB / STEP_S, rel=0.2)


def test_memory_belongs_to_the_actor_then_the_job_then_to_what_runs(past):
    past.record(
        GIB,
        process(1, actor="a" * 32, job="02000000", rss=4 * GIB),
        process(2, actor="a" * 32, job="02000000", rss=GIB, kind="child"),
        process(3, job="02000000", kind="driver", rss=3 * GIB),
        process(4, kind="ray", rss=2 * GIB),
        process(5, kind="orphan", name="VLLM::EngineCore", rss=9 * GIB),
        memory_users=(MemoryUser(1, 4 * GIB, "train", "python"), MemoryUser(77, 7 * GIB, "root", "/usr/bin/dockerd -H")),
        shm=Amount(6 * GIB, 100 * GIB),
    )
    assert past.held() == {
        "orphan:train:VLLM::EngineCore": 9,
        "foreign:root:dockerd": 7,
        "shm": 6,
        f"actor:{'a' * 32}": 5,
        "job:02000000": 3,
        "ray": 2,
    }


def test_an_owners_past_has_gaps_and_is_unknown_without_samples(past):
    hog = process(1, actor="a" * 32, rss=4 * GIB)
    past.record(GIB, hog)
    past.record(GIB)
    past.record(GIB, hog)
    assert past.memory.owner_tail("node1", f"actor:{'a' * 32}", 3) == [4 * GIB, None, 4 * GIB]
    past.record(GIB, process(1, rss=GIB))
    past.silence(STALE_AFTER_S + 2 * STEP_S)
    assert past.memory.holdings("node1") is None


def test_the_growing_owners_are_returned(past):
    for number in range(24):
        past.record(GIB, process(1, actor="a" * 32, rss=(10 + number) * GIB), process(2, kind="ray", rss=GIB))
    growing = {one.owner.key: one.trend.steady for one in past.memory.holdings("node1")}
    assert growing == {f"actor:{'a' * 32}": True, "ray": False}


def test_a_process_of_unknown_size_holds_nothing(past):
    past.record(GIB, process(1, rss=None, kind="ray"), process(2, rss=-5, kind="orphan"), process(3, rss=GIB, job="02000000"))
    assert past.held() == {"job:02000000": 1}


def test_memory_is_bounded_while_nodes_and_hosts_come_and_go():
    memory = MemoryHistory()
    for number in range(300):
        host = replace(snapshot().hosts["node1"], name=f"n{number}", taken=NOW + number)
        held = (process(1, host=f"n{number}"),)
        memory.record(snapshot(taken=NOW + number, nodes=(node(number, seen=NOW + number),), hosts={f"n{number}": host}, processes=held))
    assert max(len(memory._nodes), len(memory._held), len(memory._pasts)) <= 205


@pytest.mark.parametrize(
    ("memory", "line"),
    [
        (HostMemory(1, 1000, 800), KillLine(800, assumed=False)),
        (HostMemory(1, 1000), KillLine(950, assumed=True)),
        (HostMemory(1), None),
        (HostMemory(1, -5, math.nan), None),
        (HostMemory(1, 1000, 0), KillLine(950, assumed=True)),
    ],
)
def test_the_kill_line_is_reported_assumed_or_unknown(memory, line):
    assert kill_line(memory) == line


def test_another_rays_memory_is_not_added_to_ours(past):
    past.record(
        GIB,
        process(1, job="02000000", kind="driver", rss=3 * GIB),
        process(2, kind="ray", rss=GIB),
        theirs(3, rss=5 * GIB),
        theirs(4, rss=2 * GIB, kind="child"),
        theirs(5, rss=4 * GIB, kind="ray", other_job=None),
        process(6, rss=6 * GIB, other_job="02000000", kind="unknown"),
    )
    assert past.held() == {
        f"other:{OTHER_RAY}:02000000": 7,
        "other:None:02000000": 6,
        f"other:{OTHER_RAY}:None": 4,
        "job:02000000": 3,
        "ray": 1,
    }
    names = [one.owner.name for one in past.memory.holdings("node1")]
    assert names[:2] == [f"job 02000000 of another Ray session ({OTHER_RAY})", "job 02000000 of an unknown Ray session"]


def test_processes_of_one_command_and_user_are_one_row_in_every_state():
    past = Past()
    known = process(9, kind="foreign", user="root", name="python", command="python x.py", job=None, rss=2 * GIB)
    past.record(50 * GIB, known, memory_users=(MemoryUser(10, 3 * GIB, "root", "/usr/bin/python y.py"),), shm=Amount())
    (row,) = past.memory.holdings("node1")
    assert (row.owner.name, row.used, [one.pid for one in row.processes]) == ("python", 5 * GIB, [9, 10])
