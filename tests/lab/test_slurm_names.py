"""Slurm's node names differ from the hosts' own names: each node is one host, and is reached by Slurm's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab import hosts, slurm
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab
from tests.lab.leftovers import leave_engine
from tests.lab.observe import COCKPIT, action, once
from tests.lab.slurm_ray import Allocation, findings

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

CALLED = ("gpu-a-01", "gpu-a-02")
"""Slurm's names of head and w1."""


@pytest.fixture(scope="module")
def allocation() -> Iterator[Allocation]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"sn{os.getpid() % 100000}", ["head", "w1", "login"], {"PATH": f"{os.environ['PATH']}:/usr/sbin", **slurm.ENV})
    try:
        yield Allocation(lab, CALLED)
    finally:
        lab.close()


@dataclass(frozen=True)
class Place:
    """The place from which cockpit watches."""

    host: Host
    words: str
    env: str
    names: tuple[str, str]
    """The names of the two nodes there."""


@pytest.fixture(params=["shell", "step", "login"])
def place(request: pytest.FixtureRequest, allocation: Allocation) -> Place:
    """A shell of salloc has no Slurm name for its own node; a step has one."""
    always = "RAY_AUTH_MODE=disabled COCKPIT_PROBE_HOSTS=always"
    if request.param == "login":
        return Place(allocation.login, f"--slurm {allocation.job}", f"export {always};", CALLED)
    own = "SLURMD_NODENAME=gpu-a-01" if request.param == "step" else ""
    return Place(allocation.head, "", f"export {allocation.env} {always} {own};", ("head", "gpu-a-02"))


def test_each_node_is_one_host(allocation: Allocation, place: Place):
    """With any way of naming the hosts, none of them is listed twice."""
    for named in ("", f"--hosts {','.join(CALLED)}", "--hosts head,w1"):
        _, facts, stderr = once(place.host, f"{place.words} {named}", place.env)
        assert not stderr
        assert not [fault for fault in facts["faults"] if fault["source"] == "probe"]
        assert not findings(facts, "node-missing")
        assert len(facts["nodes"]) == (3 if place.host is allocation.login else 2)
    assert sorted(session["host"] for session in facts["sessions"]) == sorted(place.names)
    assert {process["host"] for process in facts["processes"]} == set(place.names)


def test_doctor_counts_each_host_once(allocation: Allocation, place: Place):
    text = place.host.ssh(f"{place.env} {COCKPIT} doctor {place.words}", check=False)
    assert ("3 of 3 hosts probed" if place.host is allocation.login else "2 nodes alive, 2 of 2 hosts probed") in text


def test_a_draining_node_is_reported_for_rays_node(allocation: Allocation):
    allocation.head.ssh("scontrol update nodename=gpu-a-02 state=drain reason='Xid 79 on GPU 3'")
    try:
        facts = allocation.look()
    finally:
        allocation.head.ssh("scontrol update nodename=gpu-a-02 state=resume")
    (drained,) = findings(facts, "slurm-node-drain")
    assert drained["evidence"] == ["sinfo: gpu-a-02 is draining: Xid 79 on GPU 3"]
    assert [node["host"] for node in facts["nodes"]] == ["head", "w1"], "Ray's names"


def test_leftovers_are_found_and_ray_is_stopped_once_per_host(allocation: Allocation, place: Place):
    left = [leave_engine(host, 5) for host in allocation.slurm.hosts]
    try:
        orphans = action(place.host, f"kill-orphans --dry-run {place.words}", place.env)[1]["plan"]
    finally:
        for engine in left:
            engine.kill()
    assert sorted((row["host"], row["pid"]) for row in orphans) == sorted(zip(place.names, (one.pid for one in left), strict=True))
    parts = action(place.host, f"stop --dry-run {place.words}", place.env)[1]["plan"]
    assert sorted(row["host"] for row in parts if row["part"] == "raylet") == sorted(place.names)


@pytest.mark.parametrize("number", [0, 1])
def test_a_node_is_cleaned_by_each_of_its_names(allocation: Allocation, place: Place, number: int):
    for name in (CALLED[number], allocation.slurm.hosts[number].name, allocation.slurm.hosts[number].address):
        refused = action(place.host, f"clean {name} --dry-run {place.words}", place.env)[1]["refused"]
        assert [(row["host"], row["reason"]) for row in refused] == [(place.names[number], "it is alive: a raylet listens on its socket")]


def test_the_log_of_a_node_is_read_by_each_of_its_names(allocation: Allocation, place: Place):
    for name in ("gpu-a-02", "w1", allocation.worker.address):
        assert place.host.ssh(f"{place.env} {COCKPIT} logs {name} --log raylet.out -n 20 {place.words}").strip()


def test_a_node_is_targeted_by_each_of_its_names(allocation: Allocation):
    """Ray's own Python cannot be started outside the job here, so nothing is drained; the target is known before that."""
    for name in ("gpu-a-02", "w1", allocation.worker.address):
        refused = action(allocation.head, f"drain-node {name} --dry-run", f"export {allocation.env};")[1]["refused"]
        assert [row["host"] for row in refused] == ["head"]


def test_a_host_outside_the_job_is_refused_with_the_command_that_lists_its_nodes(allocation: Allocation):
    failed = action(allocation.head, "clean w9 --dry-run", f"export {allocation.env};")[1]["failed"]
    assert f"is it a node of that job? `squeue -h -j {allocation.job} -o %N` lists its nodes" in failed[0]["error"]
