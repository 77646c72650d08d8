"""Causes of failures in lines of logs."""

from __future__ import annotations

import pytest
from cockpit.findings.causes import find_port_in_use


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).", 29500),
        ("DistNetworkError: port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use", 29500),
        ("OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address already in use", 8265),
        ("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5557')", 5557),
        ("OSError: [Errno 98] Address already in use", None),
        ("2026-11-23 10:00:01 OSError: [Errno 98] Address already in use", None),
        ("OSError: [Errno 98] Address already in use: port 99999", None),
        ("connected to 127.0.0.1:6379", None),
    ],
)
def test_the_port_in_use_is_read_from_the_line(line, port):
    assert find_port_in_use(line) == port
