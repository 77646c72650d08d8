"""Slurm limits a job's memory by a cgroup that Ray does not know: the limit is reported, and a worker killed at it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.observe import COCKPIT
from tests.lab.slurm import Slurm

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

LIMIT_MIB = 3000
START = "--head --port=6379 --num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"
EATER = "import ray; ray.init(address='auto'); ray.get(ray.remote(max_retries=0)(lambda: len(b'x' * (4 << 30))).remote())"


class Limited:
    """A job of one node with a Ray in it, and a cockpit that watches it from another step."""

    def __init__(self, lab: Lab) -> None:
        self.slurm = Slurm(lab, ["head"], memory=LIMIT_MIB)
        self.head = self.slurm.head
        env = {**self.slurm.allocate(), **ENV, "RAY_AUTH_MODE": "disabled"}
        self.job = env["SLURM_JOB_ID"]
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        self._start(f"{RAY} start --node-ip-address={self.head.address} {START}")
        eventually(lambda: self.head.ssh("curl -s -m 5 http://127.0.0.1:8265/api/version", check=False))
        self._start(f"{COCKPIT} status --json --watch >/tmp/watched 2>/tmp/said")

    def _start(self, command: str) -> None:
        self.head.spawn("bash", "-c", f"export {self.env}; exec {self.step(command)}")

    def step(self, command: str) -> str:
        return f"srun --overlap --quiet -N 1 -n 1 -w head {command}"

    def run(self, command: str) -> None:
        self.head.ssh(f"export {self.env}; {self.step(command)} >/dev/null 2>&1", check=False)

    def finding(self, code: str) -> dict[str, Any]:
        """The finding of the newest status. Raises `LookupError`."""
        *_, newest, _ = (self.head.tmp / "watched").read_text().split("\n")
        found: list[dict[str, Any]] = json.loads(newest)["findings"]
        return next(iter([finding for finding in found if finding["code"] == code]), {})


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or slurm.why_no_memory_limits() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"sm{os.getpid() % 100000}", ["head"], {"PATH": f"{os.environ['PATH']}:/usr/sbin", **slurm.ENV})
    made = None
    try:
        made = Limited(lab)
        yield made
    finally:
        lab.close()
        if made is not None:
            made.slurm.close()


def test_the_limit_is_reported_beside_rays_own_number(limited: Limited):
    found = eventually(lambda: limited.finding("memory-limit-cgroup"))
    assert found["level"] == "warning"
    assert found["text"].startswith(f"Slurm job {limited.job} may use 2.9G of memory on head (")
    assert f"has a memory limit of {LIMIT_MIB << 20}" in found["evidence"][0]


def test_a_worker_that_the_kernel_kills_at_that_limit_is_reported(limited: Limited):
    """Repeats until it is reported: kills before the first sample are not."""
    eater = f"{sys.executable} -c {shlex.quote(EATER)}"
    found = eventually(lambda: limited.run(eater) or limited.finding("workers-killed-oom"))
    assert found["subject"] == "head"
    assert found["text"].startswith("The kernel killed ")
    assert re.search(
        rf"which process(es)? (it was|they were) is unknown; Slurm job {limited.job} may use 2\.9G of memory there, "
        r"[\d.]+[MG] in use after the kill$",
        found["text"],
    )
    assert "oom-kill event" in found["evidence"][-1]
    assert not any("pid" in line for line in found["evidence"])


def test_slurm_reports_a_kill_in_a_step(limited: Limited):
    """The finding refers to this line. cockpit reports nothing of that step: no cgroup above it keeps its counter."""
    eater = shlex.join([sys.executable, "-c", "len(b'x' * (4 << 30))"])
    output = limited.head.ssh(f"export {limited.env}; {limited.step(eater)} 2>&1; true")
    assert re.search(r"slurmstepd\S*: error: Detected \d+ oom[-_]kill event", output)
