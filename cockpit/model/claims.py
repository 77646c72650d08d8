"""Decides which host runs a node. A probe reads node ids from command lines, which any user can fake, so they are only claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cockpit.model.host import Host
from cockpit.model.ray import Node


def believed_hosts(nodes: Iterable[Node], hosts: Mapping[str, Host]) -> dict[str, list[Host]]:
    """Return for each node, by Ray's id, the hosts that claim to run it (`Host.nodes`) and are trusted in this.

    If one host claims the node, and no other has the node's address, its claim is trusted. Otherwise a claim is trusted only from a host
    that has the address too. A host that is probed under two names counts once.
    """
    addresses = {node.id: node.ip for node in nodes if node.id}
    by_address: dict[str, list[Host]] = defaultdict(list)
    claims: dict[str, list[Host]] = defaultdict(list)
    for host in hosts.values():
        for address in host.addresses:
            by_address[address].append(host)
        for node_id in host.nodes:
            claims[node_id].append(host)
    believed = {}
    for node_id, claiming in claims.items():
        address = addresses.get(node_id, "")
        is_contested = count_different([*claiming, *by_address.get(address, ())]) > 1
        believed[node_id] = [host for host in claiming if not is_contested or address in host.addresses]
    return believed


def count_different(hosts: Iterable[Host]) -> int:
    """Return the number of hosts. A host that is probed under two names counts once."""
    return len({host.machine or host.name for host in hosts})
