"""Temp dirs of a running Ray that are too long for its sockets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.socket_paths import long_temp_dirs
from cockpit.model import Host, RayProcess, Session
from tests.findings.detection import looked, only
from tests.world import NOW, snapshot

ALONE = (long_temp_dirs,)
NAME = "session_2026-11-21_00-00-00_000000_18"


def host(temp, name=NAME, ray="2.60.0", dashboard="http://127.0.0.1:8265", roles=("raylet", "gcs_server"), live=True, **more):
    session = Session(host="head", name=name, path=f"{temp}/{name}", live=live, dashboard=dashboard)
    rays = tuple(RayProcess(role, 10, name, ray=ray) for role in roles)
    return Host("head", taken=NOW, sessions=(session,), rays=rays, **{"pid_digits": 2, "pid_max": 32768, **more})


def found(made):
    return looked(snapshot(hosts={"head": made}), detectors=ALONE)


def temp(length):
    return "/" + "t" * (length - 1)


def test_a_dashboard_that_has_no_room_for_its_sockets_is_told_as_the_cause():
    told = only(found(host(temp(45), dashboard=None)), "socket-path-long")
    assert told.level == "critical"
    assert told.text == (
        "The dashboard of Ray on head can't run: the path of its socket dash_TaskEventsHead has 111 bytes, at most 107 are possible"
    )
    assert told.evidence[0] == f"{temp(45)}/{NAME}/sockets/dash_TaskEventsHead"
    assert (
        told.remedy.text
        == "before the next `ray start`: use a temp dir of at most 36 bytes, such as /tmp/ray-NAME (--temp-dir, or RAY_TMPDIR)"
    )


def test_a_ray_that_could_not_start_again_because_pids_got_longer_is_told():
    told = only(found(host(temp(46), dashboard=None, roles=("raylet",), pid_digits=5)), "socket-path-long")
    assert (told.level, told.text) == (
        "warning",
        (
            f"Ray on head will not start again with its temp dir {temp(46)} (46 bytes): "
            "with a pid of 5 digits the path of its socket plasma_store has 108 bytes, at most 107 are possible"
        ),
    )


def test_what_only_the_longest_pid_would_make_too_long_is_an_info():
    told = only(found(host(temp(39))), "socket-path-long")
    assert (told.level, told.text.startswith("Ray's dashboard on head may not start again with its temp dir ")) == ("info", True)


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
def test_what_fits_is_unknown_or_is_old_is_not_told(fine):
    assert looked(snapshot(hosts={"head": fine}), 0, detectors=ALONE) == ()
