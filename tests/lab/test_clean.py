"""Cleaning beside a real Ray removes what is dead and does not disturb what works."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host
from tests.lab.observe import ask_probe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DEAD = "session_2026-01-02_03-04-05_678901_23"


def action(host: Host, stage: str, **more: Any) -> dict[str, Any]:
    """The answer of the probe's `clean`."""
    request = {"act": "clean", "stage": stage, "sessions": None, "older_than": None, "protected": [], "targets": [], **more}
    return ask_probe(host, request)


def latest(host: Host) -> str:
    return os.path.basename(os.readlink(host.tmp / "ray" / "session_latest"))


def names(answers: list[dict[str, Any]]) -> list[str]:
    return [os.path.basename(one["path"]) for one in answers]


def inside(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def workers(host: Host) -> set[int]:
    """All processes of the host except the `sleep`s of the shell that watches over a job."""
    return {process.pid for process in host.processes() if process.text != "sleep 1"}


def test_cleaning_during_a_live_run_removes_only_dead_things(cluster: Cluster):
    host, ray = cluster.head, cluster.head.tmp / "ray"
    cluster.submit("busy", "sleep 10000")
    eventually(lambda: cluster.job("busy") == "RUNNING")
    live = latest(host)
    host.ssh(f"cp -a /tmp/ray/{live} /tmp/ray/{DEAD} && touch -d '1 hour ago' /tmp/ray/{DEAD}")
    host.ssh(f"mkdir /tmp/ray/{DEAD}/run && dd if=/dev/zero of=/tmp/ray/{DEAD}/run/model.safetensors bs=1M count=3 status=none")
    host.ssh("head -c 1000000 /dev/zero > /dev/shm/psm_0a1b2c3d; touch -d '1 hour ago' /dev/shm/psm_0a1b2c3d")
    before, running = inside(ray / live), workers(host)

    plan = action(host, "plan")
    assert [(target["what"], os.path.basename(target["path"])) for target in plan["targets"]] == [
        ("session", DEAD),
        ("shm", "psm_0a1b2c3d"),
    ]
    assert plan["targets"][0]["keeps"] == ["run/model.safetensors"]
    assert names(plan["refused"]) == [live]
    assert plan["refused"][0]["reason"].startswith("it is alive: ")

    receipt = action(host, "do", targets=plan["targets"])
    assert names(receipt["done"]) == [DEAD, "psm_0a1b2c3d"]
    assert receipt["freed"]["shm"] >= 1000000
    assert receipt["freed"]["disk"] == plan["targets"][0]["size"], "what is kept is not counted"
    assert inside(ray / DEAD) == {"run", "run/model.safetensors", "logs", "sockets"}, (
        "the empty folders stay, so that it can be cleaned later"
    )
    assert before <= inside(ray / live)
    assert running <= workers(host)
    assert latest(host) == live
    assert cluster.job("busy") == "RUNNING"
    assert cluster.complete()


def test_the_live_session_is_refused_even_if_it_was_agreed_to(cluster: Cluster):
    host = cluster.lab["w1"]
    folder = host.tmp / "ray" / latest(host)
    before, status = inside(folder), folder.stat()
    asked = {"what": "session", "path": f"/tmp/ray/{folder.name}", "device": status.st_dev, "inode": status.st_ino}
    receipt = action(host, "do", sessions=[folder.name], targets=[asked])
    assert receipt["done"] == receipt["failed"] == []
    assert receipt["refused"][0]["reason"].startswith("it is alive: ")
    assert before <= inside(folder)


@pytest.mark.incident
def test_a_host_whose_ray_was_killed_is_cleaned(cluster: Cluster):
    host = cluster.lab["w1"]
    session = latest(host)
    for process in host.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    eventually(lambda: not host.matching("raylet/raylet"))
    plan = action(host, "plan")
    assert (names(plan["targets"]), plan["refused"]) == ([session, "session_latest", "ray_current_cluster"], [])
    receipt = action(host, "do", targets=plan["targets"])
    assert names(receipt["done"]) == names(plan["targets"])
    assert receipt["freed"]["disk"] == plan["targets"][0]["size"]
    assert [name for name in os.listdir(host.tmp / "ray") if "session" in name or "current" in name] == []
