"""Detects nodes that are registered under an address at which other nodes don't reach them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Level, Node, Remedy
from cockpit.text import clean, join_first

MAX_NAMED = 6


@rests_on("ray.nodes", "rays")
def wrong_node_addresses(facts: Facts) -> Iterator[Finding]:
    """Probed nodes registered under loopback, an address of another host, or one that is foreign to their own host.

    A cluster of one host and one address is left out.
    """
    seen = [live for live in live_raylets(facts) if live.raylet.network is not None and live.raylet.addresses is not None]
    for live in seen:
        node, own, others = live.node, live.raylet.addresses or (), [one for one in seen if one.raylet.network != live.raylet.network]
        address = _parse(node.ip)
        if address is None or not (others or any(known.ip != node.ip for known in facts.living_nodes)):
            continue
        code = "node-address-loopback"
        level: Level = "critical"
        too = list(dict.fromkeys(facts.title(other.node) for other in others if node.ip in (other.raylet.addresses or ())))
        if address.is_loopback:
            wrong = "which is loopback: other nodes that connect there reach themselves"
        elif too:
            code, have = "node-address-shared", "have" if len(too) > 1 else "has"
            wrong = f"which {join_first(too, MAX_NAMED)} {have} too: what is sent there from there never arrives"
        elif own and node.ip not in own:
            code, level = "node-address-foreign", "warning"
            wrong = "which is no address of that host: other nodes reach it only if something forwards that address to it"
        else:
            continue

        # Better addresses: those that no other host has. The head is reached over its network, so addresses like the head's come first.
        taken = {known for other in others for known in other.raylet.addresses or ()}
        head = next((_parse(other.node.ip) for other in seen if other.node.head and other.node is not node), None)
        better = sorted((known for known in own if known not in taken), key=lambda known: -_common_prefix(_parse(known), head))
        has = f"its host has {join_first(list(map(clean, better)), MAX_NAMED)}" if better else "its host has no address that only it has"
        again = f"with --node-ip-address={clean(better[0])}" if better else "with a --node-ip-address that the other nodes reach"
        all_own = join_first([clean(known) for known in own], MAX_NAMED)
        text = f"Node {facts.title(node)} is registered in Ray as {clean(node.ip)}, {wrong} ({has})"
        evidence = (f"`ray list nodes`: {clean(node.ip)}", f"`ip -brief address` on {live.host.name}: {all_own}")
        remedy = Remedy(f"`ray stop` on {live.host.name}, then its `ray start` again {again}")
        yield facts.node_finding(node, code, level, text, evidence, remedy)


def head_under_same_address(facts: Facts, dead: Node) -> Node | None:
    """The head, if a dead node of another host was registered under an address that the head's host has too, such as docker0's.

    Then the GCS checked its own host instead of that node, and declared the node dead after a few seconds.
    """
    for live in live_raylets(facts):
        is_other_host = live.node.host != dead.host and live.node.ip != dead.ip
        if live.node.head and is_other_host and dead.ip and dead.ip in (live.raylet.addresses or ()):
            return live.node
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
