"""One look: what Ray says of a job, what another probe has seen, and what NVML says now rather than before."""

from __future__ import annotations

import threading
import time

import pytest
from forests import SESSION, forest, process, raylet, worker

from cockpit.probe.act.look import Look, Watcher, grace_of, settled
from cockpit.probe.act.stopping import Stopping
from cockpit.probe.gpus import Reading
from cockpit.probe.kinds import Verdict
from cockpit.probe.sessions import Sessions

ASKED = Verdict("unknown", ("its raylet 100 lives", "whether job 02 still runs must be asked of Ray"), "02", SESSION, undecided="job")
NAME = SESSION.rpartition("/")[2]


@pytest.mark.parametrize(
    ("jobs", "kind"),
    [
        (None, "unknown"),
        ({"session": NAME, "running": ["02"], "ended": []}, "child"),
        ({"session": NAME, "running": [], "ended": ["02"]}, "orphan"),
        ({"session": NAME, "running": [], "ended": ["03"]}, "unknown"),
        ({"session": "session_of_another_cluster", "running": [], "ended": ["02"]}, "unknown"),
    ],
)
def test_ray_settles_only_what_it_knows_of_its_own_session(jobs, kind):
    assert settled({210: ASKED}, [jobs] if jobs else [], {NAME})[210].kind == kind


def test_whoever_is_deepest_comes_first_and_a_loop_ends_it():
    family = forest(raylet(), worker(200), process(201, parent=200), process(300, parent=301), process(301, parent=300))
    look = Look(family, {}, Reading(), Sessions())
    assert look.children_first([100, 200, 201])[:3] == [201, 200, 100]
    assert set(look.below(100)) == {200, 201}
    assert look.below(300) == (301,)


def test_an_answer_that_was_on_its_way_tells_of_before_and_is_not_taken_for_now(monkeypatch):
    answers = iter([Reading([], {1: {0: 5}}), Reading([], {})])
    gate = threading.Event()

    def slow(_) -> Reading:
        found = next(answers, Reading([], {}))
        gate.wait(10)
        return found

    monkeypatch.setattr("cockpit.probe.act.look.Nvml.read", slow)
    watcher = Watcher({})
    until = time.monotonic() + 10
    while watcher._nvml._asked is None and time.monotonic() < until:
        time.sleep(0.001)
    threading.Timer(0.1, gate.set).start()
    found = watcher.reading(10)
    assert found is not None
    assert found.holders == {}


def test_a_reading_that_does_not_come_is_none_and_not_the_last_one(monkeypatch):
    hangs = threading.Event()
    monkeypatch.setattr("cockpit.probe.act.look.Nvml.read", lambda _: (hangs.is_set() and time.sleep(60)) or Reading([], {1: {0: 5}}))
    watcher = Watcher({})
    assert watcher.reading(10) is not None
    hangs.set()
    assert watcher.reading(0.2) is None
    assert "NVML has not answered" in str(watcher.look(0.2).fault)


def test_many_questions_in_a_row_are_answered_by_one_look(watcher):
    assert watcher.recent(60) is watcher.recent(60)
    first = watcher.recent(60)
    assert watcher.recent(-1) is not first
    newer = watcher.look(0.0)
    assert watcher.recent(60) is newer


@pytest.mark.parametrize(("wanted", "grace"), [({}, 16.0), ({"grace": None}, 16.0), ({"grace": 0}, 0.0), ({"grace": 2}, 2.0)])
def test_no_grace_is_a_grace_too(wanted, grace):
    assert grace_of(wanted, 16.0) == grace
    assert Stopping({"targets": [], **wanted}, Watcher({}), lambda *_: None, NAME)._grace == grace
