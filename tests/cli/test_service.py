"""Services under a manager: one that the test plays, and a real systemd user manager."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cockpit.cli.service import serve
from cockpit.config.settings import load
from cockpit.monitor.poller import MAX_PUBLISH_PAUSE_S, Poller
from tests.cli.programs import started
from tests.cli.user_manager import user_manager, why_not

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
COCKPIT = str(Path(sys.executable).with_name("cockpit"))
SECOND_US = 1_000_000


@pytest.fixture
def address():
    with started([sys.executable, "-m", "tests.fakes.dashboard", "--nodes", "2"]) as dashboard:
        yield dashboard.stdout.readline().strip().removeprefix("address=")


@pytest.fixture
def manager():
    """The socket of a manager that the test plays, and the variables for its service."""
    name = f"cockpit-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind("\0" + name)
        bound.settimeout(30)
        yield bound, {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": str(120 * SECOND_US)}


def wait_for(bound, state):
    while bound.recv(100).decode() != state:
        pass


def silence(bound, seconds):
    """Whether nothing is received for so many seconds, once all that was already sent is read."""
    bound.setblocking(False)
    while True:
        try:
            bound.recv(100)
        except BlockingIOError:
            break
    bound.settimeout(seconds)
    try:
        return not bound.recv(100)
    except TimeoutError:
        return True
    finally:
        bound.settimeout(30)


def test_a_service_is_ready_after_the_first_answer_and_a_stopped_one_feeds_no_watchdog(manager, address):
    bound, variables = manager
    with started([COCKPIT, "record", "--address", address], env={**os.environ, **variables}) as child:
        wait_for(bound, "READY=1")
        wait_for(bound, "WATCHDOG=1")
        wait_for(bound, "WATCHDOG=1")
        child.send_signal(signal.SIGSTOP)
        assert silence(bound, 2 * MAX_PUBLISH_PAUSE_S)
        child.send_signal(signal.SIGCONT)
        wait_for(bound, "WATCHDOG=1")
        child.terminate()
        wait_for(bound, "STOPPING=1")
        assert child.wait() == 128 + signal.SIGTERM


def test_a_service_is_ready_while_ray_is_down(manager):
    bound, variables = manager
    with started([COCKPIT, "record", "--address", "http://127.0.0.1:9"], env={**os.environ, **variables}):
        wait_for(bound, "READY=1")


def test_a_poller_that_hangs_feeds_no_watchdog_although_the_rest_goes_on(manager, monkeypatch):
    """Its task waits for ever; the loop, the probe and the steps of the command run."""
    bound, variables = manager
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    async def hang(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(Poller, "run", hang)

    def attach(_, monitor):
        return lambda: 0 if monitor.poller.answered else None

    assert asyncio.run(serve(load({"address": "http://127.0.0.1:9"}), attach, every=0.01)) == 0
    assert bound.recv(100).decode() == "STOPPING=1"


# A real systemd


def until(what):
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def systemd():
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with user_manager() as running:
        yield running


@pytest.mark.parametrize("words", [("record",), ("metrics", "--listen", "127.0.0.1:0")], ids=lambda words: words[0])
def test_systemd_starts_a_hung_service_again_and_stops_it_without_a_failure(systemd, address, words):
    unit = f"cockpit-{words[0]}.service"
    text = subprocess.run([COCKPIT, *words, "--unit", "--address", address], capture_output=True, text=True, check=True).stdout
    # Only so that the test need not wait: the watchdog of 2 minutes, and the pauses before the kill and the restart.
    systemd.install(unit, text, "WatchdogSec=8", "TimeoutStopSec=1", "RestartSec=0", "StandardError=append:%h/log")

    begun = systemd.systemctl("start", unit)  # it waits for READY=1
    assert begun.returncode == 0, begun.stderr
    until(lambda: systemd.show(unit)["ActiveState"] == "active")
    first = systemd.process_of(unit)
    until(lambda: first.children())  # the probe of this host
    assert "NOTIFY_SOCKET" not in first.children()[0].environ()
    state = Path(f"/proc/{first.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in state
    assert "Seccomp:\t2" in state
    fed = systemd.show(unit)["WatchdogTimestampMonotonic"]
    until(lambda: systemd.show(unit)["WatchdogTimestampMonotonic"] != fed)

    first.suspend()
    until(lambda: systemd.show(unit)["NRestarts"] == "1" and systemd.show(unit)["ActiveState"] == "active")
    assert not psutil.pid_exists(first.pid)
    assert "Fatal Python error: Aborted" in (systemd.home / "log").read_text(), "the stacks of the hung one"

    assert systemd.systemctl("stop", unit).returncode == 0
    shown = systemd.show(unit)
    assert (shown["ActiveState"], shown["Result"]) == ("inactive", "success")
