"""The facts for detectors: the snapshot and the tracker's memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Facts, Limits
from cockpit.model import Bundle, Host, PlacementGroup
from tests.world import NOW, actor, snapshot


@pytest.mark.parametrize(("taken", "old"), [(NOW, None), (NOW - 300, NOW - 300), (None, None)])
def test_the_age_of_a_hosts_facts_is_given_if_they_are_old(taken: float | None, old: float | None):
    facts = Facts(snapshot(hosts={"w1": Host("w1", taken=taken)}), Limits())
    assert facts.stale_since("w1") == old
    assert facts.stale_since("elsewhere") is None


def test_work_waits_for_gpus_if_gpus_would_help():
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
