"""Attacks by a user without rights with own processes and files: the probe neither starves nor hangs nor trusts too much."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cockpit.probe import trust
from cockpit.probe.sample import processes, session_folder, sessions
from cockpit.probe.sample.oom_kills import MAX_LINE_CHARS, KillScanner
from cockpit.probe.sample.processes import ProcessScanner, read_details, read_environ, read_stat
from cockpit.probe.sample.sessions import SessionScanner
from cockpit.probe.trust import Account, account_of, why_not_interpret, why_not_run
from tests.probe.silent_kernel import SilentKernel

pytestmark = pytest.mark.process

MALLORY = 12345
NAME = "session_2026-11-20_08-02-10_714202_"
SYSTEM_PYTHON = "/usr/bin/python3"
"""Every user may run it."""
STAYS = "import sys; print('ready', flush=True); sys.stdin.read()"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")

ENDLESS = """
import ctypes, struct, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
code, end, stack, data, data_end, heap, words, words_end = (int(fields[n - 3]) for n in (26, 27, 28, 45, 46, 47, 48, 49))
size = 100 << 30
begin = libc.mmap(None, size, 3, 0x4022, -1, 0)
said = struct.pack("=12QIi", code, end, data, data_end, heap, libc.sbrk(0), stack, words, words_end, begin, begin + size, 0, 0, -1)
print(libc.prctl(35, 14, ctypes.create_string_buffer(said, len(said)), len(said), 0), flush=True)
sys.stdin.read()
"""
"""100 GiB of untouched memory that it declares to be its environment (PR_SET_MM_MAP)."""


@pytest.fixture
def run() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process as a user, and waits for its first output."""
    with ExitStack() as stack:

        def begin(*words: str, user: int = MALLORY, **more: object) -> subprocess.Popen[str]:
            as_user = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
            child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", **{**as_user, **more}  # type: ignore[call-overload]
            )  # fmt: skip
            stack.callback(child.wait)
            stack.callback(child.kill)
            assert child.stdout
            child.word = child.stdout.readline().strip()
            return child

        yield begin


@pytest.fixture
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every user can enter."""
    path = Path("/tmp") / f"attack{os.getpid()}"
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


def root_only(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# Endless


def test_an_environment_of_a_hundred_gibibytes_is_read_to_its_limit(run, monkeypatch):
    monkeypatch.setattr(processes, "MAX_ENVIRON_BYTES", 1 << 20)
    child = run(SYSTEM_PYTHON, "-c", ENDLESS)
    if child.word != "0":
        pytest.skip("this kernel lets nobody say where his environment lies")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_environ(child.pid) == {}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    found = read_stat(child.pid)
    assert found
    assert read_details(found).environ == {}


@pytest.mark.parametrize(
    "word",
    ["/" * 65_000, "/session_2026-11-21_08-02-10_7_8x" * 1900, "=/" * 32_000, "/:" * 32_000],
    ids=["slashes", "sessions", "equals", "colons"],
)
def test_a_command_line_of_slashes_is_read_in_linear_time(run, word):
    """A stand-in for a pattern that takes a minute and blocks every thread of the probe."""
    child = run("raylet", "-c", STAYS, "--raylet_socket_name=x", word, executable=SYSTEM_PYTHON)
    found = read_stat(child.pid)
    assert found
    began = time.thread_time()
    assert read_details(found).origin.role == "raylet"
    assert time.thread_time() - began < 1


def test_a_raylets_log_of_endless_lines_costs_little(tmp_path):
    log = tmp_path / (NAME + "7") / "logs" / "raylet.out"
    log.parent.mkdir(parents=True)
    log.write_text(("Selected to kill: (x: " + "task name=, required resources=" * 200 + "\n") * 160)
    began = time.thread_time()
    assert KillScanner(SilentKernel()).read([str(log)]) == []
    assert time.thread_time() - began < 2
    assert MAX_LINE_CHARS < 10_000


@needs_root
def test_another_users_raylet_log_in_a_session_reports_no_kill(tmp_path):
    recorded = Path(__file__).parents[1] / "recorded" / "2.60" / "raylet_kills.txt"
    path = tmp_path / (NAME + "7") / "logs" / "raylet.9.out"
    path.parent.mkdir(parents=True)
    path.write_bytes(recorded.read_bytes())
    moment = time.mktime(time.strptime("2026-11-21 15:25:20", "%Y-%m-%d %H:%M:%S"))
    os.utime(path, (moment, moment))
    assert KillScanner(SilentKernel(), now=lambda: moment).read([str(path)])
    os.chown(path, MALLORY, MALLORY)
    assert KillScanner(SilentKernel(), now=lambda: moment).read([str(path)]) == []


@needs_root
def test_the_user_of_a_hanging_process_is_known(run):
    """Otherwise it would count as a raylet of any user."""
    child = run("raylet", "-c", STAYS, executable=SYSTEM_PYTHON)
    found = read_stat(child.pid)
    assert found
    over = threading.Event()
    scanner = ProcessScanner(lambda _: (over.wait(600), processes.Details())[1], patience=0.2)
    scanner._read_all([found])
    over.set()
    ((_, details),) = scanner._known.values()
    assert (details.stuck, details.uid) == (True, MALLORY)


def test_many_hanging_processes_cost_one_scan_a_few_seconds():
    over = threading.Event()

    def look(found: processes.ScannedProcess) -> processes.Details:
        if found.pid != os.getpid():
            over.wait(600)
        return processes.Details()

    scanner = ProcessScanner(look, patience=1.0)
    began = time.monotonic()
    stats = [processes.ScannedProcess(os.getpid() + n, "stuck", "S", 1, 1, 1, 5, 0) for n in range(1, 41)]
    scanner._read_all(stats)
    over.set()
    assert time.monotonic() - began < 20
    assert all(details.stuck for _, details in scanner._known.values())
    assert len(scanner._known) == 40


# Limited places


@needs_root
def test_a_thousand_sessions_of_another_user_hide_none_of_ours(common, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_OF_ONE", 19)
    common.chmod(0o777)
    ours = common / (NAME + "1")
    ours.mkdir()
    for number in range(50):
        path = common / f"session_2099-11-20_08-02-10_714202_{number}"
        path.mkdir()
        os.chown(path, MALLORY, MALLORY)
    found = SessionScanner([str(common)]).read({}).folders
    assert str(ours) in [folder.path for folder in found]
    assert len(found) == 20


@needs_root
def test_temp_dirs_of_another_users_processes_hide_none_of_ours(common, monkeypatch):
    from tests.probe.process_tables import process, table

    monkeypatch.setattr(sessions, "MAX_TEMPS", 10)
    theirs = [common / f"t{number}" for number in range(30)]
    for path in (*theirs, common / "ours" / "ray"):
        path.mkdir(parents=True)
    mine = process(99, "sleep", uid=0, RAY_TMPDIR=str(common / "ours"))
    crowd = [
        process(100 + at, f"raylet --raylet_socket_name=x --session_dir={path}/{NAME}{at}", uid=MALLORY) for at, path in enumerate(theirs)
    ]
    temps = SessionScanner().read(table(*crowd, mine)).temps
    assert temps[0] == str(common / "ours" / "ray")
    assert len(temps) == 10


def test_a_filled_folder_of_sockets_costs_little_and_proves_no_death(tmp_path, monkeypatch):
    monkeypatch.setattr(session_folder, "MAX_SOCKETS", 50)
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    held = os.open(tmp_path, trust.FOLDER)
    for number in range(50):
        (sockets / f"x{number}").touch()
    assert session_folder.find_listeners(held) == ()
    (sockets / "y").touch()
    assert session_folder.find_listeners(held) is None
    os.close(held)


# Trusted sources


@needs_root
def test_a_link_in_a_sockets_place_does_not_make_a_listener_root(common, monkeypatch):
    """Between the check of a dead socket and the connection to it, a link to a socket of root takes its place."""
    sockets = common / "sockets"
    sockets.mkdir(mode=0o777)
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as dead:
        listening.bind(str(common / "daemon"))
        listening.listen()
        dead.bind(str(sockets / "raylet"))
        held = os.open(common, trust.FOLDER)
        ask = session_folder._ask

        def late(*words: object) -> object:
            (sockets / "raylet").unlink()
            (sockets / "raylet").symlink_to(common / "daemon")
            return ask(*words)  # type: ignore[arg-type]

        monkeypatch.setattr(session_folder, "_ask", late)
        assert session_folder.find_listeners(held) == ()
        os.close(held)


@needs_root
def test_a_user_who_passes_a_socket_to_root_stays_its_owner(common):
    sockets = common / "sockets"
    sockets.mkdir(mode=0o777)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(sockets / "raylet"))
        listening.listen()
        os.chown(sockets / "raylet", MALLORY, MALLORY)
        held = os.open(common, trust.FOLDER)
        found = session_folder.find_listeners(held)
        os.close(held)
    assert [one.uid for one in found or ()] == [MALLORY]


SUDO = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include <stdio.h>
int main(void) { char c; if (setresuid(0, 0, 0)) return 1; puts("ready"); fflush(stdout); return read(0, &c, 1) < 0; }
"""
"""Like sudo waiting for a password: it runs as root, but its caller has chosen its name and words."""


@needs_root
@pytest.mark.parametrize("name", ["raylet", "gcs_server", "python"])
def test_a_setuid_program_is_no_part_of_ray(run, common, name):
    source = root_only(common / "sudo.c", SUDO)
    subprocess.run(["gcc", "-o", str(common / "sudo"), str(source)], check=True)
    (common / "sudo").chmod(0o4755)
    words = ("--raylet_socket_name=x", "--log_dir=x", f"--session_dir=/tmp/ray/{NAME}1", "--port=8265")
    script = ("/ray/dashboard/dashboard.py",) if name == "python" else ()
    child = run(name, *script, *words, executable=str(common / "sudo"))
    found = read_stat(child.pid)
    assert found
    details = read_details(found)
    assert (details.uid, details.origin.role, details.origin.session) == (0, None, None)


@needs_root
def test_a_group_number_is_never_cut_into_another_one(run):
    groups = list(range(100_000, 101_600))
    child = run(SYSTEM_PYTHON, "-c", STAYS, extra_groups=groups)
    assert account_of(child.pid) == Account(MALLORY, MALLORY, tuple(groups))
    found = read_stat(child.pid)
    assert found
    assert read_details(found).pids == (child.pid,)


# Opened files and started programs


def test_a_pipe_or_device_is_not_even_opened(tmp_path, monkeypatch):
    """Opening some devices has an effect, and opening a pipe would release its waiting writer."""
    pipe = tmp_path / "raylet.out"
    os.mkfifo(pipe)
    flags: list[int] = []
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, flag, **more: (flags.append(flag), really(path, flag, **more))[1])
    with pytest.raises(FileNotFoundError, match="not a regular file"), trust.open_file(str(pipe)):
        pass
    assert len(flags) == 1
    assert flags[0] & os.O_PATH


@needs_root
def test_a_log_that_is_swapped_for_a_pipe_during_the_check_is_not_read(common):
    path = common / "raylet.out"
    path.write_text("told")
    with trust.open_file(str(path)) as handle:
        path.unlink()
        os.mkfifo(path)
        assert os.read(handle, 9) == b"told"


@needs_root
def test_root_does_not_run_a_program_that_an_access_list_lets_others_change(common):
    program = root_only(common / "bin" / "tool", "#!/bin/sh\n")
    program.chmod(0o775)
    assert why_not_run(str(program), 0) is None
    rows = [(0x01, 7, 0xFFFFFFFF), (0x02, 7, MALLORY), (0x04, 5, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF), (0x20, 5, 0xFFFFFFFF)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    try:
        os.setxattr(program, "system.posix_acl_access", listed)
    except OSError:
        pytest.skip("no access lists on this file system")
    assert stat.S_IMODE(program.stat().st_mode) == 0o775
    assert "access list" in (why_not_run(str(program), 0) or "")


@needs_root
def test_root_does_not_run_a_python_with_modules_in_another_users_folder(common):
    """The attacker's project is installed editable: every Python of that environment would run its `sitecustomize`, even with `-I`."""
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", "--copies", str(common / "venv")], check=True)
    python = common / "venv" / "bin" / "python"
    (places,) = (common / "venv" / "lib").glob("python3*/site-packages")
    his = common / "his"
    his.mkdir()
    (his / "sitecustomize.py").write_text("print('evil', flush=True)\n")
    for path in (his, his / "sitecustomize.py"):
        os.chown(path, MALLORY, MALLORY)
    assert why_not_interpret(str(python)) is None
    (places / "project.pth").write_text(f"# his\n{his}\n")
    assert subprocess.run([str(python), "-I", "-c", ""], capture_output=True, text=True, check=True).stdout in ("evil\n", "")
    assert f"project.pth leads to {his}: {his} belongs to user {MALLORY}" in (why_not_interpret(str(python)) or "")


@needs_root
def test_root_does_not_run_a_python_with_another_users_standard_library(common):
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", "--copies", str(common / "venv")], check=True)
    python = common / "venv" / "bin" / "python"
    (common / "his" / "lib" / "python3.11").mkdir(parents=True)
    os.chown(common / "his", MALLORY, MALLORY)
    settings = common / "venv" / "pyvenv.cfg"
    settings.write_text(f"home = {common}/his/bin\n")
    assert f"{common}/his belongs to user {MALLORY}" in (why_not_interpret(str(python)) or "")
    settings.write_text("home = /usr/bin\n")
    settings.chmod(0o666)
    assert f"{settings} can be written by everybody" in (why_not_interpret(str(python)) or "")


@needs_root
def test_roots_login_shell_reads_nothing_in_another_users_home(common, monkeypatch):
    """`sudo` may keep HOME; then a plan of `start` would run that user's profile."""
    from cockpit.probe.actions.start import installation

    home = common / "home"
    home.mkdir()
    for name in (".bash_profile", ".profile", ".bashrc", "env"):
        (home / name).write_text(f"touch {common}/ran\n")
        os.chown(home / name, MALLORY, MALLORY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("BASH_ENV", str(home / "env"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    installation._find_on_path()
    assert not (common / "ran").exists()
    environ = installation.environment("/usr/bin/ray", "root")
    assert environ["HOME"] != str(home)
    assert "BASH_ENV" not in environ
