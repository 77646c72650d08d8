"""A Ray in an allocation of the lab's Slurm, and what cockpit finds there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import RAY
from tests.lab.hosts import Lab
from tests.lab.observe import once
from tests.lab.slurm import Slurm

FLAGS = {"num_gpus": 8, "num_cpus": 8, "object_store_memory": "100MB", "disable_usage_stats": True}
PRESET: dict[str, Any] = {
    "ray": {
        "head": {"host": "head", "dashboard_host": "0.0.0.0", **FLAGS},
        "workers": [{"host": "w1", **FLAGS}],
        "env": {**ENV, "RAY_AUTH_MODE": "disabled", "TRAIN_API_KEY": "${TRAIN_API_KEY}"},
        "python": str(RAY.with_name("python")),
    },
    "job": {"entrypoint": "echo both are here; sleep 10000", "entrypoint_num_cpus": 0},
    "needs": {"bundles": [{"GPU": 8, "count": 2}]},
}
"""A preset with a cluster and a job."""
WITHOUT_HOSTS: dict[str, Any] = {
    **PRESET,
    "ray": {**PRESET["ray"], "head": {"dashboard_host": "0.0.0.0", **FLAGS}, "workers": FLAGS},
}
"""The same preset on the nodes of any job."""
START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"


class Allocation:
    """An allocation of two nodes, with a Ray that `srun` has started in it, as published scripts do."""

    def __init__(self, lab: Lab, called: Sequence[str] = ()) -> None:
        self.slurm, self.login = Slurm(lab, ["head", "w1"], called=called), lab["login"]
        self.head, self.worker = self.slurm.hosts
        env = {**self.slurm.allocate(), **ENV, "RAY_AUTH_MODE": "disabled"}
        self.job = env["SLURM_JOB_ID"]
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        self._step(0, f"{RAY} start --head --port=6379 --node-ip-address={self.head.address} {START}")
        eventually(lambda: self.head.ssh("curl -s -m 5 http://127.0.0.1:8265/api/version", check=False))
        self._step(1, f"{RAY} start --address={self.head.address}:6379 {START}")
        eventually(lambda: [node["state"] for node in self.look()["nodes"] or ()] == ["ALIVE", "ALIVE"])

    def settle(self) -> None:
        """Waits until only its script and the two parts of Ray run in it."""
        eventually(lambda: len(self.slurm.steps()) == 3)

    def _step(self, node: int, command: str) -> None:
        self.head.spawn("bash", "-c", f"export {self.env}; exec srun --overlap -N 1 -n 1 -w {self.slurm.names[node]} {command}")

    def look(self, words: str = "") -> dict:
        """The status that cockpit reports on the first node, within the job."""
        return once(self.head, words, f"export {self.env};")[1]


def findings(facts: dict, code: str) -> list[dict]:
    return [finding for finding in facts["findings"] if finding["code"] == code]
