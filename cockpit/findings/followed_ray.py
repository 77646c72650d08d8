"""Whether the Ray that is asked lives on a host, and is its head there, as far as what probes and Ray have told says so."""

from __future__ import annotations

from urllib.parse import urlsplit

from cockpit.findings.facts import Facts
from cockpit.findings.rays_here import LOOPBACK_NAMES, dashboard_of, head_elsewhere, live_sessions
from cockpit.model import Cause, Cluster, Fault, Host


def find_fault(facts: Facts, source: str, cause: Cause) -> Fault | None:
    """Of that source, for that cause."""
    return next((fault for fault in facts.snapshot.faults if fault.source == source and fault.cause == cause), None)


def silent_fault(facts: Facts) -> Fault | None:
    """Nothing answers at the address."""
    return find_fault(facts, "ray.identity", "silent") if facts.snapshot.cluster.reachable is False else None


def not_ray_fault(facts: Facts) -> Fault | None:
    """Something answers at the address, but not as Ray does."""
    return find_fault(facts, "ray.identity", "not ray") if facts.snapshot.cluster.reachable is False else None


def address_words(facts: Facts) -> str:
    """For the middle of a sentence; empty where no address is known."""
    return f" at {facts.snapshot.cluster.address}" if facts.snapshot.cluster.address else ""


def replaced_words(cluster: Cluster) -> str:
    """The sentence for a followed session in whose place another one has come."""
    session, before = cluster.session or "of an unknown session", cluster.before or "another one"
    return f"The Ray at {cluster.address} is now {session}; before, cockpit followed {before}"


def is_elsewhere(facts: Facts) -> bool:
    """Whether nothing has ever answered at the address, while another Ray here does: what seems to be there may be in a container.

    Not where the socket of a dashboard of this host is seen to have the address's port.
    """
    cluster = facts.snapshot.cluster
    seen = {port_of(one.dashboard) for host in facts.fresh_hosts if is_head(facts, host) for one in host.sessions or () if one.live}
    if cluster.session is not None or port_of(cluster.address) in seen - {None}:
        return False
    return any(ray.answers and ray.url != cluster.address for ray in cluster.others or ())


def is_ray_alive_on(facts: Facts, host: Host) -> bool:
    """Whether the Ray of the address lives there: by its session, else as the head that the address names."""
    live = live_sessions(host)
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session in live
    others = {name for name in live if _listens_elsewhere(facts, host, name) or head_elsewhere(host, name)}
    return bool(live - others - ({""} if others else set())) and is_head(facts, host)


def session_at_address(facts: Facts, host: Host) -> str | None:
    """The session on that host that the address means: the followed one, else the one whose dashboard has the address's port.

    Where no dashboard has it, the only one whose dashboard can't be seen. `None`: that can't be told.
    """
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session
    names = {name for name in live_sessions(host) if name and head_elsewhere(host, name) is None}
    processes = facts.index.processes_by_host.get(host.name, ())
    ports = {name: port_of(dashboard_of(host, name, processes)) for name in names}
    asked = port_of(facts.snapshot.cluster.address)
    found = [name for name in names if asked is not None and ports[name] == asked] or [name for name in names if ports[name] is None]
    return found[0] if len(found) == 1 else None


def are_several_on(host: Host) -> bool:
    """Whether several Rays live there."""
    return len(live_sessions(host) - {""}) > 1


def port_of(url: str | None) -> int | None:
    """`None` where it has none, or is no address."""
    try:
        return urlsplit(url or "").port
    except ValueError:
        return None


def _listens_elsewhere(facts: Facts, host: Host, name: str) -> bool:
    """Whether its dashboard can't be what the address means: it has another port, or listens on its own host alone."""
    urls = facts.snapshot.cluster.address, dashboard_of(host, name, facts.index.processes_by_host.get(host.name, ()))
    try:
        asked, there = (urlsplit(url or "").hostname for url in urls)
    except ValueError:
        return False
    ports = {port_of(url) for url in urls} - {None}
    return len(ports) > 1 or (there in LOOPBACK_NAMES and asked not in (None, *LOOPBACK_NAMES))


def is_head(facts: Facts, host: Host) -> bool:
    """Whether the cluster's head is this host: Ray says so, or the address that is asked."""
    if any(node.head for node in facts.index.nodes_on(host)):
        return True
    try:
        where = urlsplit(facts.snapshot.cluster.address or "").hostname
    except ValueError:
        return False
    return (where in LOOPBACK_NAMES and host.local) or (where is not None and where in (host.name, *host.addresses))
