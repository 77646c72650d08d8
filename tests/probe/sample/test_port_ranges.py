"""Ports in a raylet's command, and the ports that the kernel gives to connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.probe.sample.port_ranges import LOCAL_RANGE, MAX_RANGES, join_ports, parse_ranges, read_ray_ports, worker_ports


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--min_worker_port=10010", "--max_worker_port=10013"], ((10010, 10013),)),
        (["--min_worker_port=10010", "--max_worker_port=0"], ((10010, 65535),)),
        (["--min_worker_port=0", "--max_worker_port=0"], ()),
        (["--min_worker_port=10010", "--worker_port_list=10003,10001,10002,20000"], ((10001, 10003), (20000, 20000))),
        (["--min_worker_port=10013", "--max_worker_port=10010"], ()),
        (["--min_worker_port=x", "--max_worker_port=99999999999"], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_worker_ports_are_read_as_ray_reads_them(words, found):
    assert worker_ports(words) == found


def test_fixed_ports_are_those_that_are_not_zero():
    words = ["--node_manager_port=40001", "--object_manager_port=0", "--gcs_server_port=6379"]
    assert read_ray_ports("raylet", words, in_our_network=False).fixed == {"node manager": 40001}
    assert read_ray_ports("gcs_server", words, in_our_network=False).fixed == {"GCS": 6379}


def test_the_kernels_range_is_reported_only_in_our_network():
    low, high = map(int, Path(LOCAL_RANGE).read_text().split())
    assert read_ray_ports("raylet", [], in_our_network=True).local == (low, high)
    assert read_ray_ports("raylet", [], in_our_network=False).local is None


def test_reserved_ports_are_read_as_the_kernel_writes_them():
    assert parse_ranges("8080,9000-9005") == ((8080, 8080), (9000, 9005))
    assert parse_ranges("") == parse_ranges("x,70000,9-8,-") == ()


def test_too_many_ranges_are_not_reported():
    assert join_ports(range(1, 2 * MAX_RANGES, 2)) == tuple((port, port) for port in range(1, 2 * MAX_RANGES, 2))
    assert join_ports(range(1, 65535, 2)) == ()
    assert parse_ranges(",".join(map(str, range(1, 65535, 2)))) is None
