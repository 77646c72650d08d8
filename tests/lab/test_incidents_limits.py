"""Exhausted resources and obstacles on hosts of a real Ray: each is found with its owner, and ends when it is repaired."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster
from tests.lab.hosts import Host, Process
from tests.lab.incidents import found, over, watching
from tests.lab.observe import Watcher, node

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(600)]

FILL = """
import os, time
file = os.open("/dev/shm/torch_4711_0", os.O_RDWR | os.O_CREAT)
disk = os.statvfs("/dev/shm")
os.posix_fallocate(file, 0, disk.f_bavail * disk.f_frsize - (64 << 20))
time.sleep(10000)
"""
RANK = """
import nvml, os, pathlib, ray, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_gpus=1, runtime_env={"env_vars": {"GLOO_SOCKET_IFNAME": "ib9"}})
class Rank:
    def start(self):
        nvml.hold(pathlib.Path(os.environ[nvml.STATE]), os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"].split(","), 45 << 30, 90)
        return os.getpid()
rank = Rank.remote()
ray.get(rank.start.remote())
time.sleep(10000)
"""
PORT = 29511
LISTEN = f"import socket, time; held = socket.create_server(('', {PORT})); time.sleep(10000)"
TRAIN = f"import socket; socket.create_server(('', {PORT}))"


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches both hosts all the time; Ray's own processes may use 40 MB."""
    made = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n", store_age=2, ray_memory=40 << 20)
    made.until(lambda now: all(node(now, name)["gpus"][0]["power_limit"] for name in ("head", "w1")), within=120)
    yield made
    made.end()


def run(host: Host, code: str, title: str) -> Process:
    return host.spawn("bash", "-c", f"exec -a {shlex.quote(title)} {sys.executable} -c {shlex.quote(code)}")


def test_full_shared_memory_is_reported_with_its_holders(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    loader = run(w1, FILL, "python loader.py")
    full = found(watcher, "shm-full", "Shared memory (/dev/shm) on w1 is ")
    assert full["level"] == "warning"
    assert any(line.startswith("files in /dev/shm by user: root 1.") for line in full["evidence"]), full["evidence"]
    loader.kill()
    w1.ssh("rm /dev/shm/torch_4711_0")
    over(watcher, "shm-full")


def test_a_missing_interface_is_reported_for_the_job_that_was_given_its_name(cluster: Cluster, watcher: Watcher):
    for host in cluster.hosts:
        (host.tmp / "jobs" / "ranks.py").write_text(RANK)
    cluster.submit("ranks", "python ranks.py")
    finding = found(
        watcher, "interface-missing", "GLOO_SOCKET_IFNAME is ib9 for 1 process of job ranks on ", "no such network interface (it has "
    )
    (rank,) = [process for host in cluster.hosts for process in host.matching("ray::Rank")]
    assert finding["evidence"][0].startswith(f"/proc/{rank.pid}/environ on ")
    cluster.stop_jobs()
    over(watcher, "interface-missing")


def test_a_job_that_wanted_a_used_port_is_reported_with_the_ports_owner(cluster: Cluster, watcher: Watcher):
    holder = run(cluster.head, LISTEN, "python serve.py")
    cluster.submit("wants-port", f"python -c {shlex.quote(TRAIN)}")
    found(watcher, "job-failed", "wants-port", "Address already in use")
    who = f"{holder.pid} of root listens on port {PORT} of head now"
    watcher.until(lambda now: any(who in line for finding in now["findings"] for line in finding["evidence"]))
    holder.kill()


def test_parts_of_ray_that_use_much_memory_are_reported(cluster: Cluster, watcher: Watcher):
    dashboard = found(watcher, "ray-memory", "Dashboard (pid ", " on head holds ", "stopping jobs does not free it")
    assert dashboard["evidence"][0].startswith("ps -o rss,cmd -p ")
