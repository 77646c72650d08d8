"""An unchanged entry of Ray's lists stays the same value; a changed one is converted again."""

from __future__ import annotations

import msgspec
import pytest

from cockpit.sources.ray import wire
from cockpit.sources.ray.listings import ActorLists, GroupLists

GROUP = b'{"placement_group_id": "%s", "state": "%s", "bundles": [{"unit_resources": {"GPU": 1.0}, "node_id": ""}]}'
WAITING = {((("GPU", 1.0),),): frozenset({"PACK"})}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def group(id_: str, state: str) -> wire.Group:
    """Entries that are decoded again from each answer, so that no two are the same object."""
    return msgspec.json.decode(GROUP.replace(b"%s", id_.encode(), 1).replace(b"%s", state.encode()), type=wire.Group)


def actors(*states: str) -> wire.Listing[wire.Actor]:
    entries = (f'{{"actor_id": "{number:032}", "state": "{state}", "fallback_strategy": [1]}}' for number, state in enumerate(states))
    return msgspec.json.decode(f'{{"result": [{", ".join(entries)}], "total": {len(states)}}}', type=wire.Listing[wire.Actor])


def test_a_group_stays_the_same_value_until_it_changes(clock):
    lists = GroupLists(clock)
    lists.update([group("aa", "CREATED"), group("bb", "PENDING")], {})
    first = dict(lists.groups)
    clock.now += 5
    lists.update([group("aa", "CREATED"), group("bb", "CREATED")], {})
    assert lists.groups["aa"] is first["aa"]
    assert lists.groups["bb"].state == "CREATED"
    assert lists.groups["bb"] is not first["bb"]


def test_a_waiting_group_whose_strategy_becomes_known_changes_and_keeps_its_age(clock):
    lists = GroupLists(clock)
    lists.update([group("aa", "PENDING")], {})
    first = lists.groups["aa"]
    clock.now += 5
    lists.update([group("aa", "PENDING")], WAITING)
    assert lists.groups["aa"].strategy == "PACK"
    assert lists.groups["aa"].since == first.since


def test_a_removed_group_is_left_out(clock):
    lists = GroupLists(clock)
    lists.update([group("aa", "CREATED")], {})
    lists.update([group("aa", "REMOVED")], {})
    assert lists.groups == {}


def test_an_unchanged_actor_stays_the_same_value(clock):
    lists = ActorLists(clock)
    lists.update("ALIVE", actors("ALIVE", "ALIVE"), 0.1)
    first = lists.facts({}).actors
    lists.update("ALIVE", actors("ALIVE", "RESTARTING"), 0.1)
    second = lists.facts({}).actors
    assert second[0] is first[0]
    assert second[1].state == "RESTARTING"


def test_an_actor_does_not_keep_its_reply_in_memory(clock):
    reply = bytearray(b'{"result": [{"actor_id": "aa", "state": "ALIVE", "fallback_strategy": null}], "total": 1}')
    lists = ActorLists(clock)
    lists.update("ALIVE", msgspec.json.decode(reply, type=wire.Listing[wire.Actor]), 0.1)
    reply.extend(b" ")  # raises BufferError as long as there is a reference to its bytes
