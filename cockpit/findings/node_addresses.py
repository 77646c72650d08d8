"""Nodes that are registered under an address by which the other nodes don't reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import LiveRaylet, live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Level, Node, Remedy
from cockpit.text import clean, join_first

MAX_NAMED = 6


class _WrongAddress(msgspec.Struct, frozen=True):
    """What is wrong with a node's address."""

    code: str
    level: Level
    words: str


@rests_on("ray.nodes", "rays")
def wrong_node_addresses(facts: Facts) -> Iterator[Finding]:
    """Of each node that a probe sees, where the cluster has nodes in several networks."""
    seen = [live for live in live_raylets(facts) if live.raylet.network is not None and live.raylet.addresses is not None]
    for live in seen:
        if wrong := _find_wrong(facts, live, seen):
            yield _finding(facts, live, wrong, _real_addresses(live, seen))


def head_under_same_address(facts: Facts, dead: Node) -> Node | None:
    """The head, where a dead node of another host was registered under an address that the head's host has too, such as docker0's.

    Then the GCS asked its own host whether that node lives, and declared it dead after a few seconds.
    """
    for live in live_raylets(facts):
        is_other_host = live.node.host != dead.host and live.node.ip != dead.ip
        if live.node.head and is_other_host and dead.ip and dead.ip in (live.raylet.addresses or ()):
            return live.node
    return None


def _find_wrong(facts: Facts, live: LiveRaylet, seen: Sequence[LiveRaylet]) -> _WrongAddress | None:
    """On a host that others share a cluster with: loopback, an address that another host has too, or one that this host has not."""
    address, others = _parse(live.node.ip), [other for other in seen if other.raylet.network != live.raylet.network]
    if address is None or not (others or any(node.ip != live.node.ip for node in facts.living_nodes)):
        return None
    if address.is_loopback:
        return _WrongAddress("node-address-loopback", "critical", "which is loopback: other nodes that connect there reach themselves")
    too = list(dict.fromkeys(facts.title(other.node) for other in others if live.node.ip in (other.raylet.addresses or ())))
    if too:
        words = f"which {join_first(too, MAX_NAMED)} {'have' if len(too) > 1 else 'has'} too: what is sent there from there never arrives"
        return _WrongAddress("node-address-shared", "critical", words)
    if live.raylet.addresses and live.node.ip not in live.raylet.addresses:
        words = "which is no address of that host: other nodes reach it only if something forwards that address to it"
        return _WrongAddress("node-address-foreign", "warning", words)
    return None


def _real_addresses(live: LiveRaylet, seen: Sequence[LiveRaylet]) -> list[str]:
    """Of the node's host, those that no other host has, the ones most like the head's first: the head is reached over the same network."""
    taken = {address for other in seen if other.raylet.network != live.raylet.network for address in other.raylet.addresses or ()}
    own = [address for address in live.raylet.addresses or () if address not in taken]
    head = next((_parse(other.node.ip) for other in seen if other.node.head and other.node is not live.node), None)
    return sorted(own, key=lambda address: -_bits_alike(_parse(address), head))


def _bits_alike(one: IPv4Address | IPv6Address | None, other: IPv4Address | IPv6Address | None) -> int:
    if one is None or other is None or one.version != other.version:
        return -1
    return one.max_prefixlen - (int(one) ^ int(other)).bit_length()


def _finding(facts: Facts, live: LiveRaylet, wrong: _WrongAddress, real: list[str]) -> Finding:
    name, all_own = facts.title(live.node), join_first([clean(address) for address in live.raylet.addresses or ()], MAX_NAMED)
    has = f"its host has {join_first(list(map(clean, real)), MAX_NAMED)}" if real else "its host has no address that only it has"
    again = f"with --node-ip-address={clean(real[0])}" if real else "with a --node-ip-address that the other nodes reach"
    return facts.node_finding(
        live.node,
        wrong.code,
        wrong.level,
        f"Node {name} is registered in Ray as {clean(live.node.ip)}, {wrong.words} ({has})",
        (
            f"`ray list nodes`: {clean(live.node.ip)}",
            f"`ip -brief address` on {live.host.name}: {all_own}",
        ),
        Remedy(f"`ray stop` on {live.host.name}, then its `ray start` again {again}"),
    )


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    """`None`: it is a name."""
    try:
        return ip_address(address)
    except ValueError:
        return None
