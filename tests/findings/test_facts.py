"""The facts for detectors: the snapshot, and what the tracker remembers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Facts, Limits
from cockpit.model import Bundle, Host, PlacementGroup
from tests.world import NOW, actor, node, snapshot


def steadiness(*holds: bool) -> list[float | None]:
    """For how long a condition has held, sampled every 10 s, including gaps shorter than 20 s."""
    facts, told = Facts(snapshot(), Limits()), []
    for step, each in enumerate(holds):
        facts = Facts(replace(snapshot(), taken=NOW + 10 * step), Limits(), facts.holding)
        told.append(facts.seconds_steady(each, "hot", "w1", 20))
    return told


def test_what_flickers_has_held_since_it_began_and_ends_with_the_first_long_gap():
    assert steadiness(False, True, False, True, False, False) == [None, 0, 10, 20, 30, 40]
    assert steadiness(True, False, False, False, True) == [0, 10, 20, None, 0]


def test_nodes_of_one_name_are_told_apart():
    one, two, three = node(1), node(2, host="node1"), node(3)
    facts = Facts(snapshot(nodes=(one, two, three)), Limits())
    assert [facts.title(each) for each in (one, two, three)] == ["node1 (00000000)", "node1 (00000000)", "node3"]


@pytest.mark.parametrize(("taken", "old"), [(NOW, None), (NOW - 300, NOW - 300), (None, None)])
def test_how_old_a_hosts_facts_are_is_told_when_they_are_old(taken: float | None, old: float | None):
    facts = Facts(snapshot(hosts={"w1": Host("w1", taken=taken)}), Limits())
    assert facts.stale_since("w1") == old
    assert facts.stale_since("elsewhere") is None


def test_what_waits_for_gpus_is_what_gpus_would_help():
    waits = actor(1, state="PENDING_CREATION", needs={"GPU": 1.0}, wait="held")
    group = PlacementGroup("a", state="PENDING", bundles=(Bundle({"CPU": 1.0}), Bundle({"GPU": 1.0})))
    others = (
        actor(2, state="ALIVE", needs={"GPU": 1.0}),
        actor(3, state="PENDING_CREATION", needs={"CPU": 1.0}),
        actor(4, state="PENDING_CREATION", needs={"GPU": 1.0}, wait="label"),
        actor(5, state="PENDING_CREATION", needs={"GPU": 1.0}, placement_group="a"),
    )
    placed = replace(group, id="b", state="CREATED")
    facts = Facts(snapshot(actors=(waits, *others), placement_groups=(group, placed)), Limits())
    assert facts.waiting_for_gpus == (group, waits)
