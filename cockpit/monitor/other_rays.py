"""The Rays that are seen on this host: which of them answer, as one in a container may not, and which jobs each has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from cockpit.model import Job, OtherRay, Session
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


OTHER_RAY_TIMEOUT_S = 2.0
"""How long a Ray that is not followed may take to say which jobs it has."""
Token = Callable[[], str | None]
SessionJobs = tuple[str, tuple[Job, ...]]
"""A session's name, and the jobs of its Ray."""


async def jobs_by_session(
    followed: RayClient | None, others: Sequence[Session], token: Token, clock: Callable[[], float]
) -> list[SessionJobs]:
    """Of the Ray that is followed, `None` where that is not to be asked, and of those others that answer.

    `token` is for the others. Raises `SourceError` when the followed one doesn't answer.
    """
    mine = [_read_jobs(followed)] if followed is not None else []
    answers = await asyncio.gather(*mine, *(_read_jobs_of_other(session, token, clock) for session in others))
    return [answer for answer in answers if answer is not None]


async def _read_jobs_of_other(session: Session, token: Token, clock: Callable[[], float]) -> SessionJobs | None:
    """`None` when it is silent, or says that it is another one."""
    url = session.dashboard or ""
    ray = RayClient(url, token=token, audience=Audience(url, given=False), clock=clock)
    try:
        answer = await within(OTHER_RAY_TIMEOUT_S, _read_jobs(ray))
        return answer if answer[0] == session.name else None
    except (SourceError, asyncio.TimeoutError):
        return None
    finally:
        await ray.close()


async def _read_jobs(ray: RayClient) -> SessionJobs:
    session = await ray.session()
    jobs = (await ray.read_jobs()).jobs
    if session is None or await ray.session() != session:
        raise SourceError("which session answers there is not known")
    return session, jobs
