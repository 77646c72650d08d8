"""Tests how groups that wait for the same reason share a line."""

from __future__ import annotations

from cockpit.model import Bundle, Finding, PlacementGroup, Snapshot
from cockpit.report.grouping import Repeats, alike_groups, bundles_words
from tests.world import actor, finding, snapshot

REASON = "needs 8 GPUs on one node; node1 has 8 but 2 are reserved by job train1 (actor Critic), and nothing else is free there"


def group(number: int, *needs: dict[str, float], **more) -> PlacementGroup:
    bundles = tuple(Bundle(each) for each in needs or ({"GPU": 1.0, "CPU": 1.0},))
    facts = {"name": f"g{number}", "state": "PENDING", "strategy": "PACK", "bundles": bundles, "job": "02000000", "why": REASON, **more}
    return PlacementGroup(f"{number:036x}", **facts)


def test_bundles_with_equal_needs_are_counted_together_in_any_order():
    assert bundles_words(group(1, {"GPU": 1.0, "CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0})) == "2 x {1 GPU, 1 CPU}"
    odd = group(1, {"CPU": 1.0}, {"CPU": 2.0, "accelerator_type:H100": 0.001, "GPU": 0.5, "memory": 10 * 2.0**30})
    assert bundles_words(odd) == "1 x {0.5 GPU, 0.001 accelerator_type:H100, 10G memory, 2 CPUs} + 1 x {1 CPU}"


def test_groups_of_one_job_with_equal_needs_are_grouped():
    groups = (group(1), group(2, {"CPU": 1.0, "GPU": 1.0}), group(3, {"GPU": 2.0}), group(4, job="03000000"), group(5, strategy="SPREAD"))
    assert [[each.name for each in alike] for alike in alike_groups(groups)] == [["g1", "g2"], ["g3"], ["g4"], ["g5"]]
    assert alike_groups((group(1, state="CREATED"), group(2, why="Ray is placing it"), group(3))) == [
        [group(2, why="Ray is placing it")],
        [group(3)],
    ]


def test_a_long_reason_is_written_once_and_then_referred_to():
    repeats = Repeats()
    assert repeats.shorten(REASON, "group g1") == REASON
    assert repeats.shorten(REASON, "group g2") == "see group g1"
    assert repeats.shorten(f"its placement group waits: {REASON}", "actor Critic") == "its placement group waits: see group g1"
    assert repeats.shorten(f"{REASON} and more", "group g3") == f"{REASON} and more"
    assert [repeats.shorten("Ray is placing it", name) for name in ("a", "b")] == ["Ray is placing it"] * 2, "it is short"


def test_the_second_finding_refers_to_the_reason_of_the_first():
    world = snapshot(placement_groups=(group(1), group(2)), actors=(actor(1, why=REASON),))
    first = Finding("group", "warning", "job ppo", f"group g1 waits: {REASON}", about=(group(1).key,))
    second = Finding("actor", "info", "Critic", f"2 actors wait: {REASON}, as of 1m00s ago", about=(actor(1).key, "node:gone"))
    repeats = Repeats(world)
    assert repeats.shorten_finding(first).text == f"group g1 waits: {REASON}"
    assert repeats.shorten_finding(second).text == "2 actors wait: see the warning finding on job ppo, as of 1m00s ago"
    assert repeats.shorten(REASON, "group g1") == "see the warning finding on job ppo"
    assert Repeats(Snapshot()).shorten_finding(finding()) == finding()
