"""Requests never take more than is free, and take it where Ray would."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.placement import SCALE, FreeCapacity, LivingNodes, make_request, shape
from tests.placement.given import place

STRATEGIES = st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
BUNDLE = st.fixed_dictionaries({"GPU": st.integers(0, 6), "CPU": st.integers(0, 10)}).filter(lambda needs: any(needs.values()))
REQUESTS = st.lists(
    st.tuples(st.lists(BUNDLE, min_size=1, max_size=5), STRATEGIES, st.sampled_from([{}, {"zone": "a"}, {"zone": "!a"}])),
    min_size=1,
    max_size=4,
)
NODES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 16), st.sampled_from([{}, {"zone": "a"}])), min_size=1, max_size=5)


def gpus(taken):
    return {one.node.name: one.amounts.get("GPU", 0) // SCALE for one in taken}


@settings(max_examples=300)
@given(NODES, REQUESTS)
def test_what_is_taken_is_what_was_asked_for_and_was_there(nodes, wanted):
    places = [place(f"n{number}", labels=labels, GPU=has, CPU=cpus) for number, (has, cpus, labels) in enumerate(nodes)]
    requests = [make_request([shape(needs, labels) for needs in bundles], strategy) for bundles, strategy, labels in wanted]
    ground = FreeCapacity(places, requests)
    for one in requests:
        before = LivingNodes(ground.nodes())
        verdict = before.judge(one)
        taken = ground.take(one)
        assert (taken is not None) == (verdict is not None and verdict.kind == "now")
        given_away = Counter[str]()
        for each in taken or ():
            given_away.update(each.amounts)
        if taken is not None:
            assert {name: given_away[name] for name in one.names} == {name: one.sum(name) for name in one.names}
    for each in ground.nodes():
        assert all(each.used[name] <= total for name, total in each.total.items())


def test_groups_of_one_node_each_fill_one_node_after_the_other():
    pool = make_request([shape({"GPU": 1, "CPU": 2})] * 8, "STRICT_PACK")
    ground = FreeCapacity([place("head"), place("w1")], [pool])
    assert gpus(ground.take(pool)) != gpus(ground.take(pool))
    assert ground.take(pool) is None


def test_what_others_hold_is_not_taken_and_what_was_taken_is_held():
    eight = make_request([shape({"GPU": 1})] * 8, "PACK")
    ground = FreeCapacity([place("head", used={"GPU": 6}), place("w1")], [eight])
    assert ground.count_fitting(eight) == 10
    assert gpus(ground.take(eight, "this job", "vLLM")) == {"w1": 8}
    assert [(hold.who, hold.what) for each in ground.nodes() for hold in each.holds] == [("this job", "vLLM")]
    assert ground.take(eight) is None
