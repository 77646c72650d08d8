"""A signal reaches the right process, or none."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from cockpit.probe.actions import signals
from cockpit.probe.actions.signals import ProtectedError, end, open_handle
from cockpit.probe.sample.processes import read_stat
from tests.probe.waiting import until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print(1, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
HANGING = """
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    signal(SIGTERM, SIG_IGN);
    if (vfork() == 0) { char text[16]; write(1, text, (size_t)snprintf(text, 16, "%d\\n", getpid())); pause(); _exit(0); }
    return 0;
}
"""


@pytest.fixture
def run():
    """Starts a process, waits for its first line if `said`, and ends it after the test."""
    with ExitStack() as kept:

        def begin(*command: str, prints: bool = False, **more: object) -> subprocess.Popen:
            process = kept.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE if prints else None, **more))
            kept.callback(process.kill)
            if prints:
                process.line = process.stdout.readline()
            return process

        yield begin


@pytest.fixture(params=["pidfd", "old Python", "no pidfd"])
def way(request, monkeypatch):
    """Each way to hold a process."""
    if request.param == "old Python":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.delattr(signal, "pidfd_send_signal", raising=False)
    if request.param == "no pidfd":
        monkeypatch.setattr(signals, "_pidfd_open", lambda _: None)
    return request.param


def held(process: subprocess.Popen):
    stat = read_stat(process.pid)
    assert stat
    found = open_handle(process.pid, stat.ticks)
    assert found
    return found


def ending(process: subprocess.Popen, *words: object, **more: object):
    one = held(process)
    return end([one], *words, **more)[one.identity]


def test_a_process_that_honours_term_is_never_killed(run, way):
    process = run("sleep", "60")
    found = ending(process, 10.0)
    assert found.gone
    assert found.text.startswith("ended by SIGTERM after ")
    assert process.wait(60) == -signal.SIGTERM


def test_a_process_that_ignores_term_is_killed_after_the_grace_and_not_before(run, way):
    process = run(sys.executable, "-c", STUBBORN, prints=True)
    began = time.monotonic()
    found = ending(process, 0.4)
    assert time.monotonic() - began > 0.4
    assert found.gone
    assert found.text.startswith("ended by SIGKILL after ")
    assert process.wait(60) == -signal.SIGKILL


def test_with_only_term_a_process_that_ignores_it_stays_and_is_reported_and_force_kills_it_at_once(run):
    process = run(sys.executable, "-c", STUBBORN, prints=True)
    found = ending(process, 0.2, last=None)
    assert not found.gone
    assert "last signal: SIGTERM" in found.text
    assert process.poll() is None
    assert ending(process, 30.0, signal.SIGKILL).gone
    assert process.wait(60) == -signal.SIGKILL


def test_a_stopped_process_is_continued_so_that_term_ends_it(run, way):
    process = run("sleep", "60")
    process.send_signal(signal.SIGSTOP)
    until(lambda: read_stat(process.pid).state == "T", "it stops")
    assert ending(process, 20.0).text.startswith("ended by SIGTERM")


def test_this_program_and_its_ancestors_cannot_be_held():
    for pid in (os.getpid(), os.getppid(), 1):
        with pytest.raises(ProtectedError):
            open_handle(pid, read_stat(pid).ticks)


def test_another_start_time_is_another_process(run, way):
    process = run("sleep", "60")
    assert open_handle(process.pid, read_stat(process.pid).ticks - 1) is None


def test_a_zombie_has_ended(run, way):
    process = run("sleep", "60")
    before = held(process)
    process.kill()
    until(lambda: read_stat(process.pid).state == "Z", "it ends")
    assert before.state() is None
    assert open_handle(process.pid, before.ticks) is None
    assert end([before], 1.0)[before.identity].text == "had already ended"


def test_a_process_whose_main_thread_has_ended_is_alive(run, way):
    """It looks like a zombie but keeps all its resources: a process that hangs in a driver often has such a live thread."""
    process = run(sys.executable, "-c", LEADERLESS, prints=True)
    until(lambda: b" Z " in Path(f"/proc/{process.pid}/stat").read_bytes(), "the main thread ends")
    one = held(process)
    assert one.state() is not None
    assert end([one], 10.0)[one.identity].text.startswith("ended by SIGTERM")


def test_a_process_that_hangs_in_the_kernel_is_reported(run, tmp_path):
    """A parent in vfork waits like a process in a driver."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler here")
    (tmp_path / "hanging.c").write_text(HANGING)
    subprocess.run([compiler, "-w", "-o", tmp_path / "hanging", tmp_path / "hanging.c"], check=True)
    process = run(str(tmp_path / "hanging"), prints=True)
    try:
        until(lambda: read_stat(process.pid).state == "D", "it hangs")
        found = ending(process, 0.2, last=None)
    finally:
        os.kill(int(process.line), signal.SIGKILL)
    assert not found.gone
    assert "hangs in the kernel (state D)" in found.text
    assert "reset" in found.text


def test_the_kernels_refusal_for_another_users_process_is_reported(run):
    if os.geteuid() != 0:
        pytest.skip("needs root to be another user")
    process = run("sleep", "60")
    mine, its = os.pipe()
    if os.fork() == 0:
        try:
            os.setresuid(65534, 65534, 65534)
            os.write(its, ending(process, 0.1).text.encode())
        finally:
            os._exit(0)
    os.close(its)
    os.wait()
    assert "belongs to another user" in os.read(mine, 4096).decode()
    os.close(mine)
    assert process.poll() is None


@pytest.mark.parametrize("more", [True, False], ids=["the limit can be raised", "it can't"])
def test_more_processes_than_files_may_be_open(run, monkeypatch, more):
    processes = [run("sleep", "60") for _ in range(150)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not more:
        monkeypatch.setattr(signals, "_raise_file_limit", lambda: False)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (signals.SPARE_FILES + 80, hard))
        handles = [held(process) for process in processes]
        assert all(one.state() for one in handles)
        found = end(handles, 20.0)
    finally:
        for one in handles:
            one.release()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(one.text.startswith("ended by SIGTERM") for one in found.values())
    assert len(found) == 150


REUSED = """
import os, subprocess, sys, time
from pathlib import Path
from cockpit.probe.actions import signals
from cockpit.probe.sample.processes import read_stat

subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
if sys.argv[1] == "no pidfd":
    signals._pidfd_open = lambda _: None
first = subprocess.Popen(["sleep", "60"])
one = signals.open_handle(first.pid, read_stat(first.pid).ticks)
first.kill(), first.wait()
while time.clock_gettime(time.CLOCK_BOOTTIME) < (one.ticks + 1) / os.sysconf("SC_CLK_TCK"):
    time.sleep(0.001)  # of the same tick, it would be the same process
for _ in range(200):
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
    second = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    if second.pid == first.pid:
        break
    second.kill(), second.wait()
assert second.pid == first.pid, (first.pid, second.pid)
assert signals.open_handle(second.pid, one.ticks) is None
print(signals.end([one], 0.2)[one.identity])
second.stdin.write(b"there?\\n")
assert second.stdout.readline() == b"there?\\n", "the wrong process was ended"  # a signal would have come before these words
second.kill()
"""


@pytest.mark.parametrize("how", ["pidfd", "no pidfd"])
def test_a_pid_that_is_another_process_now_is_never_hit(how):
    apart = ["unshare", "--pid", "--mount", "--fork", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces of its own, to choose pids")
    played = subprocess.run(
        [*apart, sys.executable, "-c", REUSED, how],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert played.returncode == 0, played.stderr
    assert "had already ended" in played.stdout
