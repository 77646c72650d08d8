"""Ray's own processes that use much host memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.ray_memory import large_parts
from tests.findings.detection import FreshTracker, detect, only
from tests.world import GIB, NOW, process, snapshot

PARTS = (large_parts,)
GCS = "/env/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/ray/session_1/logs"
RAYLET = "/env/ray/core/src/ray/raylet/raylet --dashboard_agent_command=python_/env/ray/dashboard/agent.py"


def part(command=GCS, gib=9.0, shared=0.0, **more):
    return process(41, command=command, kind="ray", rss=int((gib + shared) * GIB), shared=int(shared * GIB), **more)


def seen(*processes):
    return snapshot(processes=processes)


def test_a_large_gcs_is_reported_with_its_setting_until_it_is_clearly_smaller():
    found = only(detect(seen(part()), detectors=PARTS), "ray-memory")
    assert found.text.startswith("GCS (pid 41) on node1 holds 9.0G of host memory")
    assert found.text.endswith("; stopping jobs does not free it")
    assert (found.level, found.about) == ("warning", (part().key,))
    assert found.evidence == ("ps -o rss,cmd -p 41 on node1: 9.0G resident, 0B of it shared",)
    assert "RAY_task_events_max_num_task_in_gcs" in found.remedy.text
    judge = FreshTracker(Limits(), PARTS)
    assert [bool(judge(seen(part(gib=gib))).findings) for gib in (7.9, 8.1, 7.3, 7.1)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (RAYLET, "raylet"),
        ("python -u /env/ray/dashboard/dashboard.py --host=0.0.0.0", "dashboard"),
        ("python -u /env/ray/dashboard/agent.py --raylet-name=/tmp/ray/raylet", "agent"),
        ("ray::RuntimeEnvAgent", "agent"),
        ("python -u /env/ray/_private/log_monitor.py", "log monitor"),
        ("python -u /env/ray/autoscaler/_private/monitor.py", "autoscaler monitor"),
        (None, "Ray process"),
    ],
)
def test_every_part_has_its_name(command, name):
    assert only(detect(seen(part(command)), detectors=PARTS), "ray-memory").subject == f"{name} 41 on node1"


def test_the_growth_is_reported_while_it_lasts():
    judge = FreshTracker(Limits(), PARTS)
    for step in range(24):
        one = part(gib=9 + 0.1 * step)
        here = seen(one)
        now = NOW - 5.0 * (24 - step)
        host = replace(here.hosts["node1"], taken=now, processes=(one,), memory_users=())
        reported = judge(replace(here, taken=now, hosts={"node1": host}))
    assert ", and Ray's own processes there grow by 1.2G/min; " in only(reported.findings, "ray-memory").text


@pytest.mark.parametrize(
    "fine",
    [
        part(gib=7.9),
        part(RAYLET, gib=2, shared=200),
        part(RAYLET, gib=200, ours=False),
        replace(part(RAYLET, gib=200), shared=None),
        replace(part(), rss=None),
        replace(part(gib=200), kind="worker"),
        replace(part(), rss=1 << 62),
    ],
)
def test_small_shared_foreign_and_unknown_memory_is_not_reported(fine):
    assert detect(seen(fine), detectors=PARTS) == ()
