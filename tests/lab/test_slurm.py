"""In an allocation of Slurm's, without ssh and without a line of configuration: every node is seen, and acts reach it."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.eyes import COCKPIT, act, once
from tests.lab.hosts import Host, Lab
from tests.lab.slurm import Slurm

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"
WORDS = "--hosts head,w1"


class Allocation:
    """Of two nodes, with a Ray that `srun` has started in it, as published scripts do."""

    def __init__(self, lab: Lab) -> None:
        self.slurm = Slurm(lab)
        self.head, self.worker = self.slurm.hosts
        told = {**self.slurm.allocate(), **ENV, "RAY_AUTH_MODE": "disabled"}
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
        self._step(self.head, f"{RAY} start --head --port=6379 --node-ip-address={self.head.address} {START}")
        eventually(lambda: self.head.ssh("curl -s -m 5 http://127.0.0.1:8265/api/version", check=False))
        self._step(self.worker, f"{RAY} start --address={self.head.address}:6379 {START}")
        eventually(lambda: {node["state"] for node in self.look()["nodes"]} == {"ALIVE"} and len(self.look()["nodes"]) == 2)

    def settle(self) -> None:
        """Until its script and the two parts of Ray are all that runs in it."""
        eventually(lambda: len(self.slurm.steps()) == 3)

    def _step(self, host: Host, command: str) -> None:
        self.head.spawn("bash", "-c", f"export {self.env}; exec srun --overlap -N 1 -n 1 -w {host.name} {command}")

    def look(self, words: str = "") -> dict:
        """What cockpit sees on the first node, within the job."""
        return once(self.head, words, f"export {self.env};")[1]


@pytest.fixture(scope="module")
def allocation() -> Iterator[Allocation]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"sl{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{os.environ['PATH']}:/usr/sbin", **slurm.ENV})
    try:
        yield Allocation(lab)
    finally:
        lab.close()


def kinds(facts: dict, host: str) -> set[str]:
    return {process["kind"] for process in facts["processes"] or () if process["host"] == host}


def test_both_nodes_are_probed_without_a_flag_as_soon_as_a_process_there_has_no_known_owner(allocation: Allocation):
    stranger = allocation.worker.hold(0, 20 << 30)
    try:
        facts = eventually(lambda: (seen := allocation.look()) and "foreign" in kinds(seen, "w1") and seen)
    finally:
        stranger.kill()
    assert not [fault for fault in facts["faults"] if "w1" in fault["text"]]


def test_the_step_of_a_look_ends_with_it(allocation: Allocation):
    assert "ray" in kinds(allocation.look(WORDS), "w1")
    allocation.settle()


def test_no_process_of_a_living_step_is_called_left_over(allocation: Allocation):
    facts = allocation.look(WORDS)
    assert {"orphan", "stale"}.isdisjoint(kinds(facts, "head") | kinds(facts, "w1"))


def test_a_long_watch_keeps_one_step_on_the_other_node(allocation: Allocation):
    allocation.settle()
    before = set(allocation.slurm.steps())
    watched = f"exec env --default-signal=INT {COCKPIT} status --json --watch >/tmp/watched"
    watch = allocation.head.spawn("bash", "-c", f"export {allocation.env} COCKPIT_PROBE_HOSTS=always; {watched}")
    try:
        (step,) = eventually(lambda: set(allocation.slurm.steps()) - before)
        told = allocation.head.tmp / "watched"
        seen = eventually(lambda: told.read_text().count("\n"))
        eventually(lambda: told.read_text().count("\n") > seen + 5)
        assert set(allocation.slurm.steps()) - before == {step}
    finally:
        watch.outer.send_signal(signal.SIGINT)
    allocation.settle()


def test_its_ray_is_stopped_on_both_nodes_through_slurm(allocation: Allocation):
    code, done, said = act(allocation.head, f"stop --yes {WORDS}", f"export {allocation.env};")
    assert code == 0, (said, done)
    assert {each["host"] for each in done["done"]} == {"head", "w1"}
    eventually(lambda: not [one for host in allocation.slurm.hosts for one in host.matching("raylet")])
