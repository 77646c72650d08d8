"""Whether Ray's sockets fit below the temp dirs that a preset names: `ray start` checks that only after the old Ray was stopped."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.budget import Line
from cockpit.check.nodes import Site, find_host
from cockpit.model import Host, Snapshot
from cockpit.presets import RayNode, RayStart
from cockpit.probe.socket_paths import PidRange, SocketFault, dashboard_socket, find_fault, node_socket, temp_dir
from cockpit.text import join_first


def temp_dir_lines(start: RayStart, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """One for each temp dir and what is wrong with it. While a Ray runs a job can be launched on that: then it is only a doubt."""
    head = find_host(start.head, snapshot.hosts.values())
    found: dict[SocketFault, list[str]] = {}
    for node in start.nodes:
        fault = _find_fault(node, start, head, snapshot)
        if fault is not None:
            found.setdefault(fault, []).append(node.host)
    for fault, hosts in found.items():
        is_certain = fault.certain and not (fault.is_dashboards and snapshot.cluster.ray_version is None)
        yield Line("never" if is_certain and site.planned else "doubt", f"{join_first(hosts)}: {fault.text}", fault.remedy)


def _find_fault(node: RayNode, start: RayStart, head: Host | None, snapshot: Snapshot) -> SocketFault | None:
    """Of a worker only where the preset gives it a temp dir of its own: else it has its head's."""
    is_head = node is start.head
    temp = temp_dir(node.arguments, start.env)
    if "$" in temp or not (is_head or "temp_dir" in node.flags):
        return None
    pids = PidRange(head.pid_digits, head.pid_max) if head else PidRange()
    has_dashboard = is_head and node.flags.get("include_dashboard") is not False
    dashboard = dashboard_socket(snapshot.cluster.ray_version) if has_dashboard else None
    return find_fault(temp, (node_socket(node.arguments), dashboard), pids)
