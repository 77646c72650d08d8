"""Who serves a port of this host is asked of the kernel: by real sockets, at one address or at all."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from cockpit import sockets
from cockpit.sockets import Server, find_server, listening_users, normal

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
                assert find_server(port, NOTHING) == Server(ME, frozenset([normal(address)]))


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
            if number == 100:
                assert find_server(port, frozenset(["127.1.0.99"])).users == ME
                assert not read
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
                assert find_server(port, NOTHING) == Server(ME, frozenset([address]))


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


def test_without_a_free_descriptor_it_is_not_known_who_serves(server: socket.socket):
    """Never nobody: whose address a person has named is believed where nobody is seen to have taken it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(server.fileno()))
        with pytest.raises(OSError, match="Too many open files"):
            find_server(server.getsockname()[1], NOTHING)


def test_a_table_that_cant_be_read_is_not_taken_for_empty(server: socket.socket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    port = server.getsockname()[1]
    monkeypatch.setattr(sockets, "_TABLE_OF_IPV6", "/proc/net/none")  # a kernel without IPv6
    assert [found.user for found in sockets._read_tables(port)] == [*ME]
    for name in ("_TABLE_OF_IPV6", "_TABLE"):
        monkeypatch.setattr(sockets, name, "/proc/net")
        with pytest.raises(IsADirectoryError):
            list(sockets._read_tables(port))


def test_an_interrupt_while_looking_closes_none_of_our_descriptors(server: socket.socket):
    port = server.getsockname()[1]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for step in range(300):
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 5e-5 + step % 97 * 4e-6)
                for _ in range(20):
                    sockets._own_connections(port)
                signal.setitimer(signal.ITIMER_REAL, 0)
            os.fstat(server.fileno())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
