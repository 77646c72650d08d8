"""Tests whether a host's own name leads to loopback."""

from __future__ import annotations

import pytest

from cockpit.probe.look.names import find_loopback_line

LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("127.0.1.1\tw1.example.com  w1\n", "127.0.1.1 w1.example.com w1"),
        ("127.0.1.1 W1 # by the installer\n", "127.0.1.1 W1"),
        ("10.0.0.1 w1\n127.0.1.1 w1\n", "127.0.1.1 w1"),
        ("::1 w1\n", "::1 w1"),
        ("10.0.0.1 w1\n", None),
        ("127.0.1.1 w10 xw1\n", None),
        ("# 127.0.1.1 w1\n", None),
        ("127.0.1.1\n\n \n", None),
        ("w1 127.0.1.1\n", None),
        ("", None),
    ],
)
def test_the_first_line_that_makes_the_name_loopback_is_found(lines, found):
    assert find_loopback_line(LOCAL + lines, "w1") == found


def test_a_host_that_is_called_localhost_is_loopback():
    assert find_loopback_line(LOCAL, "localhost") == "127.0.0.1 localhost"


def test_a_long_line_is_cut():
    assert len(find_loopback_line("127.0.1.1 w1 " + "x" * 5000, "w1") or "") == 200
