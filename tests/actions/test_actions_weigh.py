"""Several things that end with one plan: all that ends with them is told, and one word stands for all."""

from __future__ import annotations

from cockpit.actions.plan import Plan, Target
from cockpit.actions.weigh import weigh
from cockpit.model import Actor, Bundle, Job, PlacementGroup, Snapshot

WORLD = Snapshot(
    jobs=(Job("train1", "02000000", "train1", "RUNNING"),),
    actors=tuple(
        Actor(str(number), class_=kind, state="ALIVE", job="02000000", needs={}) for number, kind in enumerate(("Critic", "Policy"))
    ),
    actors_complete=True,
    placement_groups=tuple(
        PlacementGroup(str(number), name=f"g{number}", state="CREATED", bundles=(Bundle({"GPU": 4.0}),), job="02000000")
        for number in range(2)
    ),
)


def plan(act: str, what: str, *names: str, leaked: bool = False) -> Plan:
    return Plan(act, act, tuple(Target(what, "head", id=name, name=f"n{name}", leaked=leaked) for name in names))  # type: ignore[arg-type]


def test_one_actor_is_named_and_several_are_counted():
    assert weigh(WORLD, plan("kill-actor", "actor", "0"), {})[1] == "n0"
    ends, word = weigh(WORLD, plan("kill-actor", "actor", "0", "1"), {})
    assert ends == ("actor Critic of job train1 ends", "actor Policy of job train1 ends")
    assert word == "2 actors"


def test_groups_that_nobody_uses_need_no_word_however_many_they_are():
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0", "1", leaked=True), {})[1] is None
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0", "1"), {})[1] == "2 groups"
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0"), {})[1] == "n0"
