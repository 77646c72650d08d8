"""Tests which target of an action a typed name or id gives."""

from __future__ import annotations

import pytest

from cockpit.actions.table import find_action
from cockpit.cli.targets import UnclearTargetError, find_id
from cockpit.config.settings import Config
from cockpit.config.slurm import NodeNames
from cockpit.model import Cluster, Fault, PlacementGroup
from cockpit.sources.source import SourceError
from tests.world import actor, node, snapshot

KILL, REMOVE, DRAIN = map(find_action, ("kill-actor", "remove-placement-group", "drain-node"))


SLURM = Config(slurm_nodes=(NodeNames("gpu-a-02", ("c27n02", "10.0.0.2")),))
"""Slurm's name and addresses of node 2."""


def meant(action, word, **seen):
    return find_id(action, word, snapshot(cluster=Cluster("http://10.0.0.1:8265"), **seen), SLURM.names_of)


def test_an_id_is_accepted_even_if_it_is_unknown_and_a_unique_name_gives_the_id():
    assert meant(KILL, "0" * 32) == "0" * 32
    assert meant(DRAIN, "a" * 56) == "a" * 56
    assert meant(KILL, "judge", actors=(actor(1, name="judge"), actor(2, name="other"))) == actor(1).id
    assert meant(REMOVE, "tp16", placement_groups=(PlacementGroup("b" * 36, "tp16", "PENDING"),)) == "b" * 36
    assert meant(DRAIN, node(2).title) == node(2).id


@pytest.mark.parametrize(
    ("word", "names", "advice"),
    [
        ("judge", ("judge", "judge"), f"judge matches 2 actors: {actor(1).id}, {actor(2).id}; give the id of one"),
        ("reward-serve", ("reward-server",), r"; did you mean reward-server\?$"),
    ],
)
def test_an_ambiguous_name_is_refused_with_the_ids_and_a_mistyped_one_with_the_nearest(word, names, advice):
    with pytest.raises(UnclearTargetError, match=advice):
        meant(KILL, word, actors=tuple(actor(number, name=name) for number, name in enumerate(names, 1)))


@pytest.mark.parametrize("name", ["10.0.0.2", "gpu-a-02", "c27n02"])
def test_a_node_is_found_by_each_of_its_names_and_nothing_else_is(name):
    assert meant(DRAIN, name) == node(2).id
    with pytest.raises(UnclearTargetError, match=f"there is no actor with the id or name {name} "):
        meant(KILL, name, actors=(actor(1, name="node2"),))


def test_a_class_a_shortened_id_and_a_dead_actor_are_not_found():
    for word, state in ((actor(1).class_, "ALIVE"), (actor(1).id[:12], "ALIVE"), ("judge", "DEAD")):
        with pytest.raises(
            UnclearTargetError, match=f"there is no actor with the id or name {word} in the Ray cluster at http://10.0.0.1:8265"
        ):
            meant(KILL, word, actors=(actor(1, name="judge", state=state),))


@pytest.mark.parametrize(
    ("action", "seen", "what"), [(KILL, {"actors": None}, "actors"), (REMOVE, {"placement_groups": None}, "placement groups")]
)
def test_while_ray_has_listed_nothing_a_name_is_not_called_missing(action, seen, what):
    fault = Fault("ray.identity", "Ray dashboard http://10.0.0.1:8265 can't be reached: connection refused", 0.0)
    with pytest.raises(SourceError, match=f"^the {what} are unknown: Ray dashboard .* can't be reached: connection refused$"):
        meant(action, "judge", faults=(fault,), **seen)
