"""A head on which some of Ray's own parts do not answer."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cockpit.model import Cluster, Fault, Host, RayProcess, Session, Snapshot
from tests.world import GIB, NOW, node, process, snapshot

ADDRESS, SESSION = "http://10.0.0.1:8265", "session_2026-11-21_01-17-58_164160_11638"
GCS_SILENT = Fault("ray.gcs", "Ray's GCS does not answer; the dashboard's data may be old", NOW - 40, cause="gcs")
NO_DASHBOARD = Fault("ray.identity", f"{ADDRESS} can't be reached: connection refused, nothing listens there", NOW - 40, cause="silent")
MONITOR_SILENT = Fault("ray.status", "the autoscaler monitor has reported nothing for 25 s", NOW - 40, cause="monitor")
RAYLET, GCS = RayProcess("raylet", 20, SESSION, node(1).id, "S"), RayProcess("gcs_server", 10, SESSION, None, "S")
DASHBOARD = process(30, kind="ray", command="python /x/ray/dashboard/dashboard.py --host=127.0.0.1", session=SESSION)
MONITOR = process(40, kind="ray", command="python /x/ray/autoscaler/_private/monitor.py --logs-dir=/x", session=SESSION)
LOG_MONITOR = process(41, kind="ray", command="python /x/ray/_private/log_monitor.py --logs-dir=/x", session=SESSION)


def head(*rays: RayProcess, live: bool | None = True, processes=(DASHBOARD, MONITOR, LOG_MONITOR), **more: Any) -> Snapshot:
    """A probed head on which these parts of Ray run."""
    sessions = (Session(host="node1", name=SESSION, path=f"/tmp/ray/{SESSION}", live=live, owner="train", size=GIB),)
    nodes = (node(1).id,) if RAYLET in rays else ()
    host = Host("node1", ("10.0.0.1",), NOW, sessions=sessions, nodes=nodes, rays=rays, processes=processes, local=True)
    facts = {
        "cluster": Cluster(ADDRESS, "2.60.0", SESSION, reachable=NO_DASHBOARD not in more.get("faults", ())),
        "nodes": (node(1), node(2)),
        "hosts": {"node1": host},
        "processes": processes,
        "as_of": {},
        **more,
    }
    return snapshot(**facts)


def elsewhere(made: Snapshot) -> Snapshot:
    return replace(made, hosts={}, processes=None)
