"""Facts of real hosts that contradict each other: path lengths, port numbers, shared folders, hanging processes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.incidents import found, over, watching
from tests.lab.observe import COCKPIT

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

LONG = "/net/scratch/people/annsmith/slurm_jobdir/1355700/tmp.t0016/ray"
ENGINES = """
import ray, time
ray.init(address="auto")
@ray.remote(num_gpus=1, num_cpus=0, resources={"firewalled": 1})
class Engine:
    pass
engines = [Engine.remote() for _ in range(8)]
time.sleep(10000)
"""
HANGS = """
import ctypes, os, ray, signal, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_gpus=1)
class Rank:
    def hang(self):
        number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]  # clone
        if ctypes.CDLL(None).syscall(number, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:  # CLONE_VFORK: the parent waits in D state
            signal.pause()
rank = Rank.remote()
rank.hang.remote()
time.sleep(10000)
"""


@pytest.fixture
def sharing() -> Iterator[Cluster]:
    """A Ray whose two hosts share /tmp/ray and whose head has four worker ports."""
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"f{os.getpid() % 100000}", ["head", "w1"])
    try:
        (lab["head"].tmp / "ray").mkdir(mode=0o777)
        lab["w1"].ssh(f"mkdir /tmp/ray && mount --bind {lab['head'].tmp}/ray /tmp/ray")
        cluster = Cluster(lab, ["head", "w1"], RAY)
        start_patiently(lambda: _start(cluster), lambda: _end(cluster))
        yield cluster
    finally:
        lab.close()


def _start(cluster: Cluster) -> None:
    for host in cluster.hosts:
        (host.tmp / "jobs").mkdir(exist_ok=True)
    (cluster.head.tmp / "jobs" / "engines.py").write_text(ENGINES)
    usual = "--object-store-memory=100000000 --disable-usage-stats"
    resources = shlex.quote('{"firewalled": 8}')
    ports = "--min-worker-port=10010 --max-worker-port=10013"
    line = f"ray start --head --port=6379 --dashboard-host=0.0.0.0 --num-cpus=4 --resources={resources} {ports} {usual}"
    cluster.command(cluster.head, line, timeout=400)
    cluster.command(cluster.lab["w1"], f"ray start --address={cluster.gcs_address} --num-cpus=4 {usual}", timeout=400)
    eventually(cluster.complete, within=240)


def _end(cluster: Cluster) -> None:
    for host in cluster.hosts:
        for process in host.processes():
            process.kill()


def test_exhausted_worker_ports_and_a_shared_session_folder_are_reported(sharing: Cluster):
    watcher = watching(sharing, "hosts: [head, w1]\nprobe_hosts: always\n", worker_ports_age=2)
    shared = found(watcher, "session-folder-shared", "2 hosts, head, w1, share the session folder /tmp/ray/session_")
    assert shared["level"] == "warning"
    sharing.head.spawn("bash", "-c", f"exec env RAY_AUTH_MODE=disabled {RAY.with_name('python')} /tmp/jobs/engines.py")
    full = found(
        watcher, "worker-ports-full", "The raylet on head has 4 ports for workers (10010-10013), and 4 workers and drivers run there"
    )
    assert full["level"] == "critical"
    assert "no other worker can start there, and 5 actors wait" in full["text"]
    for process in sharing.lab["w1"].processes():
        if "ray" in process.text:
            process.kill()
    logs = max((sharing.head.tmp / "ray").glob("session_2*")) / "logs"
    before = {path.name for path in logs.iterdir()}
    sharing.lab["w1"].ssh(f"{COCKPIT} clean --yes --older-than 0s", check=False)
    assert before <= {path.name for path in logs.iterdir()}, "the head uses that folder"


def test_a_temp_dir_that_is_too_long_is_refused_before_the_old_ray_is_stopped(cluster: Cluster):
    raylet = cluster.part("raylet")
    preset = {"ray": {"head": {"host": "head", "num_gpus": 8, "temp_dir": LONG}, "python": str(RAY.with_name("python"))}}
    (cluster.head.tmp / "long.yaml").write_text(json.dumps(preset))
    output = cluster.head.ssh(f"{COCKPIT} recover /tmp/long.yaml --yes 2>&1; echo code $?", timeout=280)
    assert f"the path of Ray's socket plasma_store in {LONG} (63 bytes) would have 12" in output
    assert "at most 107 are possible: `ray start` would fail" in output
    assert "code 0" not in output
    assert raylet.is_alive()


def test_a_rank_that_hangs_in_the_kernel_is_reported_with_its_duration(cluster: Cluster):
    for host in cluster.hosts:
        (host.tmp / "jobs" / "hangs.py").write_text(HANGS)
    watcher = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n", stuck_age=10)
    cluster.submit("hangs", "python hangs.py")
    finding = found(watcher, "job-stuck-io", "1 process of job hangs on ", "in D state for ")
    (rank,) = [process for host in cluster.hosts for process in host.matching("ray::Rank") if process.outer.status() == "disk-sleep"]
    assert f"(pid {rank.pid})" in finding["text"]
    for process in [child for host in cluster.hosts for child in host.matching("ray::Rank")]:
        process.kill()
    over(watcher, "job-stuck-io")
