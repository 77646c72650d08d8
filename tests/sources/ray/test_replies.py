from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import replies, wire
from cockpit.sources.ray.replies import PIECE_BYTES, NodeReader, decode_reply
from tests.sources.ray.recorded_ray import recorded

MANY = 400


def nodes_reply(*more: dict[str, Any]) -> dict[str, Any]:
    """A recorded answer with many copies of its nodes, and some other nodes among them."""
    reply = recorded("nodes")
    nodes = [{**node, "hostname": f"{node['hostname']}-{number}"} for number in range(MANY) for node in reply["data"]["summary"]]
    reply["data"]["summary"] = [*nodes[: MANY // 2], *more, *nodes[MANY // 2 :]]
    return reply


CHUNK_BYTES = 1 << 16
"""The bytes that arrive at once."""


def read_nodes(text: str, most_held: float = float("inf")) -> wire.NodesData:
    sent, body, reader = text.encode(), bytearray(), NodeReader()
    assert len(sent) > 3 * PIECE_BYTES
    for start in range(0, len(sent), CHUNK_BYTES):
        body += sent[start : start + CHUNK_BYTES]
        reader.take(body)
        assert len(body) <= most_held
    data = decode_reply(body, wire.NodesData).data
    assert data is not None
    return reader.add_to(data)


def whole(text: str) -> wire.NodesData | None:
    return decode(text.encode(), wire.Reply[wire.NodesData]).data


@pytest.mark.parametrize(
    "more",
    [
        [],
        [{"hostname": "a node whose first key is another's"}],
        [{"now": 1, "hostname": 'a text: }, {"now": 1}'}],
        [{"now": 1, "workers": [{"now": 1}, {"now": 2}] * (PIECE_BYTES // 12)}],
    ],
    ids=["nodes alone", "a dead node", "a text like a cut", "a list within a node like one of nodes"],
)
def test_nodes_are_the_same_in_pieces_as_in_one(more: list[dict[str, Any]]):
    text = json.dumps(nodes_reply(*more))
    assert read_nodes(text) == whole(text)


def test_nodes_are_read_however_their_json_is_spaced():
    for separators in ((",", ":"), (", ", ": ")):
        text = json.dumps(nodes_reply(), separators=separators)
        assert read_nodes(text) == whole(text)


def test_little_more_than_a_piece_is_kept_of_a_reply_with_only_nodes():
    read_nodes(json.dumps(nodes_reply()), most_held=PIECE_BYTES + 2 * CHUNK_BYTES)


def test_a_reply_whose_first_node_is_dead_is_not_kept_either():
    reply = nodes_reply()
    reply["data"]["summary"].insert(0, {"raylet": {"state": "DEAD"}, "hostname": "dead"})
    text = json.dumps(reply)
    assert read_nodes(text, most_held=PIECE_BYTES + 2 * CHUNK_BYTES) == whole(text)


def test_a_reply_without_nodes_in_its_first_piece_is_searched_only_once(monkeypatch):
    begins = []
    monkeypatch.setattr(replies, "_NODES_BEGIN", SimpleNamespace(search=begins.append))
    body, reader = bytearray(PIECE_BYTES), NodeReader()
    for _ in range(3):
        reader.take(body)
    assert len(begins) == 1


def test_a_reply_without_a_separator_is_searched_once():
    searched = []

    class Body(bytearray):
        def rfind(self, what, start):  # type: ignore[override]
            searched.append(len(self) - start)
            return super().rfind(what, start)

    body, reader = Body(b'{"data": {"summary": [{"now": 1, "text": "' + b"x" * PIECE_BYTES), NodeReader()
    reader.take(body)
    assert max(searched) >= PIECE_BYTES
    searched.clear()
    body += b"x" * CHUNK_BYTES
    reader.take(body)
    assert CHUNK_BYTES <= max(searched) < CHUNK_BYTES + 100


def test_an_invalid_number_in_one_node_does_not_change_the_others():
    read = read_nodes(json.dumps(nodes_reply({"now": float("nan"), "hostname": "odd"}))).summary
    assert [node.now for node in read if node.hostname == "odd"] == [None]
    assert sum(node.mem is not None for node in read) == len(read) - 1


def test_a_truncated_reply_is_not_ray():
    with pytest.raises(NotRayError, match="not JSON"):
        read_nodes(json.dumps(nodes_reply())[:-40])


def test_the_error_for_an_unexpected_node_names_the_field():
    with pytest.raises(NotRayError, match=r"unexpected JSON .*cpu"):
        read_nodes(json.dumps(nodes_reply({"now": 1, "cpu": "warm"})))


def test_a_long_list_decoded_by_entries_is_the_same():
    reply = recorded("actors")
    reply["data"]["result"]["result"] *= MANY
    body = json.dumps(reply).encode()
    assert len(body) > PIECE_BYTES
    read = decode_reply(body, wire.Listed[wire.Actor])
    assert read == decode(body, wire.Reply[wire.Listed[wire.Actor]])
    assert read.data is not None
    assert read.data.result.result


def test_a_large_refusal_has_no_data():
    body = json.dumps({"result": False, "msg": "no" * PIECE_BYTES, "data": None}).encode()
    for shape in (wire.NodesData, wire.Listed[wire.Actor]):
        assert decode_reply(body, shape).data is None
