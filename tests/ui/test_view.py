from __future__ import annotations

from msgspec.structs import replace

from cockpit.ui.view import Index
from tests.world import NOW, node, snapshot

FIRST = snapshot(nodes=(node(1), node(2)))
NEXT = replace(FIRST, taken=NOW + 2)


def count_actors(of):
    counted.append(of)
    return len(of.actors or ())


counted: list[object] = []


def test_what_is_made_of_a_snapshot_is_made_once():
    counted.clear()
    index = Index(FIRST)
    assert index.of(count_actors) == index.of(count_actors) == len(FIRST.actors)
    assert counted == [FIRST]


def test_what_was_asked_of_the_last_snapshot_is_made_of_the_next_before_it_is_asked_for():
    counted.clear()
    before, index = Index(FIRST), Index(NEXT)
    before.of(count_actors), before.gpu_memory, before.cluster.gpu_holders
    index.precompute(before)
    assert counted == [FIRST, NEXT]
    assert "gpu_memory" in vars(index)
    assert "gpu_holders" in vars(index.cluster)
    assert "first_reasons" not in vars(index)
    assert index.gpu_memory == before.gpu_memory


def test_an_index_is_of_one_snapshot_and_of_what_was_hidden_when_it_was_made():
    index = Index(FIRST, hidden={"gpu-lost:w1"})
    assert index.is_of(FIRST, {"gpu-lost:w1"})
    assert not index.is_of(FIRST, set())
    assert not index.is_of(NEXT, {"gpu-lost:w1"})
