"""Draining a node: valid targets, the request to the probe, and the word to type."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.actions.audit import title_of
from cockpit.actions.choose import Choice, Selection, choose_action
from cockpit.actions.plan import ActionTarget, Plan, Target
from cockpit.actions.plan_text import headline
from cockpit.actions.table import actions_on, find_action
from tests.world import actor, node, snapshot

DRAIN = find_action("drain-node")
WORKER = f"{2:056x}"


def plan(*names: str) -> Plan:
    targets = tuple(Target("node", "head", id=f"{number:056x}", name=name) for number, name in enumerate(names, 2))
    return Plan("drain-node", "Drain node", targets, hosts=("head",))


@pytest.mark.parametrize(
    ("row", "expected"),
    [(node(1), "is the head node"), (node(2, state="DEAD"), "No live Ray on node2"), (node(2, id=None), "No live Ray on node2")],
)
def test_only_a_living_worker_node_can_be_the_target(row, expected):
    assert expected in str(choose_action((DRAIN,), Selection([row])))


def test_nodes_are_named_by_rays_ids_in_the_request():
    choice = choose_action(actions_on("D"), Selection([node(2), node(3)]))
    assert isinstance(choice, Choice)
    asked = DRAIN.request(choice.target, "head")
    assert (asked["act"], asked["verb"], asked["ids"]) == ("ray", "drain_node", [WORKER, f"{3:056x}"])
    assert DRAIN.request(ActionTarget(id=WORKER), "head")["ids"] == [WORKER]


def test_its_name_must_be_typed_and_the_continuing_actors_are_named():
    world = replace(snapshot(), actors=(actor(1, node=WORKER), actor(2, node=WORKER), actor(3)))
    impact = DRAIN.impact(plan("w1"), world, {})
    assert impact.word == "w1"
    assert impact.ends == (
        "node w1 takes no new work, and its Ray stops when nothing runs there; this can't be undone",
        "2 actors on w1 continue until their jobs end them",
    )
    assert DRAIN.impact(plan("w1"), replace(world, actors=None), {}).ends[1:] == ("the actors on w1 are unknown",)
    assert DRAIN.impact(plan("w1", "w2"), world, {}).word == "2 nodes"


def test_a_node_has_its_words_in_plan_and_log():
    assert headline(plan("w1", "w2")) == "Drain node: 2 nodes on 1 host"
    assert title_of(plan("w1").targets[0]) == "node w1"
