"""Detects too few ports for Ray's workers, and ports of Ray that the kernel may give to any connection."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.versions import our_rays
from cockpit.model import ClusterIndex, Finding, Host, RayProcess, Snapshot
from cockpit.text import join_first, plural

Ranges = tuple[tuple[int, int], ...]
MAX_RANGES_SHOWN = 3
MAX_HOSTS_NAMED = 6
WAITING_TO_START = ("starting", "room", None)
"""Waits of an actor that may need a worker port: it has its resources, there is room for it, or the reason is unknown."""


def count_ports(ranges: Ranges) -> int:
    """The number of ports in these ranges."""
    return sum(high - low + 1 for low, high in ranges)


def write_ranges(ranges: Ranges) -> str:
    """`10010-10013, 10020`."""
    shown = [f"{low}-{high}" if low != high else f"{low}" for low, high in ranges[:MAX_RANGES_SHOWN]]
    more = len(ranges) - MAX_RANGES_SHOWN
    return ", ".join(shown) + (f" and {plural(more, 'more range')}" if more > 0 else "")


def worker_ports(host: Host | None, node_id: str | None) -> Ranges:
    """The ports that the raylet of a node on this host gives to its workers and drivers; empty: any free port, or unknown."""
    rays = (host.rays or ()) if host else ()
    return next((ray.ports.workers for ray in rays if ray.role == "raylet" and ray.node == node_id and ray.ports), ())


def count_port_users(index: ClusterIndex, host: Host, ray: RayProcess) -> int:
    """The workers and drivers of a raylet. Each has a port of its own (`WorkerPool::GetNextFreePort` in src/ray/raylet/worker_pool.cc)."""
    processes = index.processes_by_host.get(host.name, ())
    workers = sum(one.kind == "worker" and one.node == ray.node and one.state != "Z" for one in processes)
    return workers + sum(one.kind == "driver" and one.session == ray.session and one.state != "Z" for one in processes)


def full_raylets(snapshot: Snapshot) -> dict[str, Ranges]:
    """By node, the worker ports of the raylets that have given all of them to living processes."""
    found: dict[str, Ranges] = {}
    for node, host in snapshot.index.hosts_by_node.items():
        for ray in host.rays or ():
            ranges = ray.ports.workers if ray.role == "raylet" and ray.node == node and ray.ports else ()
            if ranges and count_port_users(snapshot.index, host, ray) >= count_ports(ranges):
                found[node] = ranges
    return found


@rests_on("rays", "processes", "ray.actors")
def few_worker_ports(facts: Facts) -> Iterator[Finding]:
    """Raylets without a port for another worker while actors wait to start, and raylets with fewer worker ports than CPUs."""
    raylets = [
        (host, ray, ray.ports.workers)
        for host, ray in our_rays(facts, facts.fresh_hosts)
        if ray.role == "raylet" and ray.ports and ray.ports.workers
    ]
    actors = (facts.snapshot.actors or ()) if raylets else ()
    waiting = [actor for actor in actors if actor.pending and actor.wait in WAITING_TO_START]
    for host, ray, ranges in raylets:
        ports, node = count_ports(ranges), facts.index.nodes.get(ray.node or "")
        cpus = node.resources["CPU"].total if node and "CPU" in node.resources else None

        users = count_port_users(facts.index, host, ray)
        title = facts.host_title(host)
        has = f"The raylet on {title} has {plural(ports, 'port')} for workers ({write_ranges(ranges)})"
        evidence = (f"ps -o args= -p {ray.pid} on {title}: worker ports {write_ranges(ranges)}",)
        remedy = (
            f"start Ray on {title} again with more ports (--min-worker-port and --max-worker-port, or --worker-port-list; "
            "default 10002-19999); the firewall must let them through"
        )
        subject = f"raylet {ray.pid} on {title}"
        if users >= ports and waiting and facts.seconds_lasting("worker-ports-full", subject) >= facts.limits.worker_ports_age:
            text = (
                f"{has}, and {plural(users, 'worker')} and drivers run there: no other worker can start there, and "
                f"{plural(len(waiting), 'actor')} {'waits' if len(waiting) == 1 else 'wait'}"
            )
            finding = facts.host_finding(host, "worker-ports-full", "critical", text, evidence, remedy)
            yield replace(finding, about=(*finding.about, *(actor.key for actor in waiting)))
        elif cpus is not None and ports < cpus:
            text = (
                f"{has}, but {cpus:g} CPUs: each worker needs a port, so that no more than {plural(ports, 'worker')} and drivers "
                "can run there"
            )
            yield facts.host_finding(host, "worker-ports-few", "info", text, evidence, remedy)


@rests_on("rays")
def ports_of_connections(facts: Facts) -> Iterator[Finding]:
    """Worker ports, and ports that a person fixed, within the range from which the kernel serves connections; one finding per overlap.

    Ray's other ports, such as 52365 of the dashboard's agent, lie in that range on every Linux and are left out. It is an info: nothing
    fails unless a connection has taken a port at the moment Ray needs it, and a raylet skips worker ports that are taken
    (`GetNextFreePort` in src/ray/raylet/worker_pool.cc).
    """
    found: dict[tuple[str, Ranges, str], dict[str, None]] = {}
    for host, ray in our_rays(facts, facts.fresh_hosts):
        if not ray.ports or not ray.ports.local:
            continue
        low, high = ray.ports.local
        fixed = [(f"port of the {part}", ((port, port),)) for part, port in sorted(ray.ports.fixed.items())]
        for what, ranges in [("worker ports", ray.ports.workers), *fixed]:
            if overlap := take_out(common_ports(ranges, ray.ports.local), ray.ports.reserved):
                found.setdefault((what, overlap, f"{low}-{high}"), {})[host.name] = None
    for (what, ports, local), by_name in found.items():
        names, is_one = list(by_name), what.startswith("port of")
        are, it = ("is", "it") if is_one else ("are", "a port")
        text = (
            f"Ray's {what} on {join_first(names, MAX_HOSTS_NAMED)} {are} {write_ranges(ports)}, within {local}, from which the kernel "
            f"gives a port to each connection: one of them may have taken {it} before Ray does"
        )
        evidence = [f"sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports on {name}" for name in names[:MAX_HOSTS_NAMED]]
        listed = ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in ports)
        remedy = (
            f"as root: `sysctl -w net.ipv4.ip_local_reserved_ports={listed}`, with the ports that are reserved already, "
            "or start Ray with ports outside of that range"
        )
        nodes = [node for node in facts.living_nodes if (on := facts.index.host_of(node)) and on.name in by_name]
        yield facts.cluster_finding(nodes, "ports-ephemeral", "info", text, evidence, remedy)


def common_ports(ranges: Ranges, other: tuple[int, int]) -> Ranges:
    """The ports that are in these ranges and in the other one."""
    return tuple((max(low, other[0]), min(high, other[1])) for low, high in ranges if low <= other[1] and high >= other[0])


def take_out(ranges: Ranges, away: Ranges) -> Ranges:
    """The ranges without these ports."""
    for first, last in away:
        parts = [part for low, high in ranges for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
        ranges = tuple(dict.fromkeys((low, high) for low, high in parts if low <= high))
    return ranges
