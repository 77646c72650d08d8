"""A runbook with eyes and hands of its own: it follows the cluster that is about to live, whatever else is watched meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from cockpit.acts.audit import Audit, audit_path
from cockpit.acts.executor import ActionExecutor
from cockpit.acts.recover.hosts import dashboard_of, listens_far
from cockpit.acts.recover.runbook import Recovery
from cockpit.acts.recover.step_state import NAMES, StepError
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import Preset, RayStart, launchable


@asynccontextmanager
async def begin_recovery(
    config: Config,
    preset: Preset,
    env: Mapping[str, str],
    *,
    begin: str = NAMES[0],
    skip: Sequence[str] = (),
    follow: bool = True,
    ending: list[Callable[[], None]] | None = None,
) -> AsyncIterator[Recovery]:
    """Nothing is done yet. `ending` is told what to call should nobody come back to close it. Raises `InputError`, `StepError`."""
    if preset.ray is None:
        raise InputError(f"{preset.path}: has no `ray` section, so cockpit can't start its cluster")
    filled = launchable(preset, env)
    dashboard = _dashboard(config, preset.ray)
    # Probes that watch other hosts would only compete with what is done there.
    monitor = ClusterMonitor(msgspec.structs.replace(config, address=config.address or dashboard, probe_hosts="never"), lambda _: None)
    if ending is not None:
        ending.append(monitor.close)
    running = asyncio.ensure_future(monitor.run())
    try:
        executor = ActionExecutor(monitor, Audit(audit_path(), time.time))
        yield Recovery(monitor, executor, preset, filled, dashboard=dashboard, begin=begin, skip=skip, follow=follow)
    finally:
        monitor.close()
        running.cancel()


def _dashboard(config: Config, start: RayStart) -> str:
    """Where the cluster's will answer, as seen from here; from elsewhere through a tunnel, if there is one. Raises `StepError`."""
    head = start.head.address or start.head.host
    near = _is_near(head)
    if near or listens_far(start):
        return dashboard_of(start, head, near=near)
    if config.address is None:
        ways = "set ray.head.dashboard_host in the preset, run cockpit there, or give a tunnel with --address"
        raise StepError(f"the dashboard will only be reachable on {head}: {ways}")
    return config.address


def _is_near(host: str) -> bool:
    """Whether that is an address of this host: only then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, 0, socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return host == socket.gethostname()
