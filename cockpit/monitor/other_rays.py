"""Which of the Rays that are seen on this host answer: one in a container can be seen and be out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from cockpit.model import OtherRay
from cockpit.monitor.jobs_by_session import OTHER_RAY_TIMEOUT_S
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import SourceError, within
from cockpit.trust import Audience

MAX_ASKED = 16
"""Rays asked at once: anybody can start what looks like thousands."""
MAX_ANSWER_BYTES = 64 << 10
"""Of which it is a few hundred where a Ray answers."""


async def ask_rays(rays: Iterable[OtherRay], clock: Callable[[], float], *, strangers: bool = False) -> tuple[OtherRay, ...]:
    """The same, our own first, each asked who it is; nobody is sent a token for that.

    Other users' are asked only where a person wants it (`strangers`): they listen where their owner chooses, and send what he likes.
    """
    listed = sorted(rays, key=lambda ray: (ray.owner is not None, ray.url))
    asked = [ray for ray in listed if strangers or ray.owner is None][:MAX_ASKED]
    return (*await asyncio.gather(*(_ask(ray, clock) for ray in asked)), *(ray for ray in listed if ray not in asked))


async def _ask(ray: OtherRay, clock: Callable[[], float]) -> OtherRay:
    client = RayClient(ray.url, token=lambda: None, audience=Audience(ray.url, given=False), clock=clock, max_bytes=MAX_ANSWER_BYTES)
    try:
        session = await within(OTHER_RAY_TIMEOUT_S, client.session())
        answers = session in (None, ray.session)  # an old Ray does not tell it
    except SourceError as error:
        answers = error.cause == "no token"
    except asyncio.TimeoutError:
        answers = False
    finally:
        await client.close()
    return replace(ray, answers=answers)
