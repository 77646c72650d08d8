"""A verdict is described in one sentence with its numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.placement import LivingNodes, explain_verdict, make_request, matches, scale_amount, shape
from tests.placement.given import explain, hold, one, place


def bundles(number, strategy, labels=None, **needs):
    return make_request([shape(needs, labels)] * number, strategy)


CRITIC = [place("head", GPU=6), place("w1", holds=(hold("train1", "actor Critic", GPU=2),))]
PIECES = [
    place("head", holds=(hold("a", "actor X", GPU=3),)),
    place("w1", holds=(hold("a", "actor X", GPU=2), hold("b", "group g", GPU=1))),
]
FULL = [place(f"n{number}", holds=(hold("a", "actor X", GPU=8),)) for number in range(60)]
TWO = [place("head"), place("w1")]
A100 = [place("head", labels={"gpu": "a100"}), place("w1")]
CPUS = "14 are reserved: 10 by job z (actor R), 4 by tasks or starting workers"
APART = "12 GPUs are free, but not on one node: w1 has 8 but 2 are reserved by job train1 (actor Critic), head has 6"
MISSED = "there is room, but Ray does not find it: it places the largest bundle on the emptiest node first"
HELD = "6 are reserved: 5 by job a (actor X), 1 by job b (group g)"


@pytest.mark.parametrize(
    ("places", "wanted", "kind", "words"),
    [
        (CRITIC, one(GPU=6), "now", None),
        (CRITIC, one(GPU=9), "never", "needs 9 GPUs on one node; w1 has 8, head has 6"),
        (CRITIC, one(GPU=8), "fragmented", f"needs 8 GPUs on one node; {APART}"),
        (
            [place("head", GPU=6, used={"GPU": 6}), CRITIC[1]],
            one(GPU=8),
            "held",
            "needs 8 GPUs on one node; w1 has 8 but 2 are reserved by job train1 (actor Critic), head has 6",
        ),
        (TWO, bundles(16, "STRICT_PACK", GPU=1), "never", "needs 16 GPUs on one node; 2 nodes have 8"),
        (TWO, bundles(3, "STRICT_SPREAD", GPU=1), "never", "needs 3 x 1 GPU, each on a node of its own; only 2 nodes can take it"),
        (TWO, bundles(3, "PACK", GPU=5), "never", "needs 3 x 5 GPUs; only 2 bundles fit on empty nodes: 2 nodes have 8"),
        (TWO, bundles(17, "SPREAD", GPU=1), "never", "needs 17 x 1 GPU; there are only 16 GPUs in total"),
        (PIECES, bundles(12, "PACK", GPU=1), "held", f"needs 12 x 1 GPU; 10 of 16 GPUs are free, {HELD}"),
        (PIECES, bundles(2, "SPREAD", GPU=5.5), "held", f"needs 2 x 5.5 GPUs; 10 of 16 GPUs are free, {HELD}"),
        (
            PIECES,
            bundles(3, "PACK", GPU=3),
            "fragmented",
            f"needs 3 x 3 GPUs; 10 GPUs are free in total, but only 2 bundles fit: head has 5 free, w1 has 5 free; {HELD}",
        ),
        (
            TWO,
            bundles(8, "STRICT_PACK", GPU=1, CPU=3),
            "never",
            "enough GPUs, but not enough CPU: needs 24 CPUs on one node; 2 nodes have 16",
        ),
        (
            [place("head", holds=(hold("z", "actor R", CPU=10),)), place("w1", used={"CPU": 4})],
            bundles(12, "PACK", GPU=1, CPU=2),
            "short",
            f"enough GPUs, but not enough CPU: needs 12 x 2 CPUs; 18 of 32 CPUs are free, {CPUS}",
        ),
        (TWO, one(CPU=1, tpu=1), "never", "needs 1 tpu on one node; no node has any"),
        ([place("head", memory=10 * 2**30)], one(memory=20 * 2**30), "never", "needs 20G memory on one node; head has 10G"),
        (
            [place("head", CPU=4), place("w1", GPU=2, CPU=64)],
            one(GPU=8, CPU=32),
            "never",
            "needs 8 GPUs and 32 CPUs on one node; w1 has 2 GPUs and 64 CPUs, head has 8 GPUs and 4 CPUs",
        ),
        (
            A100,
            one({"gpu": "h100"}, GPU=1),
            "never",
            "needs 1 GPU on one node with gpu=h100: no node has that label; there are gpu=a100 on 1 node",
        ),
        (TWO, one({"gpu": "h100"}, CPU=1), "never", "needs 1 CPU on one node with gpu=h100: no node has a label gpu"),
        (TWO, one({"ray.io/node-id": "0123456789"}, GPU=1), "never", "needs 1 GPU on node 01234567: that node is not alive"),
        (
            [place("head", labels={"gpu": "h100"}, holds=(hold("a", "actor X", GPU=8),)), place("w1")],
            one({"gpu": "h100"}, GPU=1),
            "label",
            "needs 1 GPU on one node with gpu=h100; head has 8 but 8 are reserved by job a (actor X); other nodes would have room",
        ),
        (
            FULL,
            one(GPU=8),
            "held",
            "needs 8 GPUs on one node; 50 nodes have 8 but 8 are reserved by job a (actor X), and 10 more nodes that are no better",
        ),
        (FULL, bundles(4, "PACK", GPU=8), "held", "needs 4 x 8 GPUs; 0 of 480 GPUs are free, 480 are reserved by job a (actor X)"),
        (
            [place("a", GPU=4, CPU=2), place("b", GPU=4, CPU=8)],
            make_request([shape({"GPU": 4, "CPU": 1}), shape({"CPU": 8})], "PACK"),
            "missed",
            f"needs 1 x 8 CPUs, 1 x 4 GPUs and 1 CPU: {MISSED}",
        ),
    ],
)
def test_a_verdict_and_its_sentence(places, wanted, kind, words):
    assert explain(places, wanted) == (kind, words)


def test_amounts_are_added_exactly_and_every_node_has_what_ray_takes_for_granted():
    assert explain([place("head", GPU=0.3)], bundles(3, "PACK", GPU=0.1))[0] == "now"
    assert explain([place("head", GPU=0.3, used={"GPU": 0.1 + 0.2})], one(GPU=0.1))[0] == "held"
    assert explain(TWO, make_request([shape({"GPU": 1, "node:__internal_implicit_resource_app:1": 1})], "PACK"))[0] == "now"


@pytest.mark.parametrize(
    ("labels", "selector", "matched"),
    [
        ({"a": "x"}, "x", True), ({"a": "y"}, "x", False), ({}, "x", False),
        ({"a": "y"}, "!x", True), ({"a": "x"}, "!x", False), ({}, "!x", True),
        ({"a": "x"}, "in(x, y)", True), ({"a": "z"}, "in(x, y)", False), ({}, "in(x)", False),
        ({"a": "z"}, "!in(x,y)", True), ({"a": "y"}, "!in(x,y)", False), ({}, "!in(x)", True),
    ],
)  # fmt: skip
def test_a_label_selector_means_what_it_means_to_ray(labels, selector, matched):
    assert matches(labels, [("a", selector)]) is matched


def test_a_group_that_lost_a_node_needs_another_one_for_each_bundle():
    """STRICT_SPREAD: where it has bundles already, no other may go."""
    assert explain(TWO, make_request([shape({"GPU": 1})], "STRICT_SPREAD", ["head"]))[0] == "now"
    assert explain(TWO, make_request([shape({"GPU": 1})], "STRICT_SPREAD", ["head", "w1"]))[0] == "never"


def test_nothing_is_said_of_what_is_not_known():
    unknown = replace(place("w1"), used={})
    assert LivingNodes([place("head"), unknown]).judge(one(GPU=1)) is None
    assert LivingNodes([place("head"), unknown]).judge(one(GPU=9)).kind == "never"
    assert LivingNodes([place("head"), replace(place("w1"), total={})]).judge(one(GPU=9)) is None
    assert LivingNodes([]).judge(one(GPU=9)) is None
    assert LivingNodes([place("head")], known=False).judge(one(GPU=9)) is None


AMOUNT = st.integers(0, 3)
LABEL = st.sampled_from([{}, {"gpu": "a"}, {"gpu": "b"}])
PLACES = st.lists(
    st.builds(
        lambda gpu, cpu, used, labels, share: place(
            "n", {"GPU": min(gpu, used), "CPU": min(cpu, used)}, (hold("j", "actor A", GPU=share),), labels, GPU=gpu, CPU=cpu
        ),
        AMOUNT, AMOUNT, AMOUNT, LABEL, AMOUNT,
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip
WANTED = st.builds(
    lambda shapes, strategy: make_request([shape(needs, labels) for needs, labels in shapes], strategy),
    st.lists(
        st.tuples(
            st.fixed_dictionaries({"GPU": AMOUNT, "CPU": AMOUNT}, optional={"tpu": AMOUNT}),
            st.sampled_from([{}, {"gpu": "a"}, {"gpu": "!a"}, {"gpu": "in(a,b)"}, {"disk": "ssd"}]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]),
)


@settings(max_examples=300)
@given(PLACES, WANTED)
def test_every_verdict_has_a_sentence_and_agrees_with_what_would_fit(places, wanted):
    world = LivingNodes([replace(each, id=str(number)) for number, each in enumerate(places)])
    verdict = world.judge(wanted)
    assert (verdict.kind == "never") == (world.check_fit(wanted, "ever") == "no")
    assert (verdict.kind == "now") == (world.check_fit(wanted, "now") == "yes")
    words = explain_verdict(world, wanted, verdict)
    assert (words is None) == (verdict.kind == "now")
    assert words is None or words.startswith(("needs ", "enough GPUs, but not enough "))


@settings(max_examples=150)
@given(PLACES, AMOUNT, AMOUNT, st.sampled_from([{}, {"gpu": "a"}, {"gpu": "!in(a,b)"}]))
def test_an_actor_has_room_where_one_node_has_all_of_it(places, gpu, cpu, labels):
    def enough(each, used):
        return matches(each.labels, labels.items()) and all(
            each.total[name] - used.get(name, 0) >= scale_amount(need) for name, need in (("GPU", gpu), ("CPU", cpu))
        )

    verdict = LivingNodes(places).judge(one(labels, GPU=gpu, CPU=cpu)).kind
    now, ever = (any(enough(each, used) for each, used in found) for found in ([(p, p.used) for p in places], [(p, {}) for p in places]))
    assert (verdict == "now", verdict == "never") == (now, not ever)
