"""Waits until every node of a newly started cluster has joined with all its GPUs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from cockpit.actions.recover.step_state import StepError
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.wire import NodeEntry
from cockpit.sources.source import SourceError, wait_within

JOIN_TIMEOUT_S: Final = 120.0
"""For all nodes: a dashboard takes ten seconds to start on a busy host, and an agent as long."""
POLL_INTERVAL_S: Final = 0.25
ANSWER_TIMEOUT_S: Final = 8.0
"""For one answer of the dashboard."""


async def wait_for_all(
    ray: RayClient, session: str, gpus: Mapping[str, float | None], addresses: Mapping[str, str], on_state: Callable[[str, str], None]
) -> float:
    """Return the number of GPUs of the complete cluster. Raises `StepError` if a node or GPU is missing after the timeout.

    `gpus` and `addresses` have for each host the GPUs that its node should offer (`None`: unknown), and its address.
    `on_state` is called with a host and its state, in words.
    """
    until, lacks = time.monotonic() + JOIN_TIMEOUT_S, "the dashboard has not been asked yet"
    while time.monotonic() < until:
        try:
            members = await wait_within(ANSWER_TIMEOUT_S, _read_members(ray, session))
        except (SourceError, asyncio.TimeoutError) as error:
            if isinstance(error, SourceError) and error.cause in ("no token", "wrong token"):
                raise StepError(str(error)) from error
            lacks = str(error) or f"{ray.address} has not answered within {ANSWER_TIMEOUT_S:.0f} s"
            for host in addresses:
                on_state(host, lacks)
        else:
            missing = []
            for host, address in addresses.items():
                wanted, here = gpus.get(host), [member for member in members if member.node_ip == address and member.state == "ALIVE"]
                found, lack = sum(map(_gpus, here)), ""
                if not here:
                    lack = "its node has not joined yet"
                elif wanted is not None and found < wanted:
                    lack = f"{found:g} of {wanted:g} GPUs"
                on_state(host, lack or "joined")
                if lack:
                    missing.append(f"{host}: {lack}")
            if not missing:
                return sum(_gpus(member) for member in members if member.state == "ALIVE")
            lacks = "; ".join(missing)
        await asyncio.sleep(POLL_INTERVAL_S)
    raise StepError(f"cluster not complete after {JOIN_TIMEOUT_S:.0f} s: {lacks}")


async def _read_members(ray: RayClient, session: str) -> tuple[NodeEntry, ...]:
    """Return the nodes of this session. The dashboard of an earlier session may still answer for a moment."""
    if (await ray.identify()).session != session:
        raise SourceError(f"{ray.address} does not serve {session} yet: another session answers")
    return await ray.members()


def _gpus(member: NodeEntry) -> float:
    return float((member.resources_total or {}).get("GPU") or 0.0)
