"""`check` shows the installed releases of a training framework, and reads the command for the head's release."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.budget import budget_of
from cockpit.check.check import check
from cockpit.check.installed import find_frameworks
from cockpit.check.result import CheckOutcome
from cockpit.model import RayProcess, Snapshot
from tests.check.worlds import cluster, looked, machine, preset

VERL = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8"


def world(*there: dict[str, str] | None) -> Snapshot:
    """Nodes with these frameworks beside Ray, the first of them the head."""
    nodes = [machine(number, head=number == 1) for number in range(1, len(there) + 1)]
    hosts = {
        each.host: looked(each, rays=(RayProcess("raylet", 10, node=each.id, files=9, files_limit=65536, frameworks=frameworks),))
        for each, frameworks in zip(nodes, there, strict=True)
    }
    return cluster(*nodes, hosts=hosts)


def checked(snapshot: Snapshot) -> CheckOutcome:
    return check(preset(), budget_of(VERL, installed=find_frameworks(snapshot)), snapshot)


def read_lines(of: CheckOutcome) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in of.lines if "beside Ray" in line.text]


def test_a_command_is_read_for_the_release_of_the_head():
    snapshot = world({"verl": "0.5.0", "openrlhf": "0.8.5"}, {"verl": "0.9.0"})
    assert find_frameworks(snapshot) == {"verl": "0.5.0", "openrlhf": "0.8.5"}
    assert checked(snapshot).budget.dialect == "0.5.0"


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"verl": "0.7.1"}, ("fine", "veRL 0.7.1 is installed beside Ray")),
        ({"verl": "0.5.0"}, ("doubt", "different releases of veRL are installed beside Ray: 0.7.1 on head, 0.5.0 on w1")),
        ({}, ("doubt", "different releases of veRL are installed beside Ray: 0.7.1 on head, missing on w1")),
    ],
)
def test_one_release_everywhere_is_fine_and_several_are_a_doubt(other: dict[str, str], line: tuple[str, str]):
    assert read_lines(checked(world({"verl": "0.7.1"}, other))) == [line]


@pytest.mark.parametrize("there", [(None, None), ({}, {}), ({"openrlhf": "0.8.5"}, {})])
def test_nothing_is_said_of_what_nobody_sees_or_the_job_must_bring(there):
    of = checked(world(*there))
    assert not read_lines(of)
    assert of.budget.dialect is None


def test_of_a_head_that_is_dead_or_not_looked_at_nothing_is_known():
    snapshot = world({"verl": "0.5.0"})
    assert find_frameworks(replace(snapshot, hosts={})) == {}
    assert find_frameworks(replace(snapshot, nodes=tuple(replace(node, state="DEAD") for node in snapshot.nodes or ()))) == {}
    assert find_frameworks(world({"verl": "\x1b[2J0.5"})) == {}


def test_what_lies_beside_another_rays_raylet_on_the_same_host_is_not_told():
    snapshot = world({"verl": "0.7.1"})
    head = snapshot.hosts["head"]
    other = RayProcess("raylet", 11, "session_b", "f" * 56, visible="0", files=9, files_limit=16, frameworks={"verl": "0.5.0"})
    beside = replace(head, nodes=(*head.nodes, "f" * 56), rays=(*(head.rays or ()), other))
    checked_lines = checked(replace(snapshot, hosts={"head": beside}))
    assert read_lines(checked_lines) == [("fine", "veRL 0.7.1 is installed beside Ray")]
    assert not [line for line in checked_lines.lines if "ffff" in line.text or "16 on" in line.text]
