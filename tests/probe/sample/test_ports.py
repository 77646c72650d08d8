"""The processes that listen on a port."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cockpit.probe.sample import ports
from cockpit.probe.sample.ports import COMMAND, port_listeners
from cockpit.probe.sample.proc import user_name
from cockpit.probe.sample.processes import read_stat

ME = {"pid": os.getpid(), "user": user_name(os.geteuid())}


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_listener_is_reported_with_identity_user_and_command(family, address):
    with socket.socket(family) as one:
        try:
            one.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        one.listen()
        listeners = port_listeners(one.getsockname()[1])["listeners"]
    (found,) = (one for one in listeners if one["pid"] == ME["pid"])  # others may listen on this port of another address
    stat = read_stat(os.getpid())
    assert {name: found[name] for name in ME} == ME
    assert found["ticks"] == stat.ticks
    assert found["command"] == " ".join(Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"))[:COMMAND]


def test_a_socket_that_does_not_listen_is_not_reported():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        assert port_listeners(port)["listeners"] == []
        one.listen()
        with socket.create_connection(one.getsockname()) as other:
            assert port_listeners(other.getsockname()[1])["listeners"] == []


def test_the_user_of_an_unreadable_process_is_known(monkeypatch):
    monkeypatch.setattr(ports, "open_files", lambda _pid: iter(()))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        assert port_listeners(one.getsockname()[1])["listeners"] == [{"pid": None, "user": ME["user"]}]
