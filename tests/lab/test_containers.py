"""Ray in a container: seen from its host, from inside and through `podman exec`, and kills hit the right namespace or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.lab import hosts
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.eyes import COCKPIT, Facts, act, kinds, once
from tests.lab.hosts import Host, Lab, is_alive
from tests.lab.leftovers import OLD, RAYLET
from tests.probe.alone import dead_session, left_variables

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(600)]

PODMAN = "podman --root /tmp/store --runroot /run/podman --cgroup-manager cgroupfs --events-backend file --runtime runc"
START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"
SHARED = "/tmp/shared"
"""Of the host, that each container has as its /tmp, in a folder of its name."""


class Container:
    """On a host of a lab, with this host's files but a /tmp of its own, and a Ray in it."""

    def __init__(self, host: Host, name: str, network: str) -> None:
        self.host, self.name, self.network = host, name, network
        (self.tmp / "ray").mkdir(parents=True)
        self.tmp.chmod(0o1777)
        told = {
            **ENV,
            "RAY_AUTH_MODE": "disabled",
            "NVML_SIM_STATE": "/run/lab/nvml.state",
            "LD_LIBRARY_PATH": host.ssh("echo $LD_LIBRARY_PATH").strip(),
        }
        env = " ".join(f"-e {key}={value}" for key, value in told.items())
        binds = f"-v /run/lab:/run/lab -v {SHARED}/{name}:/tmp"
        host.ssh(f"{PODMAN} run -d --name {name} --network {network} --shm-size 1g {binds} {env} --rootfs /:O /bin/sleep infinity")
        host.ssh(f"{PODMAN} exec -d {name} {RAY} start --head {START}")
        eventually(lambda: self.run("curl -s -m 5 http://127.0.0.1:8265/api/version"))
        eventually(lambda: self.look()["nodes"])

    @property
    def tmp(self) -> Path:
        """Its /tmp, seen from outside of the host."""
        return self.host.tmp / "shared" / self.name

    def run(self, command: str) -> str:
        return self.host.ssh(f"{PODMAN} exec {self.name} {command}; true")

    def look(self, words: str = "") -> Facts:
        """As cockpit inside it sees things."""
        printed = self.run(f"{COCKPIT} status --json {words}")
        facts: Facts = json.loads(printed[printed.index("{") :])
        return facts

    def leave_orphan(self) -> psutil.Process:
        """What a worker of a Ray that is gone has left in it."""
        dead_session(self.tmp / "ray", RAYLET, OLD, 0)
        variables = " ".join(f"{name}={value}" for name, value in left_variables(Path("/tmp"), RAYLET).items())
        started = f"setsid env {variables} bash -c 'exec -a VLLM::EngineCore sleep 10000' </dev/null >/dev/null 2>&1 &"
        self.run(f"bash -c {shlex.quote(started)}")
        return eventually(lambda: next((one for one in self.processes() if one.cmdline()[:1] == ["VLLM::EngineCore"]), None))

    def processes(self) -> list[psutil.Process]:
        """All of it, seen from outside of the host."""
        init = int(self.host.ssh(f"{PODMAN} inspect -f '{{{{.State.Pid}}}}' {self.name}"))
        outer = next(pid for pid in psutil.pids() if numbers_of(pid)[-2:-1] == [init] and is_below(pid, self.host.init))
        own = os.readlink(f"/proc/{outer}/ns/pid")
        return [psutil.Process(pid) for pid in psutil.pids() if is_in(pid, own)]


def numbers_of(pid: int) -> list[int]:
    """Its pids, from ours to that in its own namespace; none where it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return [int(number) for number in next(line for line in lines if line.startswith("NSpid:")).split()[1:]]
    return []


def is_in(pid: int, namespace: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid") == namespace
    return False


def is_below(pid: int, init: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return init in (parent.pid for parent in psutil.Process(pid).parents())
    return False


@pytest.fixture(params=["host", "none"])
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    """Its network is the host's, or one of its own without a way out."""
    missing = [name for name in ("podman", "runc", "conmon") if not shutil.which(name)]
    lacks = f"needs {', '.join(missing)} (Debian: apt install podman runc)" if missing else None
    if reason := hosts.why_not() or lacks or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"pd{os.getpid() % 100000}", ["head"], {"PATH": f"{os.environ['PATH']}:/usr/sbin"})
    try:
        made = Container(lab["head"], "train", request.param)
        config = lab["head"].folder / "run" / "lab" / "home" / ".config" / "cockpit" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f'reach: "{PODMAN} exec -i {{name}} {sys.executable} -"\n')
        yield made
    finally:
        lab["head"].ssh(f"{PODMAN} rm -f -t 0 train", check=False)
        lab.close()


def test_a_ray_in_a_container_is_told_alike_from_inside_and_from_outside_and_kills_hit_what_was_meant(container: Container):
    host = container.host
    inside = container.look()
    assert (inside["cluster"]["reachable"], inside["faults"]) == (True, [])
    outside = once(host)[1]
    assert outside["cluster"]["reachable"] is (container.network == "host")
    for facts in (inside, outside):
        assert {process["kind"] for process in facts["processes"]} == {"ray", "child"}

    orphan = container.leave_orphan()
    alive = set(container.processes()) - {orphan}
    _, near, within = numbers_of(orphan.pid)[-3:]
    assert not act(host, "kill-orphans --yes")[1]["done"], "its namespace is another one: nothing proves from here that it is dead"
    assert kinds(once(host)[1], "head")[near] == "unknown"
    code, ended, said = act(host, "kill-orphans --yes --hosts train")
    assert (code, said, [(row["host"], row["pid"]) for row in ended["done"]]) == (0, "", [("train", within)])
    eventually(lambda: not is_alive(orphan))
    assert alive <= {process for process in container.processes() if is_alive(process)}
