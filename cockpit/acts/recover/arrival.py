"""Waits until every node of a cluster that was just started has joined with all its GPUs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from cockpit.acts.recover.step_state import StepError
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.wire import NodeEntry
from cockpit.sources.source import SourceError, wait_within

JOIN_TIMEOUT_S: Final = 120.0
"""For all nodes: a dashboard takes ten seconds to start on a busy host, and an agent as long."""
POLL_INTERVAL_S: Final = 0.25
ANSWER_TIMEOUT_S: Final = 8.0
"""For one answer of the dashboard."""


async def wait_for_all(
    ray: RayClient, session: str, gpus: Mapping[str, float | None], addresses: Mapping[str, str], tell: Callable[[str, str], None]
) -> float:
    """The GPUs of the complete cluster. Raises `StepError` where a node or GPU is missing after the timeout.

    `gpus` and `addresses` by host: how many its node is to offer, and where it is.
    """
    until, lacks = time.monotonic() + JOIN_TIMEOUT_S, "the dashboard has not been asked yet"
    while time.monotonic() < until:
        try:
            members = await wait_within(ANSWER_TIMEOUT_S, _members(ray, session))
        except (SourceError, asyncio.TimeoutError) as error:
            if isinstance(error, SourceError) and error.cause in ("no token", "wrong token"):
                raise StepError(str(error)) from error
            lacks = str(error) or f"{ray.address} has not answered within {ANSWER_TIMEOUT_S:.0f} s"
            for host in addresses:
                tell(host, lacks)
        else:
            there = {host: _lacks(gpus.get(host), address, members) for host, address in addresses.items()}
            for host, text in there.items():
                tell(host, text or "joined")
            missing = [f"{host}: {text}" for host, text in there.items() if text]
            if not missing:
                return sum(_gpus(member) for member in members if member.state == "ALIVE")
            lacks = "; ".join(missing)
        await asyncio.sleep(POLL_INTERVAL_S)
    raise StepError(f"cluster not complete after {JOIN_TIMEOUT_S:.0f} s: {lacks}")


async def _members(ray: RayClient, session: str) -> tuple[NodeEntry, ...]:
    """The nodes of this session: the dashboard of an earlier one may still answer for a moment."""
    if (await ray.identify()).session != session:
        raise SourceError(f"{ray.address} does not serve {session} yet: another session answers")
    return await ray.members()


def _lacks(wanted: float | None, address: str, members: tuple[NodeEntry, ...]) -> str | None:
    """What the node there still lacks of the GPUs that are wanted of it, or `None`."""
    mine = [member for member in members if member.node_ip == address and member.state == "ALIVE"]
    if not mine:
        return "its node has not joined yet"
    found = sum(map(_gpus, mine))
    return f"{found:g} of {wanted:g} GPUs" if wanted is not None and found < wanted else None


def _gpus(member: NodeEntry) -> float:
    return float((member.resources_total or {}).get("GPU") or 0.0)
