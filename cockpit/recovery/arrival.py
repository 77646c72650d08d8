"""Waits until every node of a cluster that was just started has joined it with all its GPUs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from cockpit.recovery.step import StepError
from cockpit.sources.ray import Ray
from cockpit.sources.source import SourceError, within
from cockpit.sources.wire import Identity

LIMIT: Final = 120.0
"""Seconds: a dashboard takes ten on a busy host, and an agent as long."""
EVERY: Final = 0.25
ANSWER: Final = 8.0
"""Seconds that one question gets."""


class Arrival:
    """One cluster that is on its way."""

    def __init__(self, ray: Ray, session: str, gpus: Mapping[str, float | None], addresses: Mapping[str, str]) -> None:
        """`gpus` and `addresses` by host: how many its node is to offer, and where it is."""
        self._ray, self._session, self._gpus, self._addresses = ray, session, gpus, addresses

    async def whole(self, tell: Callable[[str, str], None]) -> float:
        """How many GPUs there are in the end. Raises `StepError` when it isn't whole in time."""
        try:
            return await self._whole(tell)
        finally:
            await self._ray.close()

    async def _whole(self, tell: Callable[[str, str], None]) -> float:
        until, lacks = time.monotonic() + LIMIT, "it has not been asked"
        while time.monotonic() < until:
            try:
                members = await within(ANSWER, self._members())
            except (SourceError, asyncio.TimeoutError) as error:
                if isinstance(error, SourceError) and error.cause in ("no token", "wrong token"):
                    raise StepError(str(error)) from error
                lacks = str(error) or f"{self._ray.address} has not answered within {ANSWER:.0f} s"
                for host in self._addresses:
                    tell(host, lacks)
            else:
                there = {host: self._state(host, members) for host in self._addresses}
                for host, text in there.items():
                    tell(host, text or "there")
                missing = [f"{host}: {text}" for host, text in there.items() if text]
                if not missing:
                    return sum(_gpus(member) for member in members if member.state == "ALIVE")
                lacks = "; ".join(missing)
            await asyncio.sleep(EVERY)
        raise StepError(f"not whole within {LIMIT:.0f} s: {lacks}")

    async def _members(self) -> tuple[Identity, ...]:
        """Of this session alone: one that was there before may still answer for a moment."""
        if (await self._ray.identify()).session != self._session:
            raise SourceError(f"{self._ray.address} speaks for another session than {self._session}")
        return await self._ray.members()

    def _state(self, host: str, members: tuple[Identity, ...]) -> str | None:
        """What is still missing of it, or `None`."""
        mine = [member for member in members if member.node_ip == self._addresses[host] and member.state == "ALIVE"]
        wanted = self._gpus.get(host)
        if not mine:
            return "its node has not joined yet"
        found = sum(map(_gpus, mine))
        return f"{found:g} of {wanted:g} GPUs" if wanted is not None and found < wanted else None


def _gpus(member: Identity) -> float:
    return float((member.resources_total or {}).get("GPU") or 0.0)
