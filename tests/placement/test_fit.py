"""Bundles fit exactly if trying every placement finds one."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.placement import check_fit
from cockpit.placement.fit import Slot, greedy_moves

AMOUNT = st.integers(0, 4)
NODES = st.lists(st.tuples(AMOUNT, AMOUNT, st.integers(0, 7)), max_size=3)
BUNDLES = st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1, max_size=5)
STRATEGIES = st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])


def shapes(bundles):
    """Equal ones counted, three kinds at most: a node's three bits say which of them it admits."""
    return list(Counter(bundle for bundle in bundles if bundle in list(dict.fromkeys(bundles))[:3]).items())


def possible(nodes, bundles, strategy):
    """By trying each bundle on each node."""
    single = [(number, need) for number, (need, count) in enumerate(bundles) for _ in range(count)]
    return any(allowed(nodes, single, where, strategy) for where in product(range(len(nodes)), repeat=len(single)))


def allowed(nodes, single, where, strategy):
    distinct = len(set(where))
    if (strategy == "STRICT_PACK" and distinct > 1) or (strategy == "STRICT_SPREAD" and distinct < len(single)):
        return False
    left = [list(node[:2]) for node in nodes]
    for (number, need), place in zip(single, where, strict=True):
        if not nodes[place][2] >> number & 1:
            return False
        left[place] = [have - want for have, want in zip(left[place], need, strict=True)]
    return all(have >= 0 for node in left for have in node)


@settings(max_examples=400)
@given(NODES, BUNDLES, STRATEGIES)
def test_there_is_room_exactly_where_a_placement_exists(nodes, bundles, strategy):
    stock = Counter(Slot((gpus, cpus), admits) for gpus, cpus, admits in nodes)
    wanted = shapes(bundles)
    found = check_fit(stock, wanted, strategy)
    assert (found in ("yes", "missed")) == possible(nodes, wanted, strategy)
    assert found != "unknown"


@settings(max_examples=150)
@given(NODES, BUNDLES, st.sampled_from(["PACK", "SPREAD", "STRICT_SPREAD"]))
def test_rays_way_of_looking_finds_only_what_exists(nodes, bundles, strategy):
    stock = Counter(Slot((gpus, cpus), admits) for gpus, cpus, admits in nodes)
    wanted = shapes(bundles)
    assert greedy_moves(stock, wanted, strategy) is None or possible(nodes, wanted, strategy)


@settings(max_examples=150)
@given(st.lists(st.tuples(AMOUNT, AMOUNT), max_size=4), st.tuples(AMOUNT, AMOUNT), st.integers(1, 6), STRATEGIES)
def test_with_bundles_of_one_shape_ray_misses_nothing(nodes, need, count, strategy):
    stock = Counter(Slot(node, 1) for node in nodes)
    assert check_fit(stock, [(need, count)], strategy) != "missed"
    if strategy != "STRICT_PACK":
        assert (greedy_moves(stock, [(need, count)], strategy) is not None) == (check_fit(stock, [(need, count)], strategy) == "yes")


def test_ray_misses_what_only_another_order_finds():
    """The larger bundle goes to the emptiest node, and the other one would have needed just that."""
    stock = {Slot((4, 2), 1): 1, Slot((4, 8), 3): 1}
    bundles = [((4, 1), 1), ((0, 8), 1)]
    assert possible([(4, 2, 1), (4, 8, 3)], bundles, "PACK")
    assert check_fit(stock, bundles, "PACK") == "missed"
    assert check_fit(stock, bundles, "STRICT_SPREAD") == "missed"


def test_a_search_that_would_take_too_long_claims_nothing():
    stock = {Slot((8 + place % 3, 90 + place), 511): 1 for place in range(300)}
    bundles = [((place + 1, 30 - place), 200) for place in range(7)]
    assert check_fit(stock, bundles, "PACK") in ("yes", "no", "unknown")
    assert check_fit(stock, [((place, 1), 1) for place in range(9)], "STRICT_SPREAD") == "unknown"
