"""A runbook with eyes and hands of its own: it follows the cluster that is about to live, whatever else is watched meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from cockpit.actions.audit import Audit, audit_path
from cockpit.config import Config
from cockpit.document import InputError
from cockpit.door import Door
from cockpit.lookout import Lookout
from cockpit.presets import Preset, RayStart, launchable
from cockpit.recovery.hosts import dashboard_of, listens_far
from cockpit.recovery.recovery import Recovery
from cockpit.recovery.step import NAMES, StepError


@asynccontextmanager
async def recovering(
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
        raise InputError(f"{preset.path}: says nothing of how its cluster is started: it has no `ray`")
    filled = launchable(preset, env)
    dashboard = _dashboard(config, preset.ray)
    # Probes that watch other hosts would only compete with what is done there.
    lookout = Lookout(msgspec.structs.replace(config, address=config.address or dashboard, probe_hosts="never"), lambda _: None)
    if ending is not None:
        ending.append(lookout.close)
    running = asyncio.ensure_future(lookout.run())
    try:
        door = Door(lookout, Audit(audit_path(), time.time))
        yield Recovery(lookout, door, preset, filled, dashboard=dashboard, begin=begin, skip=skip, follow=follow)
    finally:
        lookout.close()
        running.cancel()


def _dashboard(config: Config, start: RayStart) -> str:
    """Where the cluster's will answer, as seen from here; from elsewhere through a tunnel, if there is one. Raises `StepError`."""
    head = start.head.address or start.head.host
    near = _is_near(head)
    if near or listens_far(start):
        return dashboard_of(start, head, near=near)
    if config.address is None:
        ways = "say ray.head.dashboard_host in the preset, go there, or name a tunnel with --address"
        raise StepError(f"the dashboard will answer on {head} alone: {ways}")
    return config.address


def _is_near(host: str) -> bool:
    """Whether that is an address of this host: only then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, 0, socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return host == socket.gethostname()
