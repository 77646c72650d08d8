"""Limits, names, addresses and environments that Ray cannot use, on real hosts: each is found and ends when it is repaired."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster, copy_job_files, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab
from tests.lab.incidents import found, over, watching
from tests.lab.observe import Watcher, faults, node, once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(600)]

FLAGS = "--object-store-memory=100000000 --disable-usage-stats"
PROXY = "http_proxy=http://ann:hunter2@10.98.76.54:3128 no_proxy=localhost,127.0.0.1"
SLOW_DEATH = "RAY_health_check_period_ms=3000 RAY_health_check_failure_threshold=15"
"""A node that the head cannot reach lives for 45 s. Ray's own 15 s are too short for a busy machine."""
BRIDGE = "172.31.77.1"
SHADOW = """
set -e
mkdir -p /run/lab/shadow/{name}
mount --rbind {folder} /run/lab/shadow/{name}
mount -t tmpfs tmpfs {folder}
for one in /run/lab/shadow/{name}/*; do
    at={folder}/$(basename $one)
    if [ -L $one ]; then cp -P $one $at
    elif [ -d $one ]; then mkdir $at; mount --rbind $one $at
    else touch $at; mount --bind $one $at; fi
done
"""
"""A copy of a folder of /sys that can be extended, on this host only: /sys itself accepts no new devices."""


class Cpus:
    """A cgroup with a CPU limit, version 1 or 2, with one raylet in it."""

    def __init__(self, name: str, pid: int) -> None:
        version_1 = Path("/sys/fs/cgroup/cpu")
        self.folder = (version_1 if version_1.exists() else Path("/sys/fs/cgroup")) / name
        self.folder.mkdir()
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, microseconds: int | None) -> None:
        if (file := self.folder / "cpu.cfs_quota_us").exists():
            file.write_text(str(microseconds or -1))
        else:
            (self.folder / "cpu.max").write_text(f"{microseconds or 'max'} 100000")

    def remove(self) -> None:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            (self.folder.parent / "cgroup.procs").write_text(pid)
        self.folder.rmdir()


@pytest.fixture(scope="module")
def odd() -> Iterator[Cluster]:
    """A Ray of two hosts that counts its CPUs. w1 has an RDMA device, 64 KiB of locked memory, a proxy, and its name on loopback."""
    if reason := hosts.why_not():
        pytest.skip(reason)
    if not RAY.exists():
        pytest.skip(NO_RAY)
    lab = Lab(f"s{os.getpid() % 100000}", ["head", "w1", "w2"])
    try:
        cluster = Cluster(lab, ["head", "w1"], RAY)
        for host in lab.hosts.values():
            copy_job_files(host)
        give_device(lab["w1"])
        name_loopback(lab, "127.0.1.1 w1\n")
        start_patiently(lambda: start_ray(cluster), cluster.stop)
        eventually(cluster.complete)
        yield cluster
        cluster.stop()
    finally:
        lab.close()


def start_ray(cluster: Cluster) -> None:
    head = f"ray start --head --port=6379 --dashboard-host=0.0.0.0 --dashboard-port=8265 --num-cpus=16 {FLAGS}"
    cluster.command(cluster.head, f"export {SLOW_DEATH}; {head}", timeout=300)
    limited = "ulimit -S -l 64; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock"
    cluster.command(cluster.lab["w1"], f"export {PROXY}; {limited} ray start --address={cluster.gcs_address} {FLAGS}", timeout=300)


def give_device(host: Host) -> None:
    in_host = ["nsenter", "-t", str(host.init), "-m", "sh", "-c"]
    for name, folder in (("class", "/sys/class"), ("dev", "/dev")):
        subprocess.run([*in_host, SHADOW.format(name=name, folder=folder)], check=True)
    subprocess.run([*in_host, "mkdir -p /sys/class/infiniband/mlx5_0 /dev/infiniband; touch /dev/infiniband/uverbs0"], check=True)


def name_loopback(lab: Lab, line: str) -> None:
    """Gives w1 its own /etc/hosts with this line first."""
    own = lab["w1"].folder / "run" / "lab" / "hosts"
    if not own.exists():
        own.write_text("")
        subprocess.run(["nsenter", "-t", str(lab["w1"].init), "-m", "mount", "--bind", str(own), "/etc/hosts"], check=True)
    own.write_text(line + (lab.folder / "hosts").read_text())


@pytest.fixture
def watcher(odd: Cluster) -> Iterator[Watcher]:
    """Watches all hosts. 1 MiB of locked memory is enough: most machines have a higher hard limit."""
    made = watching(odd, "hosts: [head, w1, w2]\nprobe_hosts: always\n", locked_memory=1 << 20)
    made.until(lambda now: all(node(now, name)["gpus"][0]["power_limit"] for name in ("head", "w1")), within=120)
    yield made
    made.end()


def test_a_cpu_limit_that_ray_did_not_count_is_a_warning_and_a_set_number_is_an_info(odd: Cluster, watcher: Watcher):
    finding = found(watcher, "cpus-overcounted", f"Ray offers 16 CPUs on head, but its host has {os.cpu_count()}: ")
    assert finding["level"] == "info"
    cpus = Cpus(f"{odd.lab.name}-w1", odd.part("raylet", "w1").outer.pid)
    try:
        cpus.limit(50_000)
        finding = found(watcher, "cpus-overcounted", f"Ray offers {os.cpu_count()} CPUs on w1, but its cgroup may use 0.5 (cpu.")
        assert finding["level"] == "warning"
        assert any(f"/{odd.lab.name}-w1/cpu." in line for line in finding["evidence"])
        cpus.limit(None)
        watcher.until(lambda now: not [each for each in now["findings"] if each["code"] == "cpus-overcounted" and each["subject"] == "w1"])
    finally:
        cpus.remove()


def test_a_low_limit_of_locked_memory_is_reported_on_a_host_with_an_rdma_device(odd: Cluster, watcher: Watcher):
    finding = found(watcher, "locked-memory-low", "Workers may lock only 64K of memory on w1 ", "which has RDMA devices")
    raylet = odd.part("raylet", "w1")
    assert finding["evidence"] == [f"/proc/{raylet.pid}/limits on w1: Max locked memory 65536; /sys/class/infiniband: mlx5_0"]
    assert "Max locked memory         65536" in odd.lab["w1"].ssh(f"cat /proc/{raylet.pid}/limits")
    _, most = resource.prlimit(raylet.outer.pid, resource.RLIMIT_MEMLOCK)
    resource.prlimit(raylet.outer.pid, resource.RLIMIT_MEMLOCK, (most, most))
    over(watcher, "locked-memory-low")


def test_a_name_on_loopback_is_reported_with_its_line_of_etc_hosts(odd: Cluster, watcher: Watcher):
    look_up = "python3 -c 'import socket; print(socket.getaddrinfo(socket.gethostname(), 0)[0][4][0])'"
    assert odd.lab["w1"].ssh(look_up).strip() == "127.0.1.1", "the address that Gloo would get"
    finding = found(watcher, "host-name-loopback", "is a loopback address on w1 (1 of 2 hosts; /etc/hosts: `127.0.1.1 w1`)")
    assert finding["level"] == "warning"
    name_loopback(odd.lab, "")
    assert odd.lab["w1"].ssh(look_up).strip() == odd.lab["w1"].address
    over(watcher, "host-name-loopback")


def test_a_node_with_an_address_of_the_head_is_reported_alive_and_dead(odd: Cluster, watcher: Watcher):
    w2 = odd.lab["w2"]
    for host in (odd.head, w2):
        in_host = ["nsenter", "-t", str(host.init), "-n", "sh", "-c"]
        subprocess.run(
            [*in_host, f"ip link add docker0 type bridge; ip link set docker0 up; ip addr add {BRIDGE}/16 dev docker0"], check=True
        )
    odd.command(w2, f"ray start --address={odd.gcs_address} --num-cpus=1 --node-ip-address={BRIDGE} {FLAGS} || true")
    finding = found(
        watcher, "node-address-shared", f"Node w2 is registered in Ray as {BRIDGE}, which head has too", f"(its host has {w2.address})"
    )
    assert finding["level"] == "critical"
    assert finding["remedy"]["text"] == f"`ray stop` on w2, then its `ray start` again with --node-ip-address={w2.address}"
    died = found(watcher, "node-dead", "w2 died")
    assert f"{BRIDGE}, under which it was registered, is an address of head, the head, too" in died["remedy"]["text"]
    over(watcher, "node-address-shared")


def test_proxies_are_reported_without_their_password(odd: Cluster, watcher: Watcher):
    finding = found(watcher, "proxy-of-raylets", "http_proxy is 10.98.76.54:3128 in the environment of the raylet on w1")
    assert odd.head.address in finding["text"]
    assert "hunter2" not in json.dumps(watcher.now)
    _, shell, _ = once(odd.head, f"--address {odd.address}", env=PROXY)
    (finding,) = [each for each in shell["findings"] if each["code"] == "proxy-in-shell"]
    assert f"no_proxy does not name {odd.head.address}: `ray job submit`" in finding["text"]
    assert "hunter2" not in json.dumps(shell)
    submit = f"timeout 100 ray job list --address {odd.address}"
    assert "10.98.76.54" in odd.command(odd.head, f"export {PROXY}; {submit} 2>&1 || true"), "it asks the proxy"
    mended = finding["remedy"]["text"].split("`")[1]
    assert "10.98.76.54" not in odd.command(odd.head, f"export {PROXY}; {mended}; {submit} 2>&1"), "mended by the very command"
    _, shell, _ = once(odd.head, f"--address {odd.address}", env=f"{PROXY},{odd.head.address}")
    assert not [each for each in shell["findings"] if each["code"] == "proxy-in-shell"]
    assert not faults(shell, "ray.")
