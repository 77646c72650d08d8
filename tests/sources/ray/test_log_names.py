"""The names of logs, and the processes before a restart in the log of the GCS."""

from __future__ import annotations

import pytest

from cockpit.sources.ray.log_names import (
    LostWorker,
    file_pattern,
    lost_workers,
    node_of,
    part_logs,
    part_of,
    worker_logs,
)

A, B, NODE = "a1" * 28, "b2" * 28, "c3" * 28
ACTOR = "0979" * 8


def name(worker: str = A, job: str = "03000000", pid: int = 769, suffix: str = "out") -> str:
    return f"worker-{worker}-{job}-{pid}.{suffix}"


def test_of_two_processes_with_one_pid_the_job_decides_and_a_worker_that_was_started_before_its_job_is_found():
    names = [name(), name(B, "04000000")]
    assert [log.worker for log in worker_logs(names, pid=769, job="04000000")] == [B]
    assert [log.worker for log in worker_logs(names, pid=769)] == [A, B]
    assert worker_logs(names, pid=769, job="05000000") == []
    assert [log.worker for log in worker_logs([name(job="ffffffff")], pid=769, job="03000000")] == [A]


@pytest.mark.parametrize(
    "hostile",
    ["../../etc/shadow", f"/etc/{name()}", f"{name()}\n", f"../{name()}", f"old/{name()}", name(suffix="out.1"), name(suffix="sh"), ""],
)
def test_a_name_that_ray_does_not_use_is_ignored(hostile):
    assert worker_logs([hostile], pid=769) == []
    assert [part_logs([hostile], part) for part in ("raylet", "runtime_env_setup")] == [[], []]


def test_a_part_of_ray_is_found_among_others():
    names = ["raylet.1.out", "raylet.out", "raylet.err", "raylet.out.1", "monitor.log", "log_monitor.log", "raylet.out/../x"]
    assert part_logs(names, "raylet", "out") == ["raylet.out", "raylet.1.out"]
    assert part_logs(names, "monitor") == ["monitor.log"]
    assert part_logs(["dashboard.log", "dashboard_MetricsHead.log"], "dashboard_MetricsHead") == ["dashboard_MetricsHead.log"]
    assert part_logs(["dashboard.log", "dashboard_MetricsHead.log"], "dashboard") == ["dashboard.log"]


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("/x/ray/core/src/ray/raylet/raylet --session_dir=/tmp/ray/s", "raylet"),
        ("python -u /x/ray/dashboard/agent.py --node-ip=1", "dashboard_agent"),
        ("python /x/ray/_private/log_monitor.py", "log_monitor"),
        ("python /x/ray/autoscaler/_private/monitor.py", "monitor"),
        ("ray-dashboard-MetricsHead-0 (/x/bin/python -c from multiprocessing)", "dashboard_MetricsHead"),
        ("python train.py", None),
    ],
)
def test_the_command_of_a_part_of_ray_identifies_it(command, part):
    assert part_of(command) == part


FAILED = (
    f"[2026-11-22 21:10:39,441 I 13 13] (gcs_server) gcs_actor_manager.cc:1515: Actor is failed on worker {A} at node {NODE}, "
    f"need_reschedule = 1, num_restarts = 20 job_id=03000000 actor_id={ACTOR}"
)
OLDER = f"(gcs_server) gcs_actor_manager.cc:992: Actor {ACTOR} is failed on worker {B} at node {NODE}, need_reschedule = 1"


def test_the_log_of_the_gcs_names_an_actors_lost_processes_the_last_first():
    lines = [OLDER, FAILED.replace(ACTOR, "1" * 32), "Leasing worker for actor. actor_id=" + ACTOR, FAILED]
    assert lost_workers(lines, ACTOR) == [LostWorker(A, NODE), LostWorker(B, NODE)]


def test_the_first_lines_of_a_raylets_log_name_its_own_node():
    lines = [
        f"[x] (raylet) accessor.cc:1: Received notification for node, IsAlive = 1 node_id={A}",
        f"[x] (raylet) main.cc:711: Setting node ID node_id={NODE}",
        f"[x] (raylet) node_manager.cc:1: Adding node ID node_id={A}",
    ]
    assert node_of(lines) == NODE
    assert node_of(["nothing"]) is None


def test_findings_name_files_by_a_pattern():
    assert [file_pattern(one) for one in (name(suffix="err"), "raylet.1.out", "runtime_env_setup-01000000.log", "job-driver-x.log")] == [
        "worker-*.err",
        "raylet.out",
        "runtime_env_setup-*.log",
        "job-driver-x.log",
    ]


def test_digits_of_other_scripts_are_no_name_of_ray():
    worker = f"worker-{'a' * 56}-01000000-"
    assert [log.name for log in worker_logs([f"{worker}\uff11\uff12.err", f"{worker}12.err"], pid=12)] == [f"{worker}12.err"]
    assert part_logs(["raylet.\u0663.err", "raylet.err"], "raylet", "err") == ["raylet.err"]
