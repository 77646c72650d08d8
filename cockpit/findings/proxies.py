"""Detects HTTP proxies that Ray's commands, or jobs that ask other nodes by HTTP, would go through.

Both findings are infos: the cluster, and jobs without HTTP, run well, and a proxy for downloads is often intended. Ray's own connections
don't use it: gRPC ignores proxies unless RAY_grpc_enable_http_proxy is set (ray/_private/ray_constants.py, 2.60). `ray job submit`,
`ray list` and `ray logs` use it, because they ask the dashboard with the library requests (ray/dashboard/modules/dashboard_sdk.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import live_raylets
from cockpit.findings.rays_here import is_loopback
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, HttpProxy, Remedy
from cockpit.text import clean, join_first

MAX_NAMED = 6
MAX_NAME_CHARS = 253
"""The longest name of a host (RFC 1035)."""
_DASHBOARD_HOST = re.compile(r"/dashboard\.py .{0,4000}?--host=([0-9A-Za-z.:-]{1,100})")
COMMANDS = "`ray job submit`, `ray list` and `ray logs`"


@rests_on()
def proxy_of_shell(facts: Facts) -> Iterator[Finding]:
    """A proxy in the environment of cockpit itself that Ray's commands would use for the followed dashboard."""
    host = next((host for host in facts.fresh_hosts if host.local), None)
    if host is None or host.proxy is None or not facts.snapshot.cluster.reachable or facts.has_fault("ray.identity"):
        return
    asked = AskedHosts(_dashboard_hosts(facts)).not_excepted(host.proxy.exceptions)
    if asked:
        title = facts.host_title(host)
        text = (
            f"{_proxy_words(host.proxy)} in the environment of your shell on {title}, and no_proxy does not name "
            f"{' and '.join(asked)}: {COMMANDS} ask that proxy, not the dashboard"
        )
        yield Finding("proxy-in-shell", "info", title, text, _evidence(host.proxy), remedy=Remedy(f"in that shell: {_export(asked)}"))


@rests_on("ray.nodes", "rays")
def proxies_of_raylets(facts: Facts) -> Iterator[Finding]:
    """Proxies in the environment of raylets, one finding for all nodes: workers and drivers inherit it, and connect to nodes' addresses."""
    having = [(live.node, live.raylet.proxy) for live in live_raylets(facts) if live.raylet.proxy]
    if not having:
        return
    addresses = list(dict.fromkeys(node.ip for node in facts.living_nodes if node.ip))
    hosts = AskedHosts(addresses)
    not_excepted = {exceptions: hosts.not_excepted(exceptions) for exceptions in {proxy.exceptions for _, proxy in having}}
    found = [(node, proxy) for node, proxy in having if not_excepted[proxy.exceptions]]
    if not found:
        return
    names = list(dict.fromkeys(facts.title(node) for node, _ in found))
    through_proxy: set[str] = set().union(*not_excepted.values())
    asked = [address for address in addresses if address in through_proxy]
    raylets = "raylets" if len(names) > 1 else "the raylet"
    text = (
        f"{_proxy_words(found[0][1])} in the environment of {raylets} on {join_first(names, MAX_NAMED)}, and no_proxy does not name "
        f"{len(asked)} of {len(addresses)} addresses of nodes ({join_first([clean(one) for one in asked], MAX_NAMED)}): a job that asks "
        f"servers of another node by HTTP, or runs {COMMANDS}, asks that proxy"
    )
    lines = [line for node, proxy in found[:MAX_NAMED] for line in _evidence(proxy, facts.title(node))]
    remedy = f"before `ray start` on each node, or in the job's env_vars: {_export(asked)}"
    yield facts.cluster_finding([node for node, _ in found], "proxy-of-raylets", "info", text, lines, remedy)


def _dashboard_hosts(facts: Facts) -> list[str]:
    """Hosts of the followed dashboard: of the address that cockpit asks, and of the one that Ray's commands look up on the head.

    The latter is the head's own address, unless the dashboard listens on loopback only (`http_host` in ray/dashboard/head.py, 2.60).
    """
    cluster = facts.snapshot.cluster
    asked: str | None = None
    if cluster.address and cluster.address.startswith("http://"):  # other variables hold the proxy of https://
        with suppress(ValueError):
            asked = urlsplit(cluster.address).hostname
    parts = (one for one in facts.snapshot.processes or () if one.kind == "ray" and one.session == cluster.session)
    listens_on = [found[1] for one in parts if (found := _DASHBOARD_HOST.search(one.command or ""))]
    heads = [node.ip for node in facts.living_nodes if node.head and any(not is_loopback(host) for host in listens_on)]
    return [clean(host) for host in dict.fromkeys((asked, *heads)) if host]


class AskedHosts:
    """Hosts that are asked by HTTP; finds those that no_proxy does not name, quickly for many hosts and many values of no_proxy.

    no_proxy has the meaning that it has for requests (`should_bypass_proxies` in requests/utils.py): an entry is a host's name, with or
    without a port, the end of its name, its address, or a network that contains its address.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = list(hosts)
        self._ips: dict[str, IPv4Address | IPv6Address] = {}
        self._by_address: dict[str, set[str]] = {}
        """Hosts that are addresses, by every entry that may name them: the whole address, and its part after each dot."""
        self._by_name: dict[str, set[str]] = {}
        """The same for hosts that are names. The port of an entry is ignored."""
        self._by_entry: dict[str, set[str]] = {}
        """Results of `_named_by`: nodes have most entries in common."""
        for host in self._hosts:
            by_end = self._by_name
            with suppress(ValueError):
                self._ips[host] = ip_address(host)
                by_end = self._by_address
            end, dot = host.lower(), "."
            while dot and len(host) <= MAX_NAME_CHARS:
                by_end.setdefault(end, set()).add(host)
                _, dot, end = end.partition(".")

    def not_excepted(self, exceptions: str) -> list[str]:
        """The hosts that this value of no_proxy does not name."""
        entries = [entry.lower() for entry in exceptions.replace(" ", "").split(",") if entry]
        if entries == ["*"]:
            return []
        named: set[str] = set().union(*map(self._named_by, entries))
        return [host for host in self._hosts if host not in named]

    def _named_by(self, entry: str) -> set[str]:
        if entry not in self._by_entry:
            name = entry.lstrip(".")
            named = self._by_address.get(name, set()) | self._by_name.get(name.partition(":")[0], set())
            if "/" in entry:
                with suppress(ValueError):
                    network = ip_network(entry, strict=False)
                    named |= {host for host, ip in self._ips.items() if ip in network}
            self._by_entry[entry] = named
        return self._by_entry[entry]


def _proxy_words(proxy: HttpProxy) -> str:
    return f"{clean(proxy.variable)} is {clean(proxy.proxy) if proxy.proxy else 'set'}"


def _evidence(proxy: HttpProxy, where: str = "") -> tuple[str, ...]:
    at = f" on {where}" if where else ""
    return (f"{clean(proxy.variable)}{at}: {clean(proxy.proxy or 'set')}", f"no_proxy{at}: {clean(proxy.exceptions) or 'not set'}")


def _export(hosts: Iterable[str]) -> str:
    """The command that adds these hosts to no_proxy. A host's name with other signs is left out: it could become a command."""
    named = ",".join(host for host in hosts if host.replace(".", "").replace("-", "").replace(":", "").isalnum())
    return f'`export no_proxy="${{no_proxy:-$NO_PROXY}},{named}"`'
