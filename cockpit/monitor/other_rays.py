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


async def ask_rays(rays: Iterable[OtherRay], clock: Callable[[], float]) -> tuple[OtherRay, ...]:
    """The same, each asked who it is; nobody is sent a token for that."""
    return tuple(await asyncio.gather(*(_ask(ray, clock) for ray in rays)))


async def _ask(ray: OtherRay, clock: Callable[[], float]) -> OtherRay:
    client = RayClient(ray.url, token=lambda: None, audience=Audience(ray.url, given=False), clock=clock)
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
