"""Whether the Ray that is asked lives on a host, and is its head there, as far as what probes and Ray have told says so."""

from __future__ import annotations

from urllib.parse import urlsplit

from cockpit.findings.facts import Facts
from cockpit.findings.rays_here import LOOPBACK_NAMES, dashboard_of, head_elsewhere, live_sessions
from cockpit.model import Cause, Fault, Host


def find_fault(facts: Facts, source: str, cause: Cause) -> Fault | None:
    """Of that source, for that cause."""
    return next((fault for fault in facts.snapshot.faults if fault.source == source and fault.cause == cause), None)


def silent_fault(facts: Facts) -> Fault | None:
    """Nothing answers at the address."""
    return find_fault(facts, "ray.identity", "silent") if facts.snapshot.cluster.reachable is False else None


def address_words(facts: Facts) -> str:
    """For the middle of a sentence; empty where no address is known."""
    return f" at {facts.snapshot.cluster.address}" if facts.snapshot.cluster.address else ""


def is_elsewhere(facts: Facts) -> bool:
    """Whether nothing has ever answered at the address, while another Ray here does: what seems to be there may be in a container."""
    cluster = facts.snapshot.cluster
    return cluster.session is None and any(ray.answers and ray.url != cluster.address for ray in cluster.others or ())


def is_ray_alive_on(facts: Facts, host: Host) -> bool:
    """Whether the Ray of the address lives there: by its session, else as the head that the address names."""
    live = live_sessions(host)
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session in live
    others = {name for name in live if _listens_elsewhere(facts, host, name) or head_elsewhere(host, name)}
    return bool(live - others - ({""} if others else set())) and is_head(facts, host)


def _listens_elsewhere(facts: Facts, host: Host, name: str) -> bool:
    """Whether its dashboard can't be what the address means: it has another port, or listens on its own host alone."""
    asked, there = (
        urlsplit(url or "") for url in (facts.snapshot.cluster.address, dashboard_of(host, name, facts.processes.get(host.name, ())))
    )
    try:
        other_port = None not in (asked.port, there.port) and asked.port != there.port
    except ValueError:
        return False
    return other_port or (there.hostname in LOOPBACK_NAMES and asked.hostname not in (None, *LOOPBACK_NAMES))


def is_head(facts: Facts, host: Host) -> bool:
    """Whether the cluster's head is this host: Ray says so, or the address that is asked."""
    if any(node in facts.nodes and facts.nodes[node].head for node in host.nodes):
        return True
    try:
        where = urlsplit(facts.snapshot.cluster.address or "").hostname
    except ValueError:
        return False
    return (where in LOOPBACK_NAMES and host.local) or (where is not None and where in (host.name, *host.addresses))
