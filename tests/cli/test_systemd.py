from __future__ import annotations

import os
import socket

import pytest

from cockpit.cli.systemd import ServiceNotifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """The socket of a service manager, and its name as NOTIFY_SOCKET has it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@cockpit-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(name.replace("@", "\0") if request.param == "abstract" else name)
        bound.setblocking(False)
        yield bound, name


def received(bound):
    messages = []
    try:
        while True:
            messages.append(bound.recv(100).decode())
    except BlockingIOError:
        return messages


def test_the_manager_hears_once_that_it_is_ready_and_each_time_that_it_is_alive(manager):
    bound, name = manager
    notifier = ServiceNotifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "120000000", "WATCHDOG_PID": str(os.getpid())})
    for _ in range(2):
        notifier.report_ready()
        notifier.feed_watchdog()
    notifier.report_stopping()
    assert received(bound) == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"]


@pytest.mark.parametrize("watchdog", [{}, {"WATCHDOG_USEC": "120000000", "WATCHDOG_PID": "1"}])
def test_without_a_watchdog_or_with_that_of_another_process_it_is_not_fed(manager, watchdog):
    bound, name = manager
    notifier = ServiceNotifier({"NOTIFY_SOCKET": name, **watchdog})
    notifier.report_ready()
    notifier.feed_watchdog()
    assert received(bound) == ["READY=1"]


def test_children_do_not_speak_for_the_service():
    env = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "HOME": "/root"}
    ServiceNotifier(env)
    assert env == {"HOME": "/root"}


def test_without_a_manager_and_with_one_that_is_gone_or_hangs_nothing_happens(manager):
    bound, name = manager
    ServiceNotifier({}).report_ready()
    ServiceNotifier({"NOTIFY_SOCKET": "/nowhere/notify"}).report_ready()
    notifier = ServiceNotifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "120000000"})
    for _ in range(10_000):  # more than its queue has room for
        notifier.feed_watchdog()
    assert len(received(bound)) < 10_000
    notifier.report_ready()
    assert received(bound) == ["READY=1"]
