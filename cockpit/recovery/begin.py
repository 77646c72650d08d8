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
from cockpit.door import Door
from cockpit.lookout import Lookout
from cockpit.presets import Preset, launchable
from cockpit.recovery.hosts import dashboard_of
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
        raise StepError(f"{preset.path}: says nothing of how its cluster is started: it has no `ray`")
    filled = launchable(preset, env)
    head = preset.ray.head.address or preset.ray.head.host
    dashboard = dashboard_of(preset.ray, head, near=_is_near(head))
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


def _is_near(host: str) -> bool:
    """Whether that is an address of this host: only then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, 0, socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return host == socket.gethostname()
