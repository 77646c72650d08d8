"""Finds where the followed Ray runs: on which probed host its processes and its head are, and which session its address means."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit

from cockpit.findings.facts import Facts
from cockpit.findings.rays_here import LOOPBACK_NAMES, dashboard_of, head_elsewhere, live_sessions
from cockpit.model import Cause, Cluster, Fault, Host


def find_fault(facts: Facts, source: str, cause: Cause) -> Fault | None:
    """The fault of this source with this cause."""
    return next((fault for fault in facts.snapshot.faults if fault.source == source and fault.cause == cause), None)


def find_address_fault(facts: Facts, cause: Literal["silent", "not ray"]) -> Fault | None:
    """The fault if nothing answers at the address, or something that is not Ray."""
    return find_fault(facts, "ray.identity", cause) if facts.snapshot.cluster.reachable is False else None


def address_words(facts: Facts) -> str:
    """` at ADDRESS`; empty if no address is known."""
    return f" at {facts.snapshot.cluster.address}" if facts.snapshot.cluster.address else ""


def replaced_words(cluster: Cluster) -> str:
    """The sentence for a followed session that was replaced by another one."""
    session, before = cluster.session or "of an unknown session", cluster.before or "another one"
    return f"The Ray at {cluster.address} is now {session}; before, cockpit followed {before}"


def is_elsewhere(facts: Facts) -> bool:
    """Whether nothing has ever answered at the address, while another Ray of this host answers: the asked Ray may be in a container.

    False if a dashboard of this host is seen to listen on the address's port.
    """
    cluster = facts.snapshot.cluster
    seen = {
        host_and_port(one.dashboard)[1] for host in facts.fresh_hosts if is_head(facts, host) for one in host.sessions or () if one.live
    }
    if cluster.session is not None or host_and_port(cluster.address)[1] in seen - {None}:
        return False
    return any(ray.answers and ray.url != cluster.address for ray in cluster.others or ())


def is_ray_alive_on(facts: Facts, host: Host) -> bool:
    """Whether the Ray of our address runs on the host: known by its session, else because the address names this host as its head."""
    live = live_sessions(host)
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session in live
    others = {name for name in live if _listens_elsewhere(facts, host, name) or head_elsewhere(host, name)}
    return bool(live - others - ({""} if others else set())) and is_head(facts, host)


def session_at_address(facts: Facts, host: Host) -> str | None:
    """The session on the host that our address means: the followed one, or the session with a dashboard on the address's port.

    If no dashboard has that port: the only session without a visible dashboard. `None`: unknown.
    """
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session
    names = {name for name in live_sessions(host) if name and head_elsewhere(host, name) is None}
    processes = facts.index.processes_by_host.get(host.name, ())
    ports = {name: host_and_port(dashboard_of(host, name, processes))[1] for name in names}
    asked = host_and_port(facts.snapshot.cluster.address)[1]
    found = [name for name in names if asked is not None and ports[name] == asked] or [name for name in names if ports[name] is None]
    return found[0] if len(found) == 1 else None


def are_several_on(host: Host) -> bool:
    """Whether several Rays run on the host."""
    return len(live_sessions(host) - {""}) > 1


def host_and_port(url: str | None) -> tuple[str | None, int | None]:
    """The host and port of a URL; each is `None` if it is missing or malformed."""
    host: str | None = None
    with suppress(ValueError):
        parts = urlsplit(url or "")
        host = parts.hostname
        return host, parts.port
    return host, None


def _listens_elsewhere(facts: Facts, host: Host, name: str) -> bool:
    """Whether our address can't mean this session's dashboard: it has another port, or listens on loopback only."""
    asked, asked_port = host_and_port(facts.snapshot.cluster.address)
    there, port = host_and_port(dashboard_of(host, name, facts.index.processes_by_host.get(host.name, ())))
    has_other_port = asked_port is not None and port is not None and asked_port != port
    return has_other_port or (there in LOOPBACK_NAMES and asked not in (None, *LOOPBACK_NAMES))


def is_head(facts: Facts, host: Host) -> bool:
    """Whether this host is the cluster's head: by Ray's node list, else by the address that cockpit asks."""
    if any(node.head for node in facts.index.nodes_on(host)):
        return True
    where, _ = host_and_port(facts.snapshot.cluster.address)
    return (where in LOOPBACK_NAMES and host.local) or (where is not None and where in (host.name, *host.addresses))
