from __future__ import annotations

import json
from typing import Any

import pytest

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire
from cockpit.sources.ray.replies import PART_BYTES, NodeReader
from tests.sources.ray.recorded_ray import recorded

MANY = 400
READ_BYTES = 1 << 16


def nodes_reply(*more: dict[str, Any], first: dict[str, Any] | None = None) -> dict[str, Any]:
    """A recorded reply with many copies of its nodes, with `more` nodes in the middle and another `first` node."""
    reply = recorded("nodes")
    nodes = [{**node, "hostname": f"{node['hostname']}-{number}"} for number in range(MANY) for node in reply["data"]["summary"]]
    reply["data"]["summary"] = [*([first] if first else ()), *nodes[: MANY // 2], *more, *nodes[MANY // 2 :]]
    return reply


def read_nodes(text: str, most_held: float = float("inf")) -> wire.NodesData:
    sent, body, reader = text.encode(), bytearray(), NodeReader()
    assert len(sent) > 3 * PART_BYTES
    for start in range(0, len(sent), READ_BYTES):
        body += sent[start : start + READ_BYTES]
        reader.take(body)
        assert len(body) <= most_held
    data = decode(bytes(body), wire.Reply[wire.NodesData]).data
    assert data is not None
    return reader.add_to(data)


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize(
    "more",
    [
        [],
        [{"hostname": "a node whose first key is another's"}],
        [{"now": 1, "hostname": 'a text: }, {"now": 1}'}],
        [{"now": 1, "workers": [{"now": 1}, {"now": 2}] * (PART_BYTES // 12)}],
    ],
    ids=["nodes alone", "another first key", "a text like a separator", "a list within a node like one of nodes"],
)
def test_nodes_are_the_same_in_parts_as_in_one(more: list[dict[str, Any]], separators: tuple[str, str]):
    text = json.dumps(nodes_reply(*more), separators=separators)
    assert read_nodes(text) == decode(text.encode(), wire.Reply[wire.NodesData]).data


@pytest.mark.parametrize("first", [None, {"raylet": {"state": "DEAD"}, "hostname": "dead"}], ids=["a living node", "a dead node"])
def test_little_more_than_a_part_of_a_reply_is_in_memory_whatever_its_first_node_is(first: dict[str, Any] | None):
    read_nodes(json.dumps(nodes_reply(first=first)), most_held=PART_BYTES + 2 * READ_BYTES)


@pytest.mark.parametrize("begin", [b"", b'{"data": {"summary": [{"now": 1, "text": "'], ids=["no list", "no end of the first node"])
def test_a_reply_without_nodes_is_not_searched_after_each_read(begin: bytes):
    searched = 0

    class Body(bytearray):
        def find(self, *args):  # type: ignore[override]
            nonlocal searched
            searched += len(self)
            return super().find(*args)

    body, reader = Body(begin), NodeReader()
    while len(body) < 64 * PART_BYTES:
        body += b"x" * READ_BYTES
        reader.take(body)
    assert 0 < searched <= 2 * len(body)


def test_an_error_in_one_node_or_a_truncated_reply_is_found_and_named():
    read = read_nodes(json.dumps(nodes_reply({"now": float("nan"), "hostname": "odd"}))).summary
    assert [node.now for node in read if node.hostname == "odd"] == [None]
    assert sum(node.mem is not None for node in read) == len(read) - 1
    with pytest.raises(NotRayError, match="not JSON"):
        read_nodes(json.dumps(nodes_reply())[:-40])
    with pytest.raises(NotRayError, match=r"unexpected JSON .*cpu"):
        read_nodes(json.dumps(nodes_reply({"now": 1, "cpu": "warm"})))
