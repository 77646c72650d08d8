"""Detects hosts whose own name resolves to loopback: there Gloo gives 127.0.0.1 to the other ranks."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import LiveRaylet, is_spread, live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding
from cockpit.text import clean, join_first

MAX_HOSTS_NAMED = 8
REMEDY = (
    "in /etc/hosts of each of these hosts put the host's real address in place of the loopback one, or set GLOO_SOCKET_IFNAME to the "
    "interface that the other hosts reach, before `ray start` on each host, or in the job's env_vars"
)


@rests_on("ray.nodes", "rays")
def loopback_names(facts: Facts) -> Iterator[Finding]:
    """One finding for all such hosts of a cluster with several hosts; a host where GLOO_SOCKET_IFNAME is set is left out."""
    if not is_spread(facts):
        return
    wrong: list[LiveRaylet] = []
    for live in live_raylets(facts):
        here = facts.index.processes_by_host.get(live.host.name, ())
        is_set = live.raylet.gloo or any(process.sockets and process.sockets.gloo and process.ours is not False for process in here)
        if live.raylet.loopback_line and not is_set:
            wrong.append(live)
    if not wrong:
        return
    names = list(dict.fromkeys(facts.title(live.node) for live in wrong))
    lines = [f"/etc/hosts of {live.host.name}: {clean(live.raylet.loopback_line or '')}" for live in wrong[:MAX_HOSTS_NAMED]]
    of_hosts = f"{len(names)} of {len({node.ip for node in facts.living_nodes if node.ip})} hosts"
    text = (
        f"The host's own name is a loopback address on {join_first(names, MAX_HOSTS_NAMED)} ({of_hosts}; "
        f"/etc/hosts: `{clean(wrong[0].raylet.loopback_line or '')}`): Gloo gives that address to ranks on other hosts, which then "
        "connect to themselves (`Connection refused, remote=[127.0.0.1]`)"
    )
    yield facts.cluster_finding([live.node for live in wrong], "host-name-loopback", "warning", text, lines, REMEDY)
