"""`check` finds ports in use before `ray start` does."""

from __future__ import annotations

import socket

import pytest

from cockpit.budget import Budget
from cockpit.check.check import check
from cockpit.check.ports import find_listeners, port_lines
from cockpit.presets import RayNode
from tests.check.worlds import down, preset, start


def lines(taken=frozenset(), **flags):
    made = start(RayNode("head", flags=flags), RayNode("w1", flags={"num_gpus": 8}))
    return [(line.level, line.text) for line in port_lines(made, frozenset(taken))]


@pytest.mark.parametrize(
    "flags", [{}, {"port": 6380}, {"node_manager_port": 0, "object_manager_port": 0}, {"port": 12000, "worker_port_list": "30000"}]
)
def test_ports_that_ray_takes_are_nothing_to_tell(flags):
    assert lines(**flags) == []


def test_a_port_that_somebody_has_is_in_the_way_until_it_is_free():
    assert lines({("head", 6379), ("w1", 6379)}) == [("later", "port 6379 (port) on head is already in use")]


def test_only_where_no_ray_runs_they_are_in_its_way():
    made = preset(ray=start(RayNode("head", flags={"num_gpus": 8})))
    found = check(made, Budget("Ray", groups=()), down(), taken=frozenset({("head", 8265)}))
    assert any("8265 (dashboard_port)" in line.text for line in found.lines)


async def test_whoever_listens_on_a_port_of_the_head_or_of_a_worker_is_found():
    none = {"dashboard_agent_listen_port": 0}
    heads = {"dashboard_port": 0, "ray_client_server_port": 0, **none}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.2", 0)) as other:
        port, second = server.getsockname()[1], other.getsockname()[1]
        head = RayNode("head", "127.0.0.1", {"port": port, **heads})
        workers = (RayNode("w1", "127.0.0.2", {"node_manager_port": second, **none}), RayNode("w2", "127.0.0.3", {"port": port, **none}))
        made = preset(ray=start(head, *workers))
        assert await find_listeners(made) == {("head", port), ("w1", second)}
    assert await find_listeners(made) == frozenset()
