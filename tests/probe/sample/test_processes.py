"""Reading /proc: odd names, processes that end meanwhile, processes that never answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cockpit.probe.sample import processes
from cockpit.probe.sample.proc import PAGE_BYTES, Users, boot_time, make_legible, user_name
from cockpit.probe.sample.processes import Details, ProcessScanner, ScannedProcess, parse_stat, read_details, read_environ, read_stat

pytestmark = pytest.mark.process

CAPTURED = (
    b"8913 (ray::A) S 8432 8913 4637 0 -1 4194304 21873 0 0 0 117 21 0 0 35 15 27 0 27283 13894438912 17291 "
    b"18446744073709551615 4194304 4197033 140722 0 0 0 0 16781312 134235650 0 0 0 17 1 0 0 0 0 0 6340 6884 3420 14072 140 1407 14073 0\n"
)


def test_a_captured_stat_is_read():
    assert parse_stat(CAPTURED) == ScannedProcess(8913, "ray::A", "S", 8432, 8913, 4637, 27283, 17291 * PAGE_BYTES, threads=27)


@pytest.mark.parametrize("name", ["a b", "(sd-pam)", ") S 1 (", "tmux: server", "ü", ""])
def test_a_name_may_hold_anything(name):
    text = CAPTURED.replace(b"(ray::A)", b"(" + name.encode() + b")")
    assert parse_stat(text)[:4] == (8913, name, "S", 8432)


def test_a_process_that_has_ended_has_no_stat_and_no_environment():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert read_stat(ended.pid) is None
    assert read_environ(ended.pid) is None


def test_the_scan_finds_this_process_with_its_command_and_user():
    found = ProcessScanner().scan()[os.getpid()]
    assert found.parent == os.getppid()
    assert found.details.uid == os.getuid()
    assert found.command.split() == Path("/proc/self/cmdline").read_text().replace("\0", " ").split()
    assert 1e6 < found.rss < 1e11
    assert (found.ns_pid, found.details.apart) == (None, False), "it runs in our namespaces"


def test_kernel_threads_are_left_out():
    assert all(
        process.details.argv or not process.alive or process.details.uid is None
        for process in ProcessScanner().scan().values()
        if process.parent == 2
    )
    assert 2 not in ProcessScanner().scan()


def test_the_command_is_read_again_if_a_process_renames_itself():
    scanner = ProcessScanner()
    with subprocess.Popen(["sh", "-c", "read line; exec sleep 60"], stdin=subprocess.PIPE) as child:
        try:
            assert scanner.scan()[child.pid].command.startswith("sh -c")
            assert child.stdin
            child.stdin.write(b"\n")
            child.stdin.close()
            while scanner.scan()[child.pid].command.startswith("sh -c") or not scanner.scan()[child.pid].command:
                pass
            assert scanner.scan()[child.pid].command == "sleep 60"
        finally:
            child.kill()


def test_a_process_that_ends_during_the_scan_is_not_found():
    """Otherwise it would count as alive, with an unknown user, and left-over files would seem to belong to a user with processes."""
    with subprocess.Popen(["sleep", "60"]) as child:

        def look(stat: ScannedProcess) -> Details:
            if stat.pid == child.pid:
                child.kill()
                child.wait()
            return read_details(stat)

        found = ProcessScanner(look).scan()
    assert os.getpid() in found
    assert child.pid not in found


def test_only_an_unsettled_process_is_read_again():
    looks = iter([Details(settled=False), Details(argv=("python",))])
    scanner = ProcessScanner(lambda stat: next(looks) if stat.pid == os.getpid() else Details())
    assert [scanner.scan()[os.getpid()].command for _ in range(3)] == ["", "python", "python"]


def test_a_new_process_is_not_settled(monkeypatch):
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert not read_details(read_stat(child.pid)).settled
        finally:
            child.kill()
    monkeypatch.setattr(processes, "SETTLED_AFTER_S", 0.0)
    assert read_details(read_stat(os.getpid())).settled


def test_a_hanging_process_is_marked_and_delays_no_other():
    never, asked = threading.Event(), []

    def look(stat: ScannedProcess) -> Details:
        if stat.pid == os.getpid():
            asked.append(stat.pid)
            never.wait()
        return Details(argv=("read",))

    scanner = ProcessScanner(look, patience=0.2)
    try:
        found = scanner.scan()
        assert found[os.getpid()].details.stuck
        assert all(process.details.argv == ("read",) for pid, process in found.items() if pid != os.getpid())
        assert scanner.scan()[os.getpid()].details.stuck
        assert len(asked) == 1
    finally:
        never.set()
    while scanner.scan()[os.getpid()].details.stuck:
        pass


def test_while_one_process_hangs_the_others_keep_their_latest_details():
    """A process is read again after exec, and keeps these new details."""
    never, told = threading.Event(), iter(("first", "second"))
    with subprocess.Popen(["sleep", "60"]) as other, subprocess.Popen(["sleep", "60"]) as hanging:

        def look(stat: ScannedProcess) -> Details:
            if stat.pid == hanging.pid:
                never.wait()
            return Details(argv=(next(told),) if stat.pid == other.pid else (), settled=stat.pid != other.pid)

        scanner = ProcessScanner(look, patience=0.2)
        try:
            assert scanner.scan()[other.pid].details.argv == ("first",)
            assert scanner.scan()[other.pid].details.argv == ("second",)
            known = scanner._known[read_stat(other.pid).identity]
            scanner._known[read_stat(other.pid).identity] = known[0], known[1]._replace(settled=True)
            assert scanner.scan()[other.pid].details.argv == ("second",)
        finally:
            never.set()
            other.kill()
            hanging.kill()


def test_a_zombie_is_seen_as_one():
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        while read_stat(child.pid).state != "Z":
            pass
        found = ProcessScanner().scan()[child.pid]
        assert not found.alive
        assert found.command == ""
    finally:
        child.wait()


def test_the_whole_environment_is_read():
    with subprocess.Popen(["sleep", "60"], env={"A": "1", "B": "x=y\nz", "EMPTY": "", "ODD": os.fsdecode(b"\xff")}) as child:
        try:
            while not read_environ(child.pid) or read_stat(child.pid).name != "sleep":
                pass  # it has none during exec
            found = read_environ(child.pid)
            assert found == {"A": "1", "B": "x=y\nz", "EMPTY": "", "ODD": os.fsdecode(b"\xff")}
            assert make_legible(found["ODD"]) == "\ufffd"
        finally:
            child.kill()


def test_users_have_names_or_numbers():
    assert user_name(0) == "root"
    assert user_name(4242424) == "4242424"
    assert Users().name(None) is None


def test_a_hanging_user_database_delays_nothing():
    answers = threading.Event()

    def look(uid: int) -> str:
        answers.wait()
        return f"user{uid}"

    users = Users(look, patience=0.2)
    assert [users.name(uid) for uid in range(1000, 1050)] == [str(uid) for uid in range(1000, 1050)]
    answers.set()
    while users.name(1049) != "user1049":
        time.sleep(0.01)
    assert users.name(1000) == "user1000"


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.parametrize(("namespaces", "ns_pid"), [(["--pid", "--fork"], 1), (["--cgroup"], None)])
def test_a_process_in_a_container_is_apart_and_has_a_pid_of_its_own(namespaces, ns_pid):
    allowed = subprocess.run(["unshare", *namespaces, "true"], capture_output=True)
    if allowed.returncode:
        pytest.skip("no namespaces can be made here")
    with subprocess.Popen(["unshare", "--kill-child", *namespaces, "sleep", "600.25"]) as child:
        try:
            found = None
            while found is None:
                assert child.poll() is None
                found = next(
                    (one for one in ProcessScanner().scan().values() if one.name == "sleep" and one.command == "sleep 600.25"), None
                )
            assert (found.ns_pid, found.details.apart) == (ns_pid, True)
        finally:
            child.kill()


def test_this_host_was_started_in_the_past():
    assert 1e9 < boot_time() < os.stat("/proc/self").st_mtime


def test_the_job_of_a_worker_that_waited_for_one_is_read_from_its_log(tmp_path):
    log = tmp_path / "session_2026-11-21_08-02-10_714202_8139" / "logs" / "worker-8ce8f3-ffffffff-8913.out"
    log.parent.mkdir(parents=True)
    log.write_text(":job_id:03000000\n:actor_name:A\n")
    with log.open("a") as out, subprocess.Popen(["sleep", "60"], stdout=out, env={"RAY_JOB_ID": "ffffffff"}) as child:
        try:
            while not read_environ(child.pid):
                pass
            origin = read_details(read_stat(child.pid)).origin
        finally:
            child.kill()
    assert (origin.worker, origin.job, origin.session) == (8913, "03000000", str(log.parents[1]))


def test_a_process_that_names_a_network_interface_is_reported_with_its_interfaces(monkeypatch):
    monkeypatch.setattr(
        "cockpit.probe.sample.processes.read_environ_bytes", lambda _: b"RAY_JOB_ID=01\0NCCL_SOCKET_IFNAME=eth7\0X_NCCL_SOCKET_IFNAME=y\0"
    )
    found = read_details(read_stat(os.getpid()))
    assert found.environ == {"RAY_JOB_ID": "01", "NCCL_SOCKET_IFNAME": "eth7"}
    assert "lo" in found.interfaces.names
    monkeypatch.setattr("cockpit.probe.sample.processes.read_environ_bytes", lambda _: b"RAY_JOB_ID=01\0")
    assert read_details(read_stat(os.getpid())).interfaces is None
