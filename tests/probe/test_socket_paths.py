"""Lengths of the paths of Ray's sockets."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.proc import read_pid_range
from cockpit.probe.socket_paths import MAX_PATH_BYTES, PidRange, dashboard_socket, find_fault, node_socket, path_bytes, temp_dir

pytestmark = pytest.mark.process

NODE = ("plasma_store",)
FIVE_DIGITS = PidRange(5, 32768)


def temp(length: int) -> str:
    return "/" + "t" * (length - 1)


def test_the_length_is_that_of_rays_own_path():
    made = "/tmp/ray/session_2026-11-27_21-34-42_343683_18/sockets/dash_MetricsHead"
    assert path_bytes("/tmp/ray", 2, "dash_MetricsHead") == path_bytes("/tmp/ray/", 2, "dash_MetricsHead") == len(made)


def test_a_temp_dir_of_45_bytes_fits_a_pid_of_5_digits_and_one_byte_more_does_not():
    assert path_bytes(temp(45), 5, "plasma_store") == MAX_PATH_BYTES
    assert find_fault(temp(45), NODE, FIVE_DIGITS) is None
    fault = find_fault(temp(46), NODE, FIVE_DIGITS)
    assert fault is not None
    assert fault.certain
    assert fault.text == (
        f"the path of Ray's socket plasma_store in {temp(46)} (46 bytes) would have 108 bytes with a pid of 5 digits, "
        "but at most 107 are possible: `ray start` would fail"
    )
    assert fault.remedy == "use a temp dir of at most 43 bytes, such as /tmp/ray-NAME"
    assert find_fault(temp(fault.most_bytes), NODE, PidRange()) is None


def test_bytes_count_and_not_characters():
    assert find_fault("/" + "ü" * 22, NODE, FIVE_DIGITS) is None
    assert find_fault("/" + "ü" * 23, NODE, FIVE_DIGITS)


def test_a_path_that_only_a_longer_pid_makes_too_long_may_get_too_long():
    fault = find_fault(temp(45), NODE, PidRange(5, 4194304))
    assert fault is not None
    assert not fault.certain
    assert "may get too long: 109 bytes with a pid of 7 digits" in fault.text


def test_if_pids_are_unknown_only_a_path_too_long_for_any_pid_is_certain():
    assert [fault and fault.certain for fault in (find_fault(temp(length), NODE, PidRange()) for length in (43, 44, 49, 50))] == [
        None, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "longest"),
    [
        ("2.60.0", "dash_TaskEventsHead"), ("2.58.1", "dash_TaskEventsHead"), ("2.50.0", "dash_MetricsHead"), ("2.44.1", None),
        ("2.9.3", None), (None, "dash_TaskEventsHead"), ("3.0.0.dev0", "dash_TaskEventsHead"),
    ],
)  # fmt: skip
def test_each_ray_has_its_own_longest_socket_of_the_dashboard_and_an_unknown_one_that_of_the_newest(version, longest):
    assert dashboard_socket(version) == longest


def test_ray_starts_without_a_dashboard_whose_sockets_do_not_fit():
    fault = find_fault(temp(45), ("plasma_store", "dash_MetricsHead"), PidRange(2, 100))
    assert fault is not None
    assert fault.is_dashboards
    assert fault.most_bytes == 39
    assert fault.text.endswith("at most 107 are possible: the dashboard of Ray 2.50 and later would end at its start")


def test_flags_move_the_sockets_of_a_node_elsewhere():
    assert node_socket([]) == "plasma_store"
    assert node_socket(["--plasma-store-socket-name=/run/p"]) == "raylet"
    assert node_socket(["--plasma-store-socket-name=/run/p", "--raylet-socket-name=/run/r"]) is None


@pytest.mark.parametrize(
    ("words", "environ", "found"),
    [
        (["--head", "--temp-dir=/data/ray"], {"RAY_TMPDIR": "/x"}, "/data/ray"),
        ([], {"RAY_TMPDIR": "/x", "TMPDIR": "/y"}, "/x/ray"),
        ([], {"TMPDIR": "/y"}, "/y/ray"),
        ([], {}, "/tmp/ray"),
    ],
)
def test_the_temp_dir_comes_from_the_flag_or_else_from_the_environment(words, environ, found):
    assert temp_dir(words, environ) == found


def test_pids_of_this_host_are_below_their_limit():
    pids = read_pid_range()
    assert pids.digits is not None
    assert pids.most is not None
    assert 10 ** (pids.digits - 1) < pids.most
