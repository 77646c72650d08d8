"""Temp dirs of a running Ray that are too long for its sockets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.socket_paths import long_temp_dirs
from cockpit.model import Host, RayProcess, Session
from tests.findings.detection import detect, only
from tests.world import NOW, snapshot

ALONE = (long_temp_dirs,)
NAME = "session_2026-11-21_00-00-00_000000_18"


def host(temp, name=NAME, ray="2.60.0", dashboard="http://127.0.0.1:8265", roles=("raylet", "gcs_server"), live=True, **more):
    session = Session(host="head", name=name, path=f"{temp}/{name}", live=live, dashboard=dashboard)
    rays = tuple(RayProcess(role, 10, name, ray=ray) for role in roles)
    return Host("head", taken=NOW, sessions=(session,), rays=rays, **{"pid_digits": 2, "pid_max": 32768, **more})


def found(made):
    return detect(snapshot(hosts={"head": made}), detectors=ALONE)


def temp(length):
    return "/" + "t" * (length - 1)


def test_a_dashboard_without_room_for_its_sockets_is_the_cause():
    reported = only(found(host(temp(45), dashboard=None)), "socket-path-long")
    assert reported.level == "critical"
    assert reported.text == (
        "The dashboard of Ray on head can't run: the path of its socket dash_TaskEventsHead has 111 bytes, at most 107 are possible"
    )
    assert reported.evidence[0] == f"{temp(45)}/{NAME}/sockets/dash_TaskEventsHead"
    assert (
        reported.remedy.text
        == "before the next `ray start`: use a temp dir of at most 36 bytes, such as /tmp/ray-NAME (--temp-dir, or RAY_TMPDIR)"
    )


def test_a_ray_that_could_not_start_again_with_longer_pids_is_reported():
    reported = only(found(host(temp(46), dashboard=None, roles=("raylet",), pid_digits=5)), "socket-path-long")
    assert (reported.level, reported.text) == (
        "warning",
        (
            f"Ray on head will not start again with its temp dir {temp(46)} (46 bytes): "
            "with a pid of 5 digits the path of its socket plasma_store has 108 bytes, at most 107 are possible"
        ),
    )


def test_a_path_too_long_only_for_the_longest_pid_is_an_info():
    reported = only(found(host(temp(39))), "socket-path-long")
    assert (reported.level, reported.text.startswith("Ray's dashboard on head may not start again with its temp dir ")) == ("info", True)


@pytest.mark.parametrize(
    "fine",
    [
        host("/tmp/ray", pid_max=4194304),
        host(temp(36), pid_max=4194304),
        host(temp(39), ray="2.44.1"),
        host(temp(39), roles=("raylet",)),
        host(temp(60), live=False),
        host(temp(60), live=None),
        host(temp(60), ray=None),
        replace(host(temp(60)), sessions=None),
        replace(host(temp(60)), taken=NOW - 300),
    ],
)
def test_short_unknown_and_old_paths_are_not_reported(fine):
    assert detect(snapshot(hosts={"head": fine}), 0, detectors=ALONE) == ()
