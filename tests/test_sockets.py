"""Who serves a port of this host is asked of the kernel: by real sockets, at one address or at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cockpit import sockets
from cockpit.sockets import find_server, listening_users, normal

ME = frozenset([os.geteuid()])
NOBODY: frozenset[int] = frozenset()
NOTHING: frozenset[str] = frozenset()
LOOPBACK = frozenset(["127.0.0.1"])


@pytest.fixture(autouse=True, params=["netlink", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel is asked, or, as where that is not allowed, its tables in /proc are read."""
    way: str = request.param

    def refuse(*_: object) -> None:
        raise PermissionError

    def never(*_: object) -> None:
        raise AssertionError("netlink would do")

    monkeypatch.setattr(sockets, *(("_ask_kernel", refuse) if way == "tables" else ("_read_tables", never)))
    return way


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Ours, at 127.0.0.2."""
    with socket.socket() as ours:
        ours.bind(("127.0.0.2", 0))
        ours.listen()
        yield ours


def test_who_listens_at_an_address_serves_that_one_alone(server: socket.socket):
    port = server.getsockname()[1]
    assert find_server(port, frozenset(["127.0.0.2"])).users == ME
    assert find_server(port, LOOPBACK).users == NOBODY
    assert find_server(port, frozenset()).users == listening_users(port) == ME


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_who_listens_at_all_addresses_serves_each(family: socket.AddressFamily, address: str):
    with socket.socket(family) as ours:
        ours.bind((address, 0))
        ours.listen()
        assert find_server(ours.getsockname()[1], LOOPBACK).users == ME


def test_where_our_connections_lead_on_this_host_is_known_while_they_are_open(server: socket.socket):
    port = server.getsockname()[1]
    assert find_server(port, NOTHING).addresses == NOTHING
    with socket.create_connection(("127.0.0.2", port)):
        assert find_server(port, NOTHING).addresses == {"127.0.0.2"}
    assert find_server(port, NOTHING).addresses == NOTHING


def test_who_holds_the_other_end_serves_it_though_nobody_listens_any_more(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)):
        talking, _ = server.accept()
        server.close()
        with talking:
            assert find_server(port, NOTHING).users == ME


def test_a_connection_that_nobody_has_accepted_has_no_user(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)):
        server.close()
        assert find_server(port, NOTHING).users == NOBODY


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_server_of_both_protocols_is_found_by_either(address: str):
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as ours:
        port = ours.getsockname()[1]
        with socket.create_connection((address, port)):
            talking, _ = ours.accept()
            ours.close()
            with talking:
                assert find_server(port, NOTHING) == (ME, {normal(address)})


def test_each_of_many_that_listen_on_a_port_is_found(monkeypatch: pytest.MonkeyPatch):
    """They come in several parts, and a socket that ends meanwhile may hide one: so the tables are read too."""
    monkeypatch.undo()
    read = []
    tables = sockets._read_tables
    monkeypatch.setattr(sockets, "_read_tables", lambda port: read.append(port) or tables(port))
    with ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("127.0.0.2", 0)))
        port = first.getsockname()[1]
        assert find_server(port, frozenset(["127.0.0.2"])).users == ME
        assert not read
        for number in range(500):
            stack.enter_context(socket.create_server((f"127.1.{number >> 8}.{number & 255}", port)))
        assert find_server(port, frozenset(["127.1.1.200"])).users == ME
        assert find_server(port, frozenset(["127.1.2.200"])).users == NOBODY
        assert read == [port, port]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_who_has_bound_his_end_to_a_device_still_serves_it(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as ours:
        port = ours.getsockname()[1]
        with socket.create_connection((address, port)):
            talking, _ = ours.accept()
            with talking:
                talking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
                ours.close()
                assert find_server(port, NOTHING) == (ME, {address})


def test_looking_takes_no_descriptor_and_changes_no_socket(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)) as mine:
        mine.settimeout(5)
        before = os.listdir("/proc/self/fd"), os.get_blocking(mine.fileno())
        find_server(port, NOTHING)
        assert (os.listdir("/proc/self/fd"), os.get_blocking(mine.fileno())) == before


def test_a_connection_that_only_comes_from_that_port_is_no_server():
    with socket.socket() as other, socket.socket() as coming:
        other.bind(("127.0.0.1", 0))
        other.listen()
        coming.bind(("127.0.0.3", 0))
        coming.connect(other.getsockname())
        assert find_server(coming.getsockname()[1], frozenset(["127.0.0.3"])).users == NOBODY


def test_an_address_has_one_name():
    assert normal("::ffff:127.0.0.1") == normal("127.0.0.1") == "127.0.0.1"
    assert normal("0:0:0:0:0:0:0:1") == "::1"
    with pytest.raises(ValueError, match="head"):
        normal("head")


def test_a_kernel_that_does_not_tell_by_netlink_is_read_in_its_tables(server: socket.socket, way: str, monkeypatch: pytest.MonkeyPatch):
    if way == "netlink":
        monkeypatch.undo()
        monkeypatch.setattr(sockets, "_FAMILIES", (socket.AF_APPLETALK, socket.AF_INET))
    assert listening_users(server.getsockname()[1]) == ME
