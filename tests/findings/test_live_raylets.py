"""Which raylets are seen now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Facts, Limits
from cockpit.findings.live_raylets import is_spread, live_raylets
from cockpit.model import Fault
from tests.findings.raylets import cluster, place
from tests.world import NOW


def seen(made):
    return [(live.node.host, live.host.name, live.raylet.pid) for live in live_raylets(Facts(made, Limits()))]


def test_a_raylet_is_told_with_its_node_and_its_host():
    assert seen(cluster(place(1), place(2))) == [("node1", "node1", 21), ("node2", "node2", 22)]


def test_what_is_not_known_to_be_true_now_is_left_out():
    one, host = place(2)
    assert seen(cluster(place(1), (one, replace(host, taken=NOW - 3600)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, taken=None)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, rays=None)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, faults=(Fault("rays", "hangs", NOW, "node2"),))))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (replace(one, state="DEAD"), host))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), place(2), faults=(Fault("ray.nodes", "silent", NOW),))) == []


@pytest.mark.parametrize(("ips", "spread"), [(("10.0.0.1", "10.0.0.2"), True), (("10.0.0.1", "10.0.0.1"), False), (("10.0.0.1",), False)])
def test_nodes_of_one_address_are_on_one_host(ips, spread):
    places = [place(number, ip=ip) for number, ip in enumerate(ips, 1)]
    assert is_spread(Facts(cluster(*places), Limits())) == spread
