"""Which host a name refers to, and its name for people."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.action_context import ActionContext
from cockpit.config.reach import HostEntry
from cockpit.model import Host, Node
from cockpit.sources.source import NotMeantError
from tests.world import NOW, node, snapshot

HEAD = node(1, name="head", head=True, ip="127.0.0.9", host="vm", probed=True)
W1 = node(2, name="w1", ip="10.0.0.2", host="gpu2", probed=True)


def place(name: str, address: str, *nodes: Node, **more: Any) -> Host:
    """A host whose command lines name the raylets of these nodes."""
    return Host(name, (address,), NOW, nodes=tuple(each.id for each in nodes if each.id), **more)


VM = place("vm", "10.0.0.1", HEAD, local=True)


def context(*others: Host, nodes: Sequence[Node] = (HEAD, W1)) -> ActionContext:
    """On `vm`, which has the head. The other node is reached as `worker-alias`, unless other hosts are given."""
    others = others or (place("worker-alias", "10.0.0.2", W1),)
    hosts = {host.name: host for host in (*others, VM)}
    config = SimpleNamespace(names_of=lambda name: (name,))
    pool = SimpleNamespace(local="vm", control_sockets=None)
    poller = SimpleNamespace(snapshot=snapshot(nodes=tuple(nodes), hosts=hosts))
    made = ActionContext(SimpleNamespace(config=config, pool=pool, poller=poller, select_others=dict))  # type: ignore[arg-type]  # all that is used of it
    made._entries.update({host.name: HostEntry(host.name) for host in others})
    return made


def test_a_host_is_found_by_the_name_of_its_node_and_by_its_own():
    assert context().named_hosts(("head", "vm", "localhost", HEAD.id or "")) == ("vm",)
    assert context().named_hosts(("w1", "gpu2", "10.0.0.2", "worker-alias")) == ("worker-alias",)


def test_an_unknown_host_is_contacted_under_the_given_name():
    assert context().named_hosts(("elsewhere",)) == ("elsewhere",)


def test_hosts_have_the_names_of_their_nodes():
    made = context()
    made._entries["by-address"] = HostEntry("by-address", address="10.0.0.2")
    assert made.titles_of(["vm", "worker-alias", "by-address", "elsewhere"]) == {
        "vm": "head",
        "worker-alias": "w1",
        "by-address": "w1",
        "elsewhere": "elsewhere",
    }


W2 = node(3, name="w2", ip="10.0.0.3", host="gpu3", probed=True)
FALSE_W2 = place("w2", "10.0.0.3", W1, W2)
"""Listed before `w1`; a process of any user there looks like the raylet of `w1`."""


def test_a_false_raylet_on_another_host_attracts_no_action():
    made = context(FALSE_W2, place("w1", "10.0.0.2", W1), nodes=(HEAD, W1, W2))
    assert made.named_hosts(("w1", "gpu2", "10.0.0.2", W1.id or "")) == ("w1",)
    assert made.named_hosts(("w2", "gpu3", "10.0.0.3", W2.id or "")) == ("w2",)
    assert made.register_host(HostEntry("w1")) == made.register_host(HostEntry("preset-name", address="10.0.0.2")) == "w1"
    assert made.titles_of(["w1", "w2"]) == {"w1": "w1", "w2": "w2"}


def test_a_host_without_a_probe_is_found_by_its_own_name_and_by_its_nodes_address():
    made = context(FALSE_W2, nodes=(HEAD, W1, W2))
    made._entries["w1"] = HostEntry("w1", address="10.0.0.2")
    assert made.named_hosts(("w1", "10.0.0.2", "gpu2")) == ("w1",)


def test_a_host_with_the_nodes_address_goes_before_the_only_host_that_claims_the_node():
    assert context(FALSE_W2, place("w1", "10.0.0.2"), nodes=(HEAD, W1, W2)).named_hosts(("gpu2",)) == ("w1",)


def test_a_false_raylet_of_the_head_gets_no_requests_for_ray():
    head = replace(HEAD, ip="10.0.0.1")
    made = context(place("w2", "10.0.0.3", head, W2), nodes=(head, W2))
    assert made.named_hosts(("head", head.id or "")) == ("vm",)
    assert made.ray_host() == "vm"


@pytest.mark.parametrize("addresses", [("172.17.0.1", "172.18.0.1"), ("10.0.0.2", "10.0.0.2")])
def test_no_host_is_chosen_if_several_are_possible(addresses):
    a, b = (place(name, address, W1) for name, address in zip("ab", addresses, strict=True))
    made = context(a, b)
    for find in (lambda: made.named_hosts(("w1",)), lambda: made.register_host(HostEntry("w1"))):
        with pytest.raises(NotMeantError, match="it is unclear which host w1 is: claimed by a, b; give the name"):
            find()
    assert made.named_hosts(("a", "b")) == ("a", "b")


def test_two_living_nodes_with_one_name_are_distinguished_by_their_ids():
    twin = node(3, name="w1", ip="10.0.0.3", host="gpu3", probed=True, id="b" * 56)
    made = context(place("a", "10.0.0.2", W1), place("b", "10.0.0.3", twin), nodes=(HEAD, W1, twin))
    assert made.named_hosts(("w1 (bbbbbbbb)", twin.id or "")) == ("b",)
    with pytest.raises(NotMeantError, match="claimed by a, b"):
        made.named_hosts(("w1",))


def test_a_host_probed_under_two_names_is_one_host():
    made = context(place("a", "172.17.0.1", W1, machine="boot 1"), place("b", "172.17.0.1", W1, machine="boot 1"))
    assert made.named_hosts(("w1",)) == ("a",)
