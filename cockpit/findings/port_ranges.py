"""Ports of Ray: too few for the workers of a node, or among those that the kernel gives to any connection."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.findings.versions import is_ours
from cockpit.model import Actor, Finding, Host, Node, RayProcess
from cockpit.text import join_first, plural

Ranges = tuple[tuple[int, int], ...]
MAX_RANGES_SHOWN = 3
MAX_HOSTS_NAMED = 6
WAITING_TO_START = ("starting", "room", None)
"""An actor that has its resources and no process yet, one for which there is room, and one of which nobody can tell yet why it waits."""


def count_ports(ranges: Ranges) -> int:
    """How many ports there are in these ranges."""
    return sum(high - low + 1 for low, high in ranges)


def write_ranges(ranges: Ranges) -> str:
    """`10010-10013, 10020`."""
    shown = [f"{low}-{high}" if low != high else f"{low}" for low, high in ranges[:MAX_RANGES_SHOWN]]
    more = len(ranges) - MAX_RANGES_SHOWN
    return ", ".join(shown) + (f" and {plural(more, 'more range')}" if more > 0 else "")


@rests_on("rays", "processes", "ray.actors")
def few_worker_ports(facts: Facts) -> Iterator[Finding]:
    """Raylets that have no port left for another worker while actors wait to start; and those that have fewer ports than CPUs."""
    for host in facts.fresh_hosts:
        for ray in host.rays or ():
            if ray.role == "raylet" and ray.ports and ray.ports.workers and is_ours(facts, ray):
                yield from _judge_worker_ports(facts, host, ray, ray.ports.workers)


def _judge_worker_ports(facts: Facts, host: Host, ray: RayProcess, ranges: Ranges) -> Iterator[Finding]:
    ports, node = count_ports(ranges), facts.nodes.get(ray.node or "")
    users = _count_port_users(facts, host, ray)
    waiting = _waiting_to_start(facts)
    subject = f"raylet {ray.pid} on {facts.host_title(host)}"
    if users >= ports and waiting and facts.seconds_lasting("worker-ports-full", subject) >= facts.limits.worker_ports_age:
        yield _full(facts, host, ray, users, waiting)
    elif node and (cpus := _cpus(node)) is not None and ports < cpus:
        yield _few(facts, host, ray, cpus)


def _count_port_users(facts: Facts, host: Host, ray: RayProcess) -> int:
    """Its workers and drivers: each has a port of its own (`WorkerPool::GetNextFreePort` in src/ray/raylet/worker_pool.cc)."""
    processes = facts.index.processes_by_host.get(host.name, ())
    workers = sum(one.kind == "worker" and one.node == ray.node and one.state != "Z" for one in processes)
    drivers = sum(one.kind == "driver" and one.session == ray.session and one.state != "Z" for one in processes)
    return workers + drivers


def _waiting_to_start(facts: Facts) -> list[Actor]:
    return [actor for actor in facts.snapshot.actors or () if actor.pending and actor.wait in WAITING_TO_START]


def _cpus(node: Node) -> float | None:
    amount = node.resources.get("CPU")
    return amount.total if amount else None


def _full(facts: Facts, host: Host, ray: RayProcess, users: int, waiting: list[Actor]) -> Finding:
    ranges = ray.ports.workers if ray.ports else ()
    title, ports = facts.host_title(host), count_ports(ranges)
    finding = facts.host_finding(
        host,
        "worker-ports-full",
        "critical",
        f"The raylet on {title} has {plural(ports, 'port')} for workers ({write_ranges(ranges)}), and {plural(users, 'worker')} and "
        f"drivers run there: no other worker can start there, and {plural(len(waiting), 'actor')} "
        f"{'waits' if len(waiting) == 1 else 'wait'}",
        _port_evidence(title, ray, ranges),
        _wider(title),
    )
    return replace(finding, about=(*finding.about, *(actor.key for actor in waiting)))


def _few(facts: Facts, host: Host, ray: RayProcess, cpus: float) -> Finding:
    ranges = ray.ports.workers if ray.ports else ()
    title, ports = facts.host_title(host), count_ports(ranges)
    return facts.host_finding(
        host,
        "worker-ports-few",
        "info",
        f"The raylet on {title} has {plural(ports, 'port')} for workers ({write_ranges(ranges)}), but {cpus:g} CPUs: each worker needs "
        f"a port, so that no more than {plural(ports, 'worker')} and drivers can run there",
        _port_evidence(title, ray, ranges),
        _wider(title),
    )


def _port_evidence(title: str, ray: RayProcess, ranges: Ranges) -> tuple[str, ...]:
    return (f"ps -o args= -p {ray.pid} on {title}: worker ports {write_ranges(ranges)}",)


def _wider(title: str) -> str:
    return (
        f"start Ray on {title} again with more ports (--min-worker-port and --max-worker-port, or --worker-port-list; "
        "default 10002-19999); the firewall must let them through"
    )


@rests_on("rays")
def ports_of_connections(facts: Facts) -> Iterator[Finding]:
    """One for each such overlap, over all hosts that have it.

    Ports above 32768, where the dashboard's agent has its 52365, overlap on every Linux, and are not looked at: only the workers' range and
    what a person fixed. It is an info: nothing fails before a connection has taken just that port at the moment it is wanted, and a raylet
    passes over worker ports that are taken (`GetNextFreePort` in src/ray/raylet/worker_pool.cc).
    """
    found: dict[tuple[str, Ranges, str], list[Host]] = {}
    for host in facts.fresh_hosts:
        for ray in host.rays or ():
            if ray.ports and ray.ports.local and is_ours(facts, ray):
                for what, ranges in _overlaps(ray):
                    low, high = ray.ports.local
                    found.setdefault((what, ranges, f"{low}-{high}"), []).append(host)
    for (what, ports, local), hosts in found.items():
        yield _overlap_finding(facts, what, ports, local, list(dict.fromkeys(host.name for host in hosts)))


def _overlaps(ray: RayProcess) -> Iterator[tuple[str, Ranges]]:
    """What of its ports the kernel may give away."""
    if ray.ports is None or ray.ports.local is None:
        return
    fixed = [(f"port of the {part}", ((port, port),)) for part, port in sorted(ray.ports.fixed.items())]
    for what, ranges in [("worker ports", ray.ports.workers), *fixed]:
        if given := take_out(common_ports(ranges, ray.ports.local), ray.ports.reserved):
            yield what, given


def common_ports(ranges: Ranges, other: tuple[int, int]) -> Ranges:
    """Those that are in both."""
    return tuple((max(low, other[0]), min(high, other[1])) for low, high in ranges if low <= other[1] and high >= other[0])


def take_out(ranges: Ranges, away: Ranges) -> Ranges:
    """What is left of ranges without those."""
    for first, last in away:
        parts = [part for low, high in ranges for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
        ranges = tuple(dict.fromkeys((low, high) for low, high in parts if low <= high))
    return ranges


def _overlap_finding(facts: Facts, what: str, ports: Ranges, local: str, names: list[str]) -> Finding:
    where = join_first(names, MAX_HOSTS_NAMED)
    one = what.startswith("port of")
    listed = ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in ports)
    return facts.cluster_finding(
        [node for node in facts.living_nodes if (host := facts.index.host_of(node)) and host.name in names],
        "ports-ephemeral",
        "info",
        f"Ray's {what} on {where} {'is' if one else 'are'} {write_ranges(ports)}, "
        f"within {local}, from which the kernel gives a port to each connection: "
        f"one of them may have taken {'it' if one else 'a port'} before Ray does",
        (f"sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports on {name}" for name in names[:MAX_HOSTS_NAMED]),
        f"as root: `sysctl -w net.ipv4.ip_local_reserved_ports={listed}`, with the ports that are reserved already, "
        "or start Ray with ports outside of that range",
    )
