"""Who serves a port of this host is asked of the kernel: by real sockets, at one address or at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from cockpit.sockets import find_server, listening_users, normal

ME = frozenset([os.geteuid()])
NOBODY: frozenset[int] = frozenset()
NOTHING: frozenset[str] = frozenset()
LOOPBACK = frozenset(["127.0.0.1"])


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
