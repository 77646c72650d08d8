"""Which jobs each Ray on this host has: what a job has left may show nothing of its session, so that each of them must be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cockpit.model import Job, Session
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import SourceError, within
from cockpit.trust import Audience

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
