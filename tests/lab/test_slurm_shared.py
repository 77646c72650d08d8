"""Two users' jobs of Slurm on the same nodes, with a Ray in each: neither is called dead, left over or a rival, nor touched by acts of the other."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.eyes import COCKPIT, Facts, act, once
from tests.lab.hosts import Host, Lab, Process
from tests.lab.leftovers import leave_session
from tests.lab.slurm import Slurm
from tests.lab.user import User, admit, can_run

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(1200)]

HOLD = '#!/bin/bash\nenv | grep ^SLURM_ > "$HOME/allocation"\nsleep infinity\n'
NODES = ("head", "w1")


@dataclass(frozen=True)
class Inside:
    """A step of a job on a node, started by its user from the login host; `node` is asked as any host is."""

    job: Job
    node: str = "head"

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        step = f"export {self.job.env}; exec srun --overlap --quiet -N 1 -n 1 -w {self.node} bash -c {shlex.quote(command)}"
        return self.job.login.ssh(step, timeout, check)


class Job:
    """Of a user, on both nodes, with a Ray in it that has ports and a temp dir of its own."""

    def __init__(self, slurm: Slurm, users: Mapping[str, User], number: int) -> None:
        """`users`: the same one on each host."""
        self.slurm, self.users, self.login = slurm, users, users["login"]
        self.user, self.temp = self.login.login, f"/tmp/ray-{self.login.login}"
        told = {**self._allocate(users["head"]), **ENV, "RAY_AUTH_MODE": "disabled"}
        self.id = told["SLURM_JOB_ID"]
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
        self.address = f"--address http://127.0.0.1:{8265 + number}"
        self._start(number)

    def _allocate(self, user: User) -> Mapping[str, str]:
        home = user.host.folder / "run" / "lab" / f"home-{self.user}"
        (home / "hold.sh").write_text(HOLD)
        user.ssh("sbatch -N 2 -n 2 --ntasks-per-node=1 --overcommit -o /dev/null hold.sh")
        text: str = eventually(lambda: (home / "allocation").read_text())
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def _start(self, number: int) -> None:
        head, more = self.slurm.head, "--num-cpus=2 --object-store-memory=100000000 --disable-usage-stats --block"
        apart = f"--dashboard-agent-listen-port={52365 + number} --min-worker-port={20000 + 1000 * number} --max-worker-port={20999 + 1000 * number}"
        own = f"--port={6379 + number} --dashboard-port={8265 + number} --ray-client-server-port={10001 + number} --temp-dir={self.temp}"
        self._step("head", f"{RAY} start --head --node-ip-address={head.address} {own} {apart} {more}")
        eventually(lambda: head.ssh(f"curl -s -m 5 http://127.0.0.1:{8265 + number}/api/version", check=False))
        self._step("w1", f"{RAY} start --address={head.address}:{6379 + number} {apart} {more}")
        eventually(lambda: [node["state"] for node in self.look()["nodes"] or ()] == ["ALIVE", "ALIVE"])

    def _step(self, node: str, command: str) -> None:
        self.login.spawn("bash", "-c", f"export {self.env}; exec srun --overlap -N 1 -n 1 -w {node} {command}")

    @property
    def inside(self) -> Inside:
        return Inside(self)

    def look(self) -> Facts:
        """What its user sees of both nodes."""
        return once(self.inside, f"{self.address} --hosts head,w1")[1]

    def processes(self) -> list[Process]:
        """All that is of its Ray, on both nodes."""
        return [one for host in self.slurm.hosts for one in host.processes() if f"job_{self.id}/" in Path(f"/proc/{one.outer.pid}/cgroup").read_text()]
