"""Ray's lists of actors and placement groups, from one answer to the next."""

from __future__ import annotations

import msgspec

from cockpit.sources.ray import wire
from cockpit.sources.ray.listings import ActorLists, GroupLists
from tests.sources.ray.recorded_ray import Clock


def test_a_waiting_group_whose_strategy_becomes_known_keeps_its_age():
    lists = GroupLists(clock := Clock())
    entry = b'{"placement_group_id": "aa", "state": "PENDING", "bundles": [{"unit_resources": {"GPU": 1.0}, "node_id": ""}]}'
    lists.update([msgspec.json.decode(entry, type=wire.Group)], {})
    first = lists.groups["aa"]
    clock.now += 5
    lists.update([msgspec.json.decode(entry, type=wire.Group)], {((("GPU", 1.0),),): frozenset({"PACK"})})
    assert (lists.groups["aa"].strategy, lists.groups["aa"].since) == ("PACK", first.since)


def test_an_actor_does_not_keep_its_reply_in_memory():
    reply = bytearray(b'{"result": [{"actor_id": "aa", "state": "ALIVE", "fallback_strategy": null}], "total": 1}')
    lists = ActorLists(Clock())
    lists.update("ALIVE", msgspec.json.decode(reply, type=wire.Listing[wire.Actor]), 0.1)
    reply.extend(b" ")  # raises BufferError as long as there is a reference to its bytes
