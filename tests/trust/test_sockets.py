"""Who serves a port of this host is read from the kernel's tables: with real sockets, at one address or at all."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from cockpit.trust import sockets
from cockpit.trust.sockets import Connection, Server, connection_of, find_server, has_received, listening_users, normal

ME = frozenset([os.geteuid()])
NOBODY: frozenset[int] = frozenset()
NOTHING: frozenset[str] = frozenset()
NONE: frozenset[Connection] = frozenset()
LOOPBACK = frozenset(["127.0.0.1"])


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Ours, at 127.0.0.2."""
    with socket.socket() as ours:
        ours.bind(("127.0.0.2", 0))
        ours.listen()
        yield ours


def through(*clients: socket.socket) -> frozenset[Connection]:
    return frozenset(map(connection_of, clients))


def test_a_listener_at_one_address_serves_only_that_address(server: socket.socket):
    port = server.getsockname()[1]
    assert find_server(port, frozenset(["127.0.0.2"]), NONE).users == ME
    assert find_server(port, LOOPBACK, NONE).users == NOBODY
    assert find_server(port, NOTHING, NONE).users == listening_users(port) == ME


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_a_listener_at_all_addresses_serves_each(family: socket.AddressFamily, address: str):
    with socket.socket(family) as ours:
        ours.bind((address, 0))
        ours.listen()
        assert find_server(ours.getsockname()[1], LOOPBACK, NONE).users == ME


def test_the_addresses_of_our_connections_are_known_while_they_are_open(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)) as client:
        connections = through(client)
        assert find_server(port, NOTHING, connections).addresses == {"127.0.0.2"}
        assert find_server(port, NOTHING, NONE).addresses == NOTHING
    with pytest.raises(OSError, match="Bad file descriptor"):
        connection_of(client)


def test_the_owner_of_the_other_end_serves_it_after_it_has_stopped_listening(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)) as client:
        talking, _ = server.accept()
        server.close()
        with talking:
            assert find_server(port, NOTHING, through(client)).users == ME
            assert find_server(port, NOTHING, NONE).users == NOBODY


def test_a_connection_that_was_not_accepted_has_no_user(server: socket.socket):
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)) as client:
        connections = through(client)
        server.close()
        assert find_server(port, NOTHING, connections).users == NOBODY


def test_a_connection_with_a_hidden_listener_has_no_known_server(server: socket.socket, monkeypatch: pytest.MonkeyPatch):
    """Whose other connections are known says nothing about this one."""
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.2", port)) as first:
        talking, _ = server.accept()
        with talking, socket.create_connection(("127.0.0.2", port)) as waiting:
            assert find_server(port, NOTHING, through(first, waiting)) == Server(ME, frozenset(["127.0.0.2"]))
            tables = sockets._read_tables
            monkeypatch.setattr(sockets, "_read_tables", lambda port: [found for found in tables(port) if not found.listens])
            assert find_server(port, NOTHING, through(first)) == Server(ME, frozenset(["127.0.0.2"]))
            assert find_server(port, NOTHING, through(first, waiting)) == Server(NOBODY, frozenset(["127.0.0.2"]))


def test_who_listens_at_another_address_says_nothing_of_a_connection_whose_listener_is_hidden(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    """A name may have several addresses: what Ray holds at one does not vouch for who will accept our connection at another."""
    port, tables = server.getsockname()[1], sockets._read_tables
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.2", port)) as waiting:
        both = frozenset(["127.0.0.1", "127.0.0.2"])
        assert find_server(port, both, through(waiting)) == Server(ME, frozenset(["127.0.0.2"]))
        is_his = ("127.0.0.2", port)
        monkeypatch.setattr(sockets, "_read_tables", lambda port: [one for one in tables(port) if not (one.listens and one.own == is_his)])
        assert find_server(port, both, through(waiting)) == Server(NOBODY, frozenset(["127.0.0.2"]))


def test_who_listens_at_all_addresses_of_ipv4_says_nothing_of_one_of_ipv6(monkeypatch: pytest.MonkeyPatch):
    tables = sockets._read_tables
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as his:
        port = his.getsockname()[1]
        with socket.create_server(("0.0.0.0", port)), socket.create_connection(("::1", port)) as waiting:
            assert find_server(port, LOOPBACK, through(waiting)).users == ME
            monkeypatch.setattr(
                sockets, "_read_tables", lambda port: [one for one in tables(port) if not (one.listens and one.own[0] == "::1")]
            )
            assert find_server(port, LOOPBACK, through(waiting)).users == NOBODY


def test_a_socket_that_becomes_one_of_ipv4_between_two_readings_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Linux turns an accepted socket of IPv6 into one of IPv4 for everybody (IPV6_ADDRFORM), and never back."""
    with socket.socket(socket.AF_INET6) as ours:
        ours.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        ours.bind(("::", 0))
        ours.listen()
        port = ours.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = ours.accept()
    read, tables = sockets._read_lines, []

    def read_and_turn(table: str) -> list[str]:
        lines = read(table)
        if not tables:
            accepted.setsockopt(socket.IPPROTO_IPV6, 1, socket.AF_INET)  # IPV6_ADDRFORM, linux/in6.h
        tables.append(table)
        return lines

    monkeypatch.setattr(sockets, "_read_lines", read_and_turn)
    with client, accepted:
        assert find_server(port, LOOPBACK, through(client)).users == ME
    assert len(tables) == 2


def test_a_local_connection_with_an_invisible_other_end_has_no_known_server(server: socket.socket):
    """Whoever hides the socket that has accepted it need not listen any more; that somebody else listens says nothing."""
    port = server.getsockname()[1]
    hidden = frozenset([(("127.0.0.2", port), ("127.0.0.1", 9))])
    assert find_server(port, frozenset(["127.0.0.2"]), hidden) == Server(NOBODY, frozenset(["127.0.0.2"]))
    with socket.create_connection(("127.0.0.2", port)) as client:
        assert find_server(port, NOTHING, through(client) | hidden).users == NOBODY


def test_a_listener_here_does_not_serve_a_connection_to_another_host(server: socket.socket):
    port = server.getsockname()[1]
    assert find_server(port, NOTHING, frozenset([(("192.0.2.7", port), ("192.0.2.1", 9))])) == Server(NOBODY, NOTHING)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_server_of_both_protocols_is_found_by_either(address: str):
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as ours:
        port = ours.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            talking, _ = ours.accept()
            ours.close()
            with talking:
                assert find_server(port, NOTHING, through(client)) == Server(ME, frozenset([normal(address)]))


def test_each_of_many_that_listen_on_a_port_is_found():
    with ExitStack() as stack:
        port = stack.enter_context(socket.create_server(("127.0.0.2", 0))).getsockname()[1]
        for number in range(500):
            stack.enter_context(socket.create_server((f"127.1.{number >> 8}.{number & 255}", port)))
        assert find_server(port, frozenset(["127.1.1.200"]), NONE).users == ME
        assert find_server(port, frozenset(["127.1.2.200"]), NONE).users == NOBODY


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_socket_bound_to_a_device_still_serves_it(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as ours:
        port = ours.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            talking, _ = ours.accept()
            with talking:
                talking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
                ours.close()
                assert find_server(port, NOTHING, through(client)) == Server(ME, frozenset([address]))


def test_a_connection_that_only_comes_from_that_port_is_no_server():
    with socket.socket() as other, socket.socket() as coming:
        other.bind(("127.0.0.1", 0))
        other.listen()
        coming.bind(("127.0.0.3", 0))
        coming.connect(other.getsockname())
        assert find_server(coming.getsockname()[1], frozenset(["127.0.0.3"]), NONE).users == NOBODY


def test_an_address_has_one_normal_form():
    assert normal("::ffff:127.0.0.1") == normal("127.0.0.1") == "127.0.0.1"
    assert normal("0:0:0:0:0:0:0:1") == "::1"
    with pytest.raises(ValueError, match="head"):
        normal("head")


def test_received_data_is_distinguished_from_the_end_of_a_connection(server: socket.socket):
    for said in (b"", b"x"):
        with socket.create_connection(server.getsockname()) as client:
            talking, _ = server.accept()
            talking.sendall(said)
            talking.close()
            while client.recv(10):
                pass
            assert has_received(client) is bool(said)


def test_without_a_free_descriptor_the_server_is_unknown(server: socket.socket):
    """Never nobody: whose address a person has named is believed where nobody is seen to have taken it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(server.fileno()))
        with pytest.raises(OSError, match="Too many open files"):
            find_server(server.getsockname()[1], NOTHING, NONE)


def test_a_table_that_cant_be_read_is_not_taken_for_empty(server: socket.socket, monkeypatch: pytest.MonkeyPatch):
    port = server.getsockname()[1]
    monkeypatch.setattr(sockets, "_TABLE_OF_IPV6", "/proc/net/none")  # a kernel without IPv6
    assert [found.user for found in sockets._read_tables(port)] == [*ME]
    for name in ("_TABLE_OF_IPV6", "_TABLE"):
        monkeypatch.setattr(sockets, name, "/proc/net")
        with pytest.raises(IsADirectoryError):
            list(sockets._read_tables(port))
