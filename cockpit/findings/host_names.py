"""Hosts whose own name leads to loopback: there Gloo tells the other ranks to connect to 127.0.0.1."""

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
    """One finding for all hosts of a cluster with several; a host whose workers have GLOO_SOCKET_IFNAME is left out."""
    if not is_spread(facts):
        return
    wrong = [live for live in live_raylets(facts) if live.raylet.loopback_line and not _is_gloo_told(facts, live)]
    if not wrong:
        return
    names = list(dict.fromkeys(facts.title(live.node) for live in wrong))
    addresses = {node.ip for node in facts.living_nodes if node.ip}
    yield facts.cluster_finding(
        (live.node for live in wrong),
        "host-name-loopback",
        "warning",
        f"The host's own name is a loopback address on {join_first(names, MAX_HOSTS_NAMED)} ({len(names)} of {len(addresses)} hosts; "
        f"/etc/hosts: `{clean(wrong[0].raylet.loopback_line or '')}`): Gloo gives that address to ranks on other hosts, which then "
        "connect to themselves (`Connection refused, remote=[127.0.0.1]`)",
        (f"/etc/hosts of {live.host.name}: {clean(live.raylet.loopback_line or '')}" for live in wrong[:MAX_HOSTS_NAMED]),
        REMEDY,
    )


def _is_gloo_told(facts: Facts, live: LiveRaylet) -> bool:
    """Whether its raylet, or a process of a job there, was told which interface to use."""
    if live.raylet.gloo:
        return True
    here = facts.index.processes_by_host.get(live.host.name, ())
    return any(process.sockets is not None and process.sockets.gloo and process.ours is not False for process in here)
