"""One look at everything, for whoever asks once: it waits for what matters, and says what it could not reach."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from cockpit.config.reach import THROUGH_RAY
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor

OTHER_HOSTS_PATIENCE_S = 3.0
"""For which `cockpit status` waits for other hosts once Ray and this host have answered."""

ORCHESTRATOR_PATIENCE_S = 2.0
"""For which it waits for what Slurm says of its job, or Kubernetes of its RayCluster."""
PORTS_PATIENCE_S = 2.0
"""For which it waits to hear who listens on a port that a failed job wanted."""


async def look_once(
    config: Config, *, env: Mapping[str, str] = os.environ, patience: float = 8.0, everywhere: bool = False, hosts_patience: float = 0.0
) -> ClusterMonitor:
    """Everything that can be known within `patience` seconds; its poller holds the snapshot.

    `hosts_patience`: seconds more for other hosts that are named, or whose GPU processes have no known owner. A fault names those of them
    that have not been heard.
    """
    monitor = ClusterMonitor(config, lambda _: None, env=env, once=True, everywhere=everywhere, named=hosts_patience > 0)
    monitor.poller.subscribe(lambda _: monitor.pool.replace_told(monitor.coverage.told_hosts()))
    task = asyncio.ensure_future(monitor.run())
    try:
        await asyncio.wait(
            [task, knowing := asyncio.ensure_future(monitor.wait_until_complete(patience))], return_when=asyncio.FIRST_COMPLETED
        )
        knowing.cancel()
        for orchestrator in monitor.orchestrators:
            await orchestrator.wait_until_asked(ORCHESTRATOR_PATIENCE_S)
        if hosts_patience and not monitor.open_choices:
            await monitor.coverage.wait_for_hosts(hosts_patience)
        await monitor.ports.ask_once(PORTS_PATIENCE_S)
    finally:
        monitor.close()
        task.cancel()
    for silent in monitor.coverage.silent_sources():
        monitor.poller.doubt(silent, f"has not answered within {patience:.0f} s")
    if everywhere or hosts_patience:
        _doubt_unheard(monitor, hosts_patience or patience)
    monitor.poller.rejoin()
    return monitor


def _doubt_unheard(monitor: ClusterMonitor, patience: float) -> None:
    """Say which hosts have not been heard: what is shown is without them."""
    for name in monitor.coverage.unanswered_hosts():
        if monitor.config.reach == THROUGH_RAY:
            why = "is not looked at: `reach: ray` allows acts only"
        elif name in monitor.poller.parts.hosts:
            why = f"has not listed all its processes and GPUs within {patience:.0f} s"
        else:
            why = f"has not been reached within {patience:.0f} s"
        monitor.poller.doubt("probe", f"{name} {why}", name)
