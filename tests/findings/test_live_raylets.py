"""The raylets that probes see now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Facts, Limits
from cockpit.findings.live_raylets import is_spread, live_raylets
from cockpit.model import Fault, RayProcess
from tests.findings.raylets import SESSION, cluster, place
from tests.world import NOW


def seen(made):
    return [(live.node.host, live.host.name, live.raylet.pid) for live in live_raylets(Facts(made, Limits()))]


def test_a_raylet_is_returned_once_with_its_node_and_host():
    assert seen(cluster(place(1), place(2))) == [("node1", "node1", 21), ("node2", "node2", 22)]
    one, host = place(1)
    host = replace(host, machine="boot 1")
    alias = replace(host, name="alias")
    made = cluster((one, host))
    assert seen(replace(made, hosts={"node1": host, "alias": alias})) == [("node1", "node1", 21)]


def test_uncertain_raylets_are_left_out():
    one, host = place(2)
    assert seen(cluster(place(1), (one, replace(host, taken=NOW - 3600)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, taken=None)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, rays=None)))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (one, replace(host, faults=(Fault("rays", "hangs", NOW, "node2"),))))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), (replace(one, state="DEAD"), host))) == [("node1", "node1", 21)]
    assert seen(cluster(place(1), place(2), faults=(Fault("ray.nodes", "silent", NOW),))) == []


def with_false_raylet(at, of, trusted=False):
    """A host on which a process looks like the raylet of another host's node."""
    (one, host), (other, _) = at, of
    false = RayProcess("raylet", 666, SESSION, other.id, "S", addresses=host.addresses, start={} if trusted else None)
    return one, replace(host, nodes=(*host.nodes, other.id), rays=(*host.rays, false))


def test_a_false_raylet_is_not_taken_for_the_node_of_its_id():
    one, two = place(1), place(2)
    for places in (one, with_false_raylet(two, one)), (with_false_raylet(two, one), one):
        assert sorted(seen(cluster(*places))) == [("node1", "node1", 21), ("node2", "node2", 22)]
        assert cluster(*places).index.hosts_by_node[one[0].id].name == "node1"


def test_a_raylet_of_root_or_us_counts_even_without_the_nodes_address():
    one, two = place(1, ip="172.17.0.1", start={}), place(2)
    assert seen(cluster(with_false_raylet(two, one), one)) == [("node2", "node2", 22), ("node1", "node1", 21)]
    assert seen(cluster(with_false_raylet(one, one))) == [("node1", "node1", 21)]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_node_with_several_possible_processes_has_none(trusted):
    one, two = place(1, ip="172.17.0.1", start={} if trusted else None), place(2)
    made = cluster(one, with_false_raylet(two, one, trusted=trusted))
    assert seen(made) == [("node2", "node2", 22)]
    assert one[0].id not in made.index.hosts_by_node


@pytest.mark.parametrize(("ips", "spread"), [(("10.0.0.1", "10.0.0.2"), True), (("10.0.0.1", "10.0.0.1"), False), (("10.0.0.1",), False)])
def test_nodes_of_one_address_are_on_one_host(ips, spread):
    places = [place(number, ip=ip) for number, ip in enumerate(ips, 1)]
    assert is_spread(Facts(cluster(*places), Limits())) == spread
