from __future__ import annotations

import pytest

from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire


def as_nodes(body: bytes) -> wire.NodesData:
    data = decode(body, wire.Reply[wire.NodesData]).data
    assert data is not None
    return data


def test_numbers_that_protobuf_writes_as_strings_are_numbers():
    body = b'{"placement_group_id": "a", "stats": {"creation_request_received_ns": "1795223981165841567"}}'
    assert decode(body, wire.Group).stats == wire.GroupStats(creation_request_received_ns=1795223981165841567)
    assert decode(b'{"actor_id": "a", "num_restarts": "2"}', wire.Actor).num_restarts == 2


def test_missing_fields_are_unknown_and_new_ones_are_ignored():
    assert decode(b'{"actor_id": "a", "invented_in_3.0": [1]}', wire.Actor) == wire.Actor("a")


def test_the_invalid_json_of_python_is_read():
    entry = as_nodes(b'{"data": {"summary": [{"cpu": NaN, "now": 1e999, "hostname": "\\udc80"}]}}').summary[0]
    assert (entry.cpu, entry.now, entry.hostname) == (None, None, "?")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"404: Not Found",
        b'{"data":',
        b'{"data": {"summary": [{"cpu": 1' + b"0" * 5000 + b"}]}}",
    ],
)
def test_a_body_that_is_not_json_is_not_ray(body):
    with pytest.raises(NotRayError):
        decode(body, wire.Reply[wire.NodesData])


@pytest.mark.parametrize("body", [b"[]", b'{"data": {"summary": 3}}', b'{"data": {}}', b'{"data": {"summary": [{"cpu": "warm"}]}}'])
def test_the_error_for_unexpected_json_names_the_field(body):
    with pytest.raises(NotRayError, match="unexpected JSON"):
        decode(body, wire.Reply[wire.NodesData])
