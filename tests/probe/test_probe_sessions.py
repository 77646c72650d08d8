"""Session folders: alive or dead, whose, the latest, their drivers and dashboards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forests import RAY, forest, process, raylet

from cockpit.probe import sessions
from cockpit.probe.proc import Table, read_stat
from cockpit.probe.sessions import Desk, written

NAME = "session_2026-11-21_08-02-10_714202_8139"


@pytest.fixture
def temp() -> Iterator[Path]:
    """A short path: the name of a Unix socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def session(temp: Path, name: str = NAME) -> Path:
    for part in ("sockets", "logs"):
        (temp / name / part).mkdir(parents=True)
    return temp / name


def only(desk: Desk, *processes):
    (folder,) = desk.read(forest(*processes)).folders
    return folder


def test_a_session_nobody_listens_in_is_dead(temp):
    path = session(temp)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "sockets" / "raylet"))
    found = only(Desk([str(temp)]))
    assert (found.path, found.answers, found.latest) == (str(path), False, False)
    assert found.owner == path.owner()


def test_a_session_without_a_socket_is_dead(temp):
    session(temp)
    assert only(Desk([str(temp)])).answers is False


SIGTERM = """[2026-11-21 18:34:52,499 I 24 24] (raylet) main.cc:481: Raylet graceful shutdown triggered with death info: reason: EXPECTED_\
TERMINATION
reason_message: "received SIGTERM"

[2026-11-21 18:34:52,538 I 24 24] (raylet) stats.h:176: Stats module has shutdown.
"""
"""What a raylet of 2.60 wrote when `ray stop` ended it."""
OLDER = "[2026-11-21 18:34:52,499 I 24 24] (raylet) main.cc:398: received SIGTERM. Existing local drain request = None"
CRASH = "[2026-11-21 18:34:52,499 C 24 24] (raylet) gcs_rpc_client.h:1 Failed to connect to GCS within 60 seconds"


@pytest.mark.parametrize(("words", "stopped"), [(SIGTERM, True), (OLDER, True), (CRASH, False), ("worker 7 received SIGTERM", False)])
def test_the_latest_raylets_last_words_say_whether_it_was_told_to_end(temp, words, stopped):
    path = session(temp)
    (path / "logs" / "raylet.out").write_text("quiet\n" * 9999 + words)
    assert only(Desk([str(temp)])).stopped is None, "not the latest"
    (temp / "session_latest").symlink_to(path)
    assert only(Desk([str(temp)])).stopped is stopped
    (path / "logs" / "raylet.out").unlink()
    assert only(Desk([str(temp)])).stopped is None


def test_a_session_whose_raylet_listens_lives(temp):
    path = session(temp)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "sockets" / "raylet"))
        sock.listen()
        assert only(Desk([str(temp)])).answers is True


def test_a_stopped_raylet_with_a_full_queue_lives(temp):
    path = session(temp)
    callers = []
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "sockets" / "raylet.1"))
        sock.listen(0)
        for _ in range(3):
            callers.append(socket.socket(socket.AF_UNIX))
            callers[-1].setblocking(False)
            callers[-1].connect_ex(str(path / "sockets" / "raylet.1"))
        assert only(Desk([str(temp)])).answers is True
        for caller in callers:
            caller.close()


def test_a_session_that_a_raylet_carries_need_not_be_asked(temp):
    path = session(temp)
    assert only(Desk(), raylet(session=str(path))).answers is True


def test_a_temp_dir_once_heard_of_is_remembered(temp):
    path = session(temp)
    desk = Desk()
    desk.read(forest(raylet(session=str(path))))
    assert only(desk).answers is False


def test_the_latest_is_what_session_latest_points_at(temp):
    session(temp)
    os.symlink(session(temp, NAME + "1"), temp / "session_latest")
    assert [folder.latest for folder in Desk([str(temp)]).read(forest()).folders] == [False, True]


def test_only_folders_named_like_sessions_count(temp):
    session(temp)
    (temp / "session_notes").mkdir()
    (temp / (NAME + "9")).touch()
    assert len(Desk([str(temp)]).read(forest()).folders) == 1


def test_two_names_of_one_temp_dir_show_its_sessions_once(temp, tmp_path):
    session(temp)
    os.symlink(temp, tmp_path / "link")
    assert len(Desk([str(temp), str(tmp_path / "link")]).read(forest()).folders) == 1


def test_a_session_says_when_it_was_started(temp):
    session(temp)
    found = only(Desk([str(temp)])).started
    assert subprocess.check_output(["date", "-d", f"@{found:.0f}", "+%F_%H-%M-%S"], text=True).strip() == "2026-11-21_08-02-10"


def test_who_holds_a_drivers_log_open_is_a_driver(temp):
    path = session(temp)
    log = f"{path}/logs/python-core-driver-01000000ffffffff_"
    code = f"import os,sys; f=open('{log}%d.log' % os.getpid(), 'w'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        (path / "logs" / f"python-core-driver-02000000ffffffff_{os.getpid()}.log").touch()
        seen = {**Table().scan(), 100: raylet(session=str(path))}
        drivers = Desk().read(seen).drivers
        child.communicate(b"")
    assert {pid: (driver.session, driver.job) for pid, driver in drivers.items() if driver.session == str(path)} == {
        child.pid: (str(path), "01000000")
    }


def test_the_logs_of_a_live_session_say_when_each_job_wrote_last(temp, monkeypatch):
    path = session(temp)
    for number, name in enumerate(("job-driver-raysubmit_a.log", "job-driver-my.log.log", "job-driver-.log", "raylet.out", "raylet.err")):
        (path / "logs" / name).touch()
        os.utime(path / "logs" / name, (1000 + number, 1000 + number))
    alive = forest(raylet(session=str(path)))
    (logs,) = Desk().read(alive).logs
    assert written([logs]) == {"raysubmit_a": 1000.0, "my.log": 1001.0}
    assert logs.raylets == (f"{path}/logs/raylet.out",)
    (path / "logs" / "job-driver-raysubmit_a.log").write_text("more")
    assert written([logs])["raysubmit_a"] > 1001
    monkeypatch.setattr(sessions, "MOST_JOBS", 1)
    assert list(written([logs])) == ["raysubmit_a"], "the latest are told of, when there are too many"


def test_what_a_raylet_has_written_before_is_beside_it(temp):
    path = session(temp)
    for name in ("raylet.out", "raylet.1.out", "raylet.out.1", "raylet.outside", "raylet_x.out"):
        (path / "logs" / name).touch()
    (logs,) = Desk().read(forest(raylet(session=str(path)))).logs
    assert [os.path.basename(log) for log in logs.raylets] == ["raylet.1.out", "raylet.out", "raylet.out.1"]


def test_the_logs_of_a_dead_session_are_left_alone(temp):
    (session(temp) / "logs" / "job-driver-raysubmit_a.log").touch()
    assert Desk([str(temp)]).read(forest()).logs == ()


def dashboard(session: Path, pid: int, port: int, retries: int = 0, host: str = "0.0.0.0"):
    command = f"python {RAY}/dashboard/dashboard.py --host={host} --port={port} --port-retries={retries} --session-dir={session}"
    return process(pid, command, ticks=read_stat(pid).ticks if read_stat(pid) else 1)


@pytest.mark.parametrize(("family", "bound"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_a_dashboard_is_where_it_listens_and_not_where_it_was_told_to(temp, family, bound):
    path = session(temp)
    with socket.socket(family) as sock:
        sock.bind((bound, 0))
        sock.listen()
        port = sock.getsockname()[1]
        found = Desk().read(forest(dashboard(path, os.getpid(), port - 3, retries=5))).dashboards
    assert found == {str(path): f"http://127.0.0.1:{port}"}


def test_a_dashboard_that_does_not_listen_yet_has_no_address(temp):
    path = session(temp)
    desk = Desk()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert desk.read(forest(dashboard(path, os.getpid(), port))).dashboards == {}
        sock.listen()
        assert desk.read(forest(dashboard(path, os.getpid(), port))).dashboards == {str(path): f"http://127.0.0.1:{port}"}
