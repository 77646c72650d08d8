"""Session folders: alive or dead, their owners, the latest one, their drivers and dashboards."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import sessions, tree
from cockpit.probe.sample.process_kinds import SocketListener
from cockpit.probe.sample.processes import ProcessScanner, ProcessTable, read_stat
from cockpit.probe.sample.session_folder import answers
from cockpit.probe.sample.sessions import SessionScanner, date_writes
from tests.probe.process_tables import RAY, process, raylet, table

pytestmark = pytest.mark.process

NAME = "session_2026-11-21_08-02-10_714202_8139"


def session(temp: Path, name: str = NAME) -> Path:
    for part in ("sockets", "logs"):
        (temp / name / part).mkdir(parents=True)
    return temp / name


def only(scanner: SessionScanner, *processes):
    (folder,) = scanner.read(table(*processes)).folders
    return folder


def alive(path: Path) -> ProcessTable:
    """The processes of a host where the raylet of this session runs."""
    return table(raylet(session=str(path), uid=os.getuid()))


@contextmanager
def bound(address: object, family: int = socket.AF_UNIX) -> Iterator[socket.socket]:
    with socket.socket(family) as sock:
        sock.bind(address)
        yield sock


def test_a_session_lives_while_somebody_listens_on_its_socket(temp):
    path = session(temp)
    assert only(SessionScanner([str(temp)])).answers is False, "it has no socket"
    with bound(str(path / "sockets" / "raylet")) as sock:
        found = only(SessionScanner([str(temp)]))
        assert (found.path, found.answers, found.latest) == (str(path), False, False)
        assert found.facts.uid == path.stat().st_uid
        sock.listen()
        assert only(SessionScanner([str(temp)])).answers is True


SIGTERM = """[2026-11-21 18:34:52,499 I 24 24] (raylet) main.cc:481: Raylet graceful shutdown triggered with death info: reason: EXPECTED_\
TERMINATION
reason_message: "received SIGTERM"

[2026-11-21 18:34:52,538 I 24 24] (raylet) stats.h:176: Stats module has shutdown.
"""
"""The last lines of a raylet of 2.60 that `ray stop` ended."""
OLDER = "[2026-11-21 18:34:52,499 I 24 24] (raylet) main.cc:398: received SIGTERM. Existing local drain request = None"
CRASH = "[2026-11-21 18:34:52,499 C 24 24] (raylet) gcs_rpc_client.h:1 Failed to connect to GCS within 60 seconds"


@pytest.mark.parametrize(("words", "stopped"), [(SIGTERM, True), (OLDER, True), (CRASH, False), ("worker 7 received SIGTERM", False)])
def test_the_end_of_the_latest_raylets_log_shows_whether_it_got_sigterm(temp, words, stopped):
    path = session(temp)
    (path / "logs" / "raylet.out").write_text("quiet\n" * 9999 + words)
    assert only(SessionScanner([str(temp)])).stopped is None, "not the latest"
    (temp / "session_latest").symlink_to(path)
    assert only(SessionScanner([str(temp)])).stopped is stopped
    (path / "logs" / "raylet.out").unlink()
    assert only(SessionScanner([str(temp)])).stopped is None


def test_a_file_system_that_denies_its_own_entry_proves_nothing(temp, monkeypatch):
    """A user who may write there can mount another file system over one entry."""

    def is_gone(folder, name, users):
        raise FileNotFoundError(name)

    path = session(temp)
    (path / "sockets" / "raylet.2").touch()
    monkeypatch.setattr("cockpit.probe.sample.session_folder._listener", is_gone)
    assert only(SessionScanner([str(temp)])).answers is None


def test_a_stopped_raylet_with_a_full_queue_lives(temp):
    path = session(temp)
    callers = []
    with bound(str(path / "sockets" / "raylet.1")) as sock:
        sock.listen(0)
        for _ in range(3):
            callers.append(socket.socket(socket.AF_UNIX))
            callers[-1].setblocking(False)
            callers[-1].connect_ex(str(path / "sockets" / "raylet.1"))
        assert only(SessionScanner([str(temp)])).answers is True
        for caller in callers:
            caller.close()


def test_the_sockets_of_a_session_with_a_known_raylet_are_not_asked(temp):
    path = session(temp)
    assert only(SessionScanner(), raylet(session=str(path), uid=os.getuid())).answers is True


# Owners and their proofs


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
EVIL = 65534
RAYLET_OUT = f"""[2026-11-22 07:55:59,521 I 308 308] (raylet) main.cc:283: Setting cluster ID to: {"8a" * 28}
[2026-11-22 07:55:59,531 I 308 308] (raylet) main.cc:711: Setting node ID node_id={"1c" * 28}
"""
"""The first lines of 2.60; those of 2.44 are similar."""


def facts(temp: Path, *processes):
    return only(SessionScanner([str(temp)]), *processes).facts


def test_the_logs_of_a_session_name_its_raylets_also_of_a_new_one(temp):
    path, scanner = session(temp), SessionScanner([str(temp)])
    (path / "logs" / "raylet.out").touch()
    assert only(scanner).facts.raylets == set()
    (path / "logs" / "raylet.out").write_text(RAYLET_OUT)
    (path / "logs" / "raylet.1.out").write_text(RAYLET_OUT.replace("308", "309").replace("1c" * 28, "2d" * 28))
    (path / "logs" / "worker.out").write_text(RAYLET_OUT.replace("308", "310"))
    found = only(scanner).facts
    assert (found.raylets, found.nodes) == ({308, 309}, {"1c" * 28, "2d" * 28})
    assert found.uid == os.getuid()


@needs_root
def test_only_logs_of_the_sessions_owner_name_its_raylets(temp):
    """Ray makes `logs` writable for everybody."""
    path = session(temp)
    forged = path / "logs" / "raylet.out"
    forged.write_text(RAYLET_OUT)
    os.chown(forged, EVIL, EVIL)
    assert facts(temp).raylets == set()


@needs_root
def test_logs_read_for_one_owner_do_not_count_for_another(temp):
    """The attacker's logs were moved into root's session in place of root's."""
    path = session(temp)
    (path / "logs" / "raylet.out").write_text("[2026-11-21 18:34:52,499 I 77 77] (raylet) main.cc:1: x\n")
    for each in (path, path / "logs" / "raylet.out"):
        os.chown(each, 65534, 65534)
    scanner = SessionScanner([str(temp)])
    assert only(scanner).facts.raylets == {77}
    os.chown(path, 0, 0)
    assert only(scanner).facts.raylets == frozenset()


@pytest.mark.parametrize("planted", ["link", "pipe", "second name", "folder"])
def test_only_a_regular_file_with_one_name_counts(temp, tmp_path, planted):
    path, elsewhere = session(temp), temp / "elsewhere"
    elsewhere.write_text(RAYLET_OUT)
    log = path / "logs" / "raylet.out"
    {"link": lambda: log.symlink_to(elsewhere), "pipe": lambda: os.mkfifo(log), "second name": lambda: os.link(elsewhere, log),
     "folder": log.mkdir}[planted]()  # fmt: skip
    assert facts(temp).raylets == set()


PLANTED = """
mount -t tmpfs none /mnt
mkdir -p /mnt/his/logs /mnt/tmp/ray/$0
mount -t overlay overlay -o lowerdir=/usr:/mnt/his /mnt/tmp/ray/$0
exec -a raylet bash -c 'kill -STOP $$' --raylet_socket_name=x --session_dir=/mnt/tmp/ray/$0
"""
"""Root's /usr is mounted over the attacker's files: through the attacker's process it looks like root's folder with logs."""


@pytest.fixture
def his_raylet() -> Iterator[int]:
    """The pid of a user's process in its own mount namespace."""
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--map-root-user", "--mount"]
    with subprocess.Popen([*words, "bash", "-c", PLANTED, NAME], stdin=subprocess.DEVNULL, start_new_session=True) as program:
        try:
            assert os.WIFSTOPPED(os.waitpid(program.pid, os.WUNTRACED)[1]), "no namespaces for users here"
            yield program.pid
        finally:
            program.kill()


@needs_root
def test_file_owners_in_a_users_mount_namespace_are_not_trusted(his_raylet):
    found = ProcessScanner().scan()
    planted = SessionScanner([]).read({his_raylet: found[his_raylet]}).of[his_raylet]
    assert (os.stat(planted.path).st_uid, os.path.isdir(f"{planted.path}/logs")) == (0, True)
    assert (planted.uid, planted.mount_namespace) == (None, os.readlink(f"/proc/{his_raylet}/ns/mnt"))


@needs_root
def test_a_very_long_mount_table_is_not_read_to_its_end(his_raylet, monkeypatch):
    assert "overlay" in tree.mount_kinds(his_raylet).values()
    monkeypatch.setattr(tree, "MAX_MOUNTS_BYTES", 100)
    assert tree.mount_kinds(his_raylet) == {}


@needs_root
def test_a_temp_dir_in_a_users_mount_namespace_is_not_ours(his_raylet):
    temp = os.path.join("/proc", str(his_raylet), "root", "mnt/tmp/ray")
    assert os.path.isdir(f"{temp}/{NAME}")
    assert SessionScanner([temp]).read({}).temps == ()


@needs_root
def test_other_listeners_in_a_session_do_not_count(temp):
    """The kernel reports the listener."""
    path = session(temp)
    (path / "sockets").chmod(0o777)
    temp.chmod(0o755)
    listen = f"s=socket.socket(1); s.bind('{path}/sockets/raylet'); s.listen()"
    code = f"import os,socket,sys; os.setuid({EVIL}); {listen}; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        found = facts(temp)
        child.communicate(b"")
    assert found.listeners == (SocketListener(child.pid, EVIL),)
    assert found.answers is False


def test_with_few_descriptors_left_a_live_session_is_never_called_dead(temp):
    path = session(temp)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{path}/sockets/raylet")
        sock.listen()
        folder = os.open(path, os.O_RDONLY)
        used, (soft, hard) = max(map(int, os.listdir("/proc/self/fd"))), resource.getrlimit(resource.RLIMIT_NOFILE)
        fillers = [os.dup(folder) for _ in range(used + 1 - len(os.listdir("/proc/self/fd")))]
        try:
            found = []
            for left in range(5):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + left, hard))
                found.append(answers(folder, os.getuid()))
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for one in (folder, *fillers):
                os.close(one)
    assert (found[0], found[-1]) == (None, True)
    assert False not in found


def test_a_session_with_a_second_path_by_a_link_is_one_session(temp, tmp_path):
    path = session(temp)
    (tmp_path / "link").symlink_to(temp)
    linked = f"{tmp_path}/link/{NAME}"
    seen = table(raylet(session=linked, uid=os.getuid()), process(300, logs=[f"{path}/logs/job-driver-x.log"]))
    found = SessionScanner().read(seen)
    assert found.of[100].is_same(found.of[300])
    assert found.of[100].place == found.of[300].place is not None
    assert [folder.answers for folder in found.folders] == [True]


def test_if_there_are_too_many_sessions_the_latest_are_read(temp, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    for number in range(5):
        session(temp, f"{NAME}{number}")
    found = SessionScanner([str(temp)]).read(table()).folders
    assert [folder.path[-1] for folder in found] == ["2", "3", "4"]


def test_a_temp_dir_that_was_once_found_is_remembered(temp):
    path = session(temp)
    scanner = SessionScanner()
    scanner.read(alive(path))
    assert only(scanner).answers is False


def test_session_latest_points_to_the_latest_session(temp):
    session(temp)
    os.symlink(session(temp, NAME + "1"), temp / "session_latest")
    found = SessionScanner([str(temp)]).read(table()).folders
    assert [folder.latest for folder in found] == [False, True]
    started = subprocess.check_output(["date", "-d", f"@{found[0].started:.0f}", "+%F_%H-%M-%S"], text=True).strip()
    assert started == "2026-11-21_08-02-10", "its start is read from its name"


def test_a_chain_of_links_hides_no_session(temp):
    session(temp)
    os.symlink("nowhere", temp / "0")
    for number in range(1, 1500):
        os.symlink(str(number - 1), temp / str(number))
    os.symlink("1499", temp / "session_latest")
    assert only(SessionScanner((str(temp),))).latest is False


def test_other_names_in_the_temp_dir_hide_no_session(temp, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_LOGS", 3)
    for number in range(50):
        (temp / f"a{number}").touch()
    session(temp)
    assert only(SessionScanner((str(temp),)))


def test_only_folders_named_like_sessions_count_once_under_all_names_of_the_temp_dir(temp, tmp_path):
    session(temp)
    (temp / "session_notes").mkdir()
    (temp / (NAME + "9")).touch()
    os.symlink(temp, tmp_path / "link")
    assert len(SessionScanner([str(temp), str(tmp_path / "link")]).read(table()).folders) == 1


def test_a_process_with_an_open_driver_log_is_a_driver(temp):
    path = session(temp)
    log = f"{path}/logs/python-core-driver-01000000ffffffff_"
    code = f"import os,sys; f=open('{log}%d.log' % os.getpid(), 'w'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        (path / "logs" / f"python-core-driver-02000000ffffffff_{os.getpid()}.log").touch()
        seen = {**ProcessScanner().scan(), 100: raylet(session=str(path), uid=os.getuid())}
        drivers = SessionScanner().read(seen).drivers
        child.communicate(b"")
    assert {pid: (driver.session, driver.job) for pid, driver in drivers.items() if driver.session == str(path)} == {
        child.pid: (str(path), "01000000")
    }


def test_the_last_write_of_each_job_is_read_in_a_live_session_with_the_rotated_logs_of_its_raylets(temp, monkeypatch):
    path = session(temp)
    for number, name in enumerate(("job-driver-raysubmit_a.log", "job-driver-my.log.log", "job-driver-.log", "raylet.out", "raylet.err")):
        (path / "logs" / name).touch()
        os.utime(path / "logs" / name, (1000 + number, 1000 + number))
    for name in ("raylet.1.out", "raylet.out.1", "raylet.outside", "raylet_x.out"):
        (path / "logs" / name).touch()
    assert SessionScanner([str(temp)]).read(table()).logs == (), "the logs of a dead session are left alone"
    (logs,) = SessionScanner().read(alive(path)).logs
    assert date_writes([logs]) == {"raysubmit_a": 1000.0, "my.log": 1001.0}
    assert (logs.path, logs.raylets) == (f"{path}/logs", ("raylet.1.out", "raylet.out", "raylet.out.1"))
    (path / "logs" / "job-driver-raysubmit_a.log").write_text("more")
    assert date_writes([logs])["raysubmit_a"] > 1001
    monkeypatch.setattr(sessions, "MAX_JOBS", 1)
    assert list(date_writes([logs])) == ["raysubmit_a"], "only the latest are reported if there are too many"


def dashboard(session: Path, pid: int, port: int, retries: int = 0, host: str = "0.0.0.0"):
    command = f"python {RAY}/dashboard/dashboard.py --host={host} --port={port} --port-retries={retries} --session-dir={session}"
    return process(pid, command, ticks=read_stat(pid).ticks if read_stat(pid) else 1, uid=os.getuid())


@pytest.mark.parametrize(
    ("family", "address", "asked"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "0.0.0.0", "127.0.0.1"), (socket.AF_INET6, "::", "[::1]")],
)
def test_a_dashboard_has_the_address_on_which_it_really_listens(temp, family, address, asked):
    path = session(temp)
    with bound((address, 0), family) as sock:
        sock.listen()
        port = sock.getsockname()[1]
        found = SessionScanner().read(table(dashboard(path, os.getpid(), port - 3, retries=5))).dashboards
    assert found == {str(path): f"http://{asked}:{port}"}


def test_a_dashboard_that_does_not_listen_yet_or_of_another_user_has_no_address(temp):
    path = session(temp)
    scanner = SessionScanner()
    with bound(("127.0.0.1", 0), socket.AF_INET) as sock:
        port = sock.getsockname()[1]
        ours = dashboard(path, os.getpid(), port)
        assert scanner.read(table(ours)).dashboards == {}
        sock.listen()
        assert scanner.read(table(ours)).dashboards == {str(path): f"http://127.0.0.1:{port}"}
        theirs = process(os.getpid(), " ".join(ours.details.argv), uid=EVIL)
        assert SessionScanner().read(table(theirs)).dashboards == {}


def test_log_files_are_counted_and_their_nodes_are_named(temp):
    path = session(temp)
    (path / "logs" / "raylet.out").write_text(RAYLET_OUT)
    for number in range(7):
        (path / "logs" / f"worker-{number}.out").touch()
    scanner = SessionScanner([str(temp)])
    assert (only(scanner).log_files, only(scanner).nodes) == (8, ("1c" * 28,))
    (path / "logs" / "worker-9.out").touch()
    assert only(scanner).log_files == 9
