"""Addresses under which nodes are registered."""

from __future__ import annotations

import pytest

from cockpit.findings.node_addresses import wrong_node_addresses
from tests.findings.detection import detect, only
from tests.findings.raylets import cluster, place

ALONE = (wrong_node_addresses,)
BRIDGE = "172.17.0.1"


def find(*places):
    return detect(cluster(*places), detectors=ALONE)


def test_an_address_that_the_head_has_too_is_reported_with_the_right_one():
    head = place(1, addresses=("10.0.0.1", BRIDGE))
    worker = place(2, ip=BRIDGE, addresses=("192.168.7.2", "10.0.0.2", BRIDGE))
    found = only(find(head, worker), "node-address-shared")
    assert found.text == (
        "Node node2 is registered in Ray as 172.17.0.1, which node1 has too: what is sent there from there never arrives "
        "(its host has 10.0.0.2, 192.168.7.2)"
    )
    assert (found.level, found.subject, found.about) == ("critical", "node2", (worker[0].key,))
    assert found.evidence == ("`ray list nodes`: 172.17.0.1", "`ip -brief address` on node2: 192.168.7.2, 10.0.0.2, 172.17.0.1")
    assert found.remedy
    assert found.remedy.text == "`ray stop` on node2, then its `ray start` again with --node-ip-address=10.0.0.2"


def test_two_nodes_under_one_address_are_both_reported():
    found = find(place(1), *(place(number, ip=BRIDGE, addresses=(f"10.0.0.{number}", BRIDGE)) for number in (2, 3)))
    assert [(one.code, one.subject) for one in found] == [("node-address-shared", "node2"), ("node-address-shared", "node3")]


def test_loopback_and_foreign_addresses_are_reported_if_others_need_them():
    found = only(find(place(1), place(2, ip="127.0.1.1")), "node-address-loopback")
    assert found.text == (
        "Node node2 is registered in Ray as 127.0.1.1, which is loopback: other nodes that connect there reach themselves "
        "(its host has 10.0.0.2)"
    )
    assert found.level == "critical"
    both = find(place(1, ip="127.0.0.1"), place(2, ip="127.0.0.1"))
    assert [one.code for one in both] == ["node-address-loopback", "node-address-loopback"]
    assert find(place(1, ip="127.0.0.1")) == ()
    found = only(find(place(1), place(2, ip="203.0.113.9")), "node-address-foreign")
    assert (found.level, "which is no address of that host" in found.text) == ("warning", True)
    assert find(place(2, ip="203.0.113.9")) == ()


def test_a_host_without_a_usable_address_gets_the_requirement():
    found = find(place(1, addresses=(BRIDGE,), ip=BRIDGE), place(2, ip=BRIDGE, addresses=(BRIDGE,)))[0]
    assert "(its host has no address that only it has)" in found.text
    assert "with a --node-ip-address that the other nodes reach" in found.remedy.text


@pytest.mark.parametrize(
    "fine",
    [
        (place(1), place(2)),
        (place(1), place(2, network="boot net:[1]", ip="10.0.0.1", addresses=("10.0.0.1",))),
        (place(1), place(2, ip="203.0.113.9", addresses=None)),
        (place(1), place(2, ip="203.0.113.9", network=None)),
        (place(1), place(2, ip="203.0.113.9", addresses=())),
        (place(1), place(2, ip="")),
        (place(1), place(2, ip="node2.example")),
        (place(1), place(2, addresses=("10.0.0.2", BRIDGE)), place(3, addresses=("10.0.0.3", BRIDGE))),
    ],
)
def test_right_or_unknown_addresses_are_not_reported(fine):
    assert find(*fine) == ()
