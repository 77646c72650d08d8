"""The state of a host: job states of Ray, evidence of another probe, and new answers of NVML."""

from __future__ import annotations

import threading
import time

import pytest

from cockpit.probe.actions.host_state import HostScanner, HostState, apply_job_states, grace_of
from cockpit.probe.actions.stop.steps import Stopping
from cockpit.probe.sample.gpus import GpuReading
from cockpit.probe.sample.process_kinds import KindVerdict
from cockpit.probe.sample.sessions import Sessions
from tests.probe.process_tables import SESSION, process, raylet, table, worker

pytestmark = pytest.mark.process

ASKED = KindVerdict(
    "unknown",
    ("its worker 200 is gone", "it comes from raylet 100, which still runs", "only Ray knows whether job 02 still runs"),
    "02",
    SESSION,
    undecided="job",
    asks=(SESSION,),
)
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
def test_ray_decides_only_jobs_of_its_own_session(jobs, kind):
    assert apply_job_states({210: ASKED}, [jobs] if jobs else [])[210].kind == kind


def test_the_first_reason_is_one_sentence_about_the_orphan():
    jobs = [{"session": NAME, "running": [], "ended": ["02"]}]
    assert apply_job_states({210: ASKED}, jobs)[210].why == (
        "its worker 200 is gone and its job 02 has ended; nothing alive owns it",
        "it comes from raylet 100, which still runs",
    )
    below = ASKED._replace(why=("child of python 210",))
    assert apply_job_states({211: below}, jobs)[211].why == ("its job 02 has ended; nothing alive owns it", "child of python 210")


ELDERS = KindVerdict(
    "unknown", ("only Ray knows whether job ppo runs in …",), "ppo", SESSION, undecided="job", asks=(f"{SESSION}1", f"{SESSION}2")
)


@pytest.mark.parametrize(
    ("jobs", "kind"),
    [
        ([], "unknown"),
        ([(f"{NAME}1", [], [])], "unknown"),
        ([(f"{NAME}1", [], []), (f"{NAME}2", [], [])], "orphan"),
        ([(f"{NAME}1", [], []), (f"{NAME}2", ["ppo"], [])], "child"),
        ([(f"{NAME}1", ["ppo"], [])], "child"),
        ([("session_of_another_user", [], ["ppo"])], "unknown"),
        ([(f"{NAME}1", ["ppo"], []), (f"{NAME}1", [], ["ppo"]), (f"{NAME}2", [], [])], "child"),
    ],
)
def test_a_process_of_several_possible_sessions_is_left_over_if_none_of_them_runs_its_job(jobs, kind):
    states = [{"session": session, "running": running, "ended": ended} for session, running, ended in jobs]
    assert apply_job_states({210: ELDERS}, states)[210].kind == kind


def test_a_running_job_outweighs_every_sign_of_death():
    orphan = KindVerdict("orphan", ("its raylet 100 is dead",), "02", SESSION)
    assert apply_job_states({210: orphan}, [{"session": NAME, "running": ["02"], "ended": []}])[210].kind == "child"
    assert apply_job_states({210: orphan}, [{"session": "session_of_another", "running": ["02"], "ended": []}])[210].kind == "orphan"


def test_the_deepest_process_comes_first_and_a_loop_ends():
    family = table(raylet(), worker(200), process(201, parent=200), process(300, parent=301), process(301, parent=300))
    look = HostState(family, {}, GpuReading(), Sessions())
    assert look.sort_deepest_first([100, 200, 201])[:3] == [201, 200, 100]
    assert set(look.find_descendants(100)) == {200, 201}
    assert look.find_descendants(300) == (301,)


def test_an_answer_to_an_earlier_question_is_not_taken_for_a_new_one(monkeypatch):
    answers = iter([GpuReading([], {1: {0: 5}}), GpuReading([], {})])
    gate = threading.Event()

    def slow(_) -> GpuReading:
        found = next(answers, GpuReading([], {}))
        gate.wait(10)
        return found

    monkeypatch.setattr("cockpit.probe.actions.host_state.Nvml.read", slow)
    scanner = HostScanner({})
    until = time.monotonic() + 60
    while scanner._nvml._asked is None and time.monotonic() < until:
        time.sleep(0.001)
    threading.Timer(0.1, gate.set).start()
    found = scanner.reading(10)
    assert found is not None
    assert found.holders == {}


def test_a_missing_answer_is_none_and_not_the_last_one(monkeypatch):
    hangs = threading.Event()
    read = "cockpit.probe.actions.host_state.Nvml.read"
    monkeypatch.setattr(read, lambda _: (hangs.is_set() and time.sleep(60)) or GpuReading([], {1: {0: 5}}))
    scanner = HostScanner({})
    assert scanner.reading(10) is not None
    hangs.set()
    assert scanner.reading(0.2) is None
    assert "NVML has not answered" in str(scanner.scan(0.2).fault)


@pytest.mark.parametrize(("wanted", "grace"), [({}, 16.0), ({"grace": None}, 16.0), ({"grace": 0}, 0.0), ({"grace": 2}, 2.0)])
def test_a_grace_of_zero_is_respected(wanted, grace):
    assert grace_of(wanted, 16.0) == grace
    assert Stopping({"targets": [], **wanted}, HostScanner({}), lambda *_: None, NAME)._grace == grace
