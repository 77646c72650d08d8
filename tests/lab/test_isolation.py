"""The kill line of a real raylet with resource isolation, and with other settings, is the one in its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import eventually, start_patiently
from tests.lab.conftest import RAY
from tests.lab.hosts import Host, Lab
from tests.lab.observe import once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

CGROUPS = Path("/sys/fs/cgroup")
SETTINGS = {
    "threshold": "RAY_memory_usage_threshold=0.8",
    "free": "RAY_memory_usage_threshold=0.8 RAY_min_memory_free_bytes=500000000",
    "swap": "RAY_count_swap_in_memory_monitor=1",
}


def why_no_isolation() -> str | None:
    """What this machine lacks for `ray start --enable-resource-isolation`."""
    unified = CGROUPS / "cgroup.controllers"
    if not unified.exists():
        hybrid = CGROUPS / "unified" / "cgroup.controllers"
        left = hybrid.read_text().strip() if hybrid.exists() else "none"
        return f"the controllers cpu and memory belong to cgroup version 1 here, so version 2 can't have them (it has: {left})"
    lacking = {"cpu", "memory"} - set(unified.read_text().split())
    return f"cgroup version 2 has no controller {', '.join(sorted(lacking))} here" if lacking else None


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup for a Ray and its hosts' processes."""
    if reason := why_no_isolation():
        pytest.skip(reason)
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu +memory")
    folder = CGROUPS / "cockpit-lab"
    folder.mkdir()
    yield folder
    for inner in sorted((one for one in folder.rglob("*") if one.is_dir()), key=lambda one: -len(str(one))):
        eventually(lambda inner=inner: inner.rmdir() or True)
    eventually(lambda: folder.rmdir() or True)


def start(host: Host, words: str = "", before: str = "") -> None:
    """Starts a Ray on this host."""
    line = f"{before} {RAY} start --head --node-ip-address={host.address} --num-cpus=1 --object-store-memory=100000000 {words}"
    start_patiently(lambda: host.ssh(line, timeout=300), lambda: end(host))


def end(host: Host) -> None:
    """Ends everything of Ray there."""
    for one in host.matching("ray"):
        if "/sshd" not in one.text:
            one.kill()
    host.ssh("rm -rf /tmp/ray")


def lines(host: Host) -> tuple[int, int | None]:
    """The line in the log of the raylet, and the one that cockpit reports."""
    log = host.ssh("cat /tmp/ray/session_latest/logs/raylet.out")
    logged = int(re.findall(r"usage threshold at (\d+) bytes", log)[-1])
    seen = eventually(lambda: (known := once(host)[1]["nodes"][0]["memory"])["kill_at"] and known)
    return logged, seen["kill_at"]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=[*SETTINGS])
def test_the_line_is_the_one_in_the_raylets_log(lab: Lab, settings: str):
    host = lab["w1"]
    start(host, before=settings)
    try:
        logged, seen = lines(host)
        assert seen == logged
    finally:
        end(host)


@pytest.mark.parametrize("settings", ["", SETTINGS["swap"]], ids=["memory", "memory and swap"])
def test_with_isolation_the_line_is_the_one_in_the_raylets_log(lab: Lab, cgroup: Path, settings: str):
    host = lab["w1"]
    start(host, f"--enable-resource-isolation --cgroup-path={cgroup}", f"echo $$ >{cgroup}/cgroup.procs; {settings}")
    try:
        logged, seen = lines(host)
        assert seen == logged
        memory = once(host)[1]["nodes"][0]["memory"]
        assert memory["isolation"].startswith(f"{cgroup}/ray-node_")
        assert 0 < memory["used"] < memory["whole"]["used"]
    finally:
        end(host)
