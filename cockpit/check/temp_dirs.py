"""Checks whether the paths of Ray's sockets would be too long in a preset's temp dirs.

`ray start` itself checks that too, but only after the old Ray was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.budget import Line
from cockpit.check.nodes import Site, find_host
from cockpit.model import Snapshot
from cockpit.presets import RayStart
from cockpit.probe.socket_paths import PidRange, SocketFault, dashboard_socket, find_fault, node_socket, temp_dir
from cockpit.text import join_first


def temp_dir_lines(start: RayStart, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """One line for each fault, with its hosts. While a Ray runs a job can be launched on it, so the fault is only a doubt."""
    head = find_host(start.head, snapshot.hosts.values())
    pids = PidRange(head.pid_digits, head.pid_max) if head else PidRange()
    found: dict[SocketFault, list[str]] = {}
    for node in start.nodes:
        is_head = node is start.head
        temp = temp_dir(node.arguments, start.env)
        # A worker without a temp dir of its own gets the head's.
        if "$" in temp or not (is_head or "temp_dir" in node.flags):
            continue
        has_dashboard = is_head and node.flags.get("include_dashboard") is not False
        dashboard = dashboard_socket(snapshot.cluster.ray_version) if has_dashboard else None
        fault = find_fault(temp, (node_socket(node.arguments), dashboard), pids)
        if fault is not None:
            found.setdefault(fault, []).append(node.host)
    for fault, hosts in found.items():
        is_certain = fault.certain and not (fault.is_dashboards and snapshot.cluster.ray_version is None)
        yield Line("never" if is_certain and site.planned else "doubt", f"{join_first(hosts)}: {fault.text}", fault.remedy)
