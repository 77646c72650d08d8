"""Detects nodes that are registered under an address at which other nodes don't reach them."""

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
    """The fault of a node's address."""

    code: str
    level: Level
    words: str


@rests_on("ray.nodes", "rays")
def wrong_node_addresses(facts: Facts) -> Iterator[Finding]:
    """Probed nodes with a wrong address, if the cluster has several hosts or networks."""
    seen = [live for live in live_raylets(facts) if live.raylet.network is not None and live.raylet.addresses is not None]
    for live in seen:
        wrong = _find_wrong(facts, live, seen)
        if wrong is None:
            continue

        # Better addresses: those that no other host has. The head is reached over its network, so addresses like the head's come first.
        taken = {address for other in seen if other.raylet.network != live.raylet.network for address in other.raylet.addresses or ()}
        head = next((_parse(other.node.ip) for other in seen if other.node.head and other.node is not live.node), None)
        better = [address for address in live.raylet.addresses or () if address not in taken]
        better.sort(key=lambda address: -_common_prefix(_parse(address), head))

        name, all_own = facts.title(live.node), join_first([clean(address) for address in live.raylet.addresses or ()], MAX_NAMED)
        has = f"its host has {join_first(list(map(clean, better)), MAX_NAMED)}" if better else "its host has no address that only it has"
        again = f"with --node-ip-address={clean(better[0])}" if better else "with a --node-ip-address that the other nodes reach"
        yield facts.node_finding(
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


def head_under_same_address(facts: Facts, dead: Node) -> Node | None:
    """The head, if a dead node of another host was registered under an address that the head's host has too, such as docker0's.

    Then the GCS checked its own host instead of that node, and declared the node dead after a few seconds.
    """
    for live in live_raylets(facts):
        is_other_host = live.node.host != dead.host and live.node.ip != dead.ip
        if live.node.head and is_other_host and dead.ip and dead.ip in (live.raylet.addresses or ()):
            return live.node
    return None


def _find_wrong(facts: Facts, live: LiveRaylet, seen: Sequence[LiveRaylet]) -> _WrongAddress | None:
    """The fault of its address: loopback, shared with another host, or foreign to its own host; `None` in a cluster of one address."""
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


def _common_prefix(one: IPv4Address | IPv6Address | None, other: IPv4Address | IPv6Address | None) -> int:
    """The number of leading bits that both addresses share; -1 if one is unknown or their versions differ."""
    if one is None or other is None or one.version != other.version:
        return -1
    return one.max_prefixlen - (int(one) ^ int(other)).bit_length()


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    """`None`: it is a host name."""
    try:
        return ip_address(address)
    except ValueError:
        return None
