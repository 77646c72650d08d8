"""The processes of a Ray session, the users who may stop it, and the processes that `ray stop` finds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cockpit.probe.actions.host_state import HostScanner, HostState
from cockpit.probe.actions.stop import parts
from cockpit.probe.actions.stop.everything import find_matching_word
from cockpit.probe.actions.stop.parts import (
    SessionError,
    choose_session,
    find_affected,
    hangs_from_service,
    impostors,
    members,
    split_targets,
)
from cockpit.probe.actions.stop.steps import Stopping
from cockpit.probe.sample.classify import classify
from cockpit.probe.sample.gpus import GpuReading
from cockpit.probe.sample.proc import user_name
from cockpit.probe.sample.process_kinds import Driver, ProcessFacts, SessionFolder
from cockpit.probe.sample.processes import ScannedProcess, read_stat
from cockpit.probe.sample.sessions import Sessions
from tests.probe.orphans import Orphan, dead_session, ended_pid, left_variables
from tests.probe.process_tables import FOLDERS, NODE, OTHER, RAY, SESSION, gcs, left, process, raylet, table, worker

pytestmark = pytest.mark.process

NAME, OTHER_NAME = os.path.basename(SESSION), os.path.basename(OTHER)


def look_at(
    *processes: ScannedProcess, drivers: dict[int, Driver] | None = None, folders: tuple[SessionFolder, ...] = FOLDERS
) -> HostState:
    seen = table(*processes)
    there = {one.path: one for one in folders}
    named = {one.pid: there[one.origin.session] for one in processes if one.origin.session in there}
    facts = ProcessFacts(folders=folders, folder_of=named, drivers=drivers or {})
    return HostState(seen, classify(seen, facts), GpuReading(), Sessions(all=folders, of=named))


def dashboard(pid: int = 80, session: str = SESSION) -> ScannedProcess:
    return process(pid, f"python {RAY}/dashboard/dashboard.py --session-dir={session}")


def agent(pid: int, parent: int) -> ScannedProcess:
    return process(pid, f"python {RAY}/dashboard/agent.py --node-id={NODE}", parent)


def of_user(one: ScannedProcess, uid: int) -> ScannedProcess:
    return one._replace(details=one.details._replace(uid=uid))


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda uid: monkeypatch.setattr(parts.os, "geteuid", lambda: uid)


def test_a_session_ends_with_its_raylet_first_and_its_gcs_last():
    whole = (
        gcs(), dashboard(), raylet(), agent(101, 100), worker(110), process(111, "VLLM::EngineCore", 110), process(200, "python train.py"),
    )  # fmt: skip
    look = look_at(*whole, drivers={200: Driver(2000, SESSION, "02000000")})
    assert members(look, NAME) == {
        100: "raylet", 101: "agent", 80: "dashboard", 110: "worker", 111: "child", 200: "driver", 90: "gcs_server",
    }  # fmt: skip
    assert list(members(look, NAME)) == [100, 101, 80, 110, 111, 200, 90]


def test_processes_of_another_session_stay():
    other = (raylet(300, OTHER), worker(310, 300, logs=()), process(311, "VLLM::EngineCore", 310))
    look = look_at(raylet(), worker(110), *other)
    assert set(members(look, NAME)) == {100, 110}
    assert set(members(look, OTHER_NAME)) == {300, 310, 311}


def test_if_there_are_several_sessions_one_must_be_named():
    assert choose_session(look_at(), None) is None
    assert choose_session(look_at(raylet(), dashboard(70, OTHER)), None) == NAME
    assert choose_session(look_at(dashboard(70, OTHER)), None) == OTHER_NAME
    both = look_at(raylet(), raylet(300, OTHER))
    assert choose_session(both, OTHER_NAME) == OTHER_NAME
    with pytest.raises(SessionError, match=rf"2 Ray sessions run on this host \({OTHER_NAME}, {NAME}\): choose one by its name"):
        choose_session(both, None)


def test_in_a_slurm_job_a_session_of_another_job_is_not_chosen(monkeypatch):
    jobs = {50: "42", 100: "41", 300: "42"}
    monkeypatch.setattr(parts, "read_slurm_job", lambda pid, _: jobs[pid])
    both = look_at(raylet(uid=0), raylet(300, OTHER, uid=0))
    assert choose_session(both, None, ["42", "43"]) == OTHER_NAME
    assert choose_session(both, NAME, ["42"]) == NAME, "it was named"
    with pytest.raises(SessionError, match=rf"in another Slurm job: {NAME} \(Slurm job 41\); name it to stop it"):
        choose_session(look_at(raylet(50, uid=4711), raylet(uid=0)), None, ["42"])
    assert choose_session(look_at(raylet(uid=0)), None) == NAME


def test_left_over_processes_belong_to_their_dead_session_and_orphans_to_the_one_whose_log_names_their_raylet():
    look = look_at(dashboard(), worker(110, 1, RAY_RAYLET_PID="100"))
    assert members(look, NAME) == {80: "dashboard", 110: "worker"}
    assert members(look_at(left(500)), NAME) == {500: "child"}
    assert members(look_at(left(500)), OTHER_NAME) == {}
    assert members(look_at(left(500), folders=()), NAME) == {}


def test_a_process_without_a_session_belongs_to_it_by_its_raylet_or_by_an_earlier_scan():
    child = left(500)
    look = look_at(child)
    look.verdicts[500] = look.verdicts[500]._replace(session=None)
    assert members(look, NAME) == {}
    assert members(look, NAME, known=[child.identity]) == {500: "child"}
    assert members(look, NAME, raylets=[(100, 1000)]) == {500: "child"}
    assert members(look, NAME, raylets=[(100, child.ticks + 1)]) == {}
    assert members(look, NAME, raylets=[(99, 1000)]) == {}


def test_a_process_below_a_worker_does_not_hang_from_a_part_of_ray():
    look = look_at(
        gcs(), dashboard(), process(81, "python -c fork", 80), process(82, "sleep 1", 81), raylet(), worker(110), process(111, "bash", 110)
    )
    assert [hangs_from_service(look, pid) for pid in (81, 82, 110, 111, 1)] == [True, True, True, False, False]


def test_another_users_session_is_refused_and_root_may_stop_it(as_user: Callable[[int], None]):
    look = look_at(gcs(), raylet(), of_user(process(200, "python notebook.py"), 1001), drivers={200: Driver(2000, SESSION, "02000000")})
    found = members(look, NAME)
    as_user(1001)
    targets, refused = split_targets(look, NAME, found)
    assert not targets
    assert {target["reason"] for target in refused} == {f"{NAME} belongs to {user_name(1000)}: only {user_name(1000)} and root may stop it"}
    for uid in (0, 1000):
        as_user(uid)
        targets, refused = split_targets(look, NAME, found)
        assert {target["pid"] for target in targets} == {90, 100, 200}
        assert not refused


def test_another_users_process_with_the_sessions_name_is_no_part_of_it(as_user: Callable[[int], None]):
    """It does not prevent the stop of the session either."""
    as_user(0)
    look = look_at(gcs(), raylet(), of_user(dashboard(), 1001), of_user(raylet(300), 1001))
    assert set(members(look, NAME)) == {90, 100}
    assert impostors(look, NAME) == [(300, "raylet"), (80, "dashboard")]
    targets, refused = split_targets(look, NAME, members(look, NAME))
    assert ({target["pid"] for target in targets}, refused) == ({90, 100}, [])


def test_the_owner_of_a_session_without_a_folder_is_unknown_if_two_users_claim_it(as_user: Callable[[int], None]):
    as_user(0)
    forged = look_at(raylet(), of_user(raylet(300), 1001), folders=())
    with pytest.raises(SessionError, match="several users claim to be raylet or gcs_server"):
        members(forged, NAME)


def test_a_session_that_cockpit_itself_runs_in_is_refused(as_user: Callable[[int], None]):
    as_user(0)
    mine = raylet(os.getppid(), ticks=1)
    look = look_at(mine)
    targets, refused = split_targets(look, NAME, members(look, NAME))
    assert not targets
    assert refused[0]["reason"] == f"cockpit itself runs in {NAME}, below process {mine.pid}: to stop it, run cockpit outside of Ray"


def test_jobs_drivers_and_other_users_are_listed_as_affected():
    notebook = of_user(process(200, "python notebook.py"), 1001)
    look = look_at(gcs(), raylet(), worker(110), notebook, drivers={200: Driver(2000, SESSION, "03000000")})
    assert find_affected(look, members(look, NAME)) == {
        "jobs": ["02000000", "03000000"],
        "drivers": [{"pid": 200, "user": user_name(1001), "command": "python notebook.py"}],
        "others": [user_name(1001)],
    }


def test_the_ancestors_of_cockpit_are_refused_and_the_rest_is_ended():
    stopping = Stopping({"targets": []}, HostScanner({}), lambda *_: None, NAME)
    found = read_stat(os.getpid())
    assert found
    with subprocess.Popen(["sleep", "60"]) as child:
        other = read_stat(child.pid)
        assert other
        stopping._hold([{"pid": one.pid, "ticks": one.ticks, "part": "worker"} for one in (found, other)])
        stopping._end_processes("all", [(found.pid, found.ticks), (other.pid, other.ticks)], 10)
    answer = stopping.answer()
    assert [one["pid"] for one in answer["done"]] == [child.pid]
    assert [one["reason"] for one in answer["refused"]] == [f"cockpit itself runs in process {os.getpid()}"]


def test_job_states_of_an_ended_session_do_not_count(tmp_path: Path):
    raylet_pid = ended_pid()
    session = dead_session(tmp_path / "ray", raylet_pid)
    request = {"targets": [], "grace": 1, "jobs": [{"session": session.name, "running": ["02000000"], "ended": []}]}
    scanner = HostScanner(request)
    with closing(Orphan("sleep", "600", environ=left_variables(tmp_path, raylet_pid))) as child:
        assert scanner.scan().verdicts[child.pid].kind == "child", "its job runs, Ray says"
        Stopping(request, scanner, lambda *_: None, session.name).sweep()
        assert child.poll() is not None


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (process(5, "vim /srv/monitor.py"), "monitor.py"),
        (process(5, "tail -f /var/log_monitor.py.log"), "monitor.py"),
        (process(5, "ray::Actor.step", name="ray::Actor.step"), "ray::"),
        (process(5, "less ray::Actor"), None),
        (process(5, "/opt/xraylet-2 --x"), "raylet"),
        (process(5, "grep raylet"), None),
        (process(5, "/opt/a-name-cut-before-raylet", name="a-name-cut-befo"), "raylet"),
        (process(5, "python train.py"), None),
        (process(5, "vim /srv/monitor.py", state="Z"), None),
    ],
)
def test_ray_stop_finds_a_process_by_parts_of_words(one: ScannedProcess, word: str | None):
    assert find_matching_word(one) == word
