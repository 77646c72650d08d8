"""The half of Ray's job API that starts something: a package is uploaded, a job submitted. Built only where cockpit may act.

Ray takes a submission_id once, atomically (one put into its table that overwrites nothing: job_manager.py, 2.9 to 2.60). So a job that
was refused may be there all the same: it is always looked for, and known by the key in its metadata.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from cockpit.model import SUPERVISOR, Actor, Value
from cockpit.sources.http_client import Params
from cockpit.sources.lenient_json import decode
from cockpit.sources.ray import actors, wire
from cockpit.sources.ray.http import Dashboard, DashboardRefusedError, Hide, NoAnswerError
from cockpit.sources.source import SourceError

CONTENT, USER, FILE, KEY = "cockpit_content", "cockpit_user", "cockpit_file", "cockpit_key"
"""In a job's metadata: what it was made of, by whom, from which file of which host, and from which plan."""
AGAIN = "cockpit_again"
"""In the metadata of a job that was made of another one: the id of the first of them, which no cockpit has launched."""
SLOWEST_BYTES_PER_S = 256 * 1024
"""Bytes a second below which an upload is given up."""
_WRITE_TIMEOUT_S, _READ_TIMEOUT_S, _READ_TRIES = 20.0, 8.0, 3
_PACKAGE_TIMEOUT_S = 30.0
_LOOK_FIRST = "look for it among the jobs before you launch again"
_RUNNING = ("PENDING", "RUNNING")


class Submission(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Ray is sent. Secrets are in it: it is never drawn, logged or kept."""

    entrypoint: str
    submission_id: str
    runtime_env: Mapping[str, Any] = {}
    metadata: Mapping[str, str] = {}
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: Mapping[str, float] | None = None

    def __repr__(self) -> str:
        return f"Submission({self.submission_id!r})"


class Before(msgspec.Struct, frozen=True):
    """A job as it was submitted, as far as Ray tells. Secrets are in it: it is never drawn, logged or kept."""

    id: str
    started: float | None
    entrypoint: str
    runtime_env: Mapping[str, Any]
    metadata: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Before({self.id!r})"


class LaunchOrigin(Value, frozen=True):
    """What a job was launched from: a preset, or another job."""

    mark: str
    """Under which its metadata tells so: `PRESET` or `AGAIN`."""
    name: str

    def __str__(self) -> str:
        return self.name


class ListedSubmission(Value, frozen=True):
    """One submission that Ray lists, by what its launch has written into it."""

    id: str
    status: str
    origin: LaunchOrigin
    """Itself, where it was launched from nothing that is known."""
    started: float | None = None
    content: str | None = None
    user: str | None = None
    key: str | None = None

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.status in _RUNNING

    @property
    def first(self) -> bool:
        """Whether it is the one that others are made of."""
        return self.origin == LaunchOrigin(AGAIN, self.id)


class SubmissionList(Value, frozen=True):
    """All submissions, and when that was, by the clock over there."""

    jobs: tuple[ListedSubmission, ...]
    moment: float | None

    @property
    def names(self) -> frozenset[str]:
        """The ids that are taken."""
        return frozenset(job.id for job in self.jobs)


class Submissions:
    """What may be submitted, to one dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    async def look(self) -> SubmissionList:
        """What is there now. Raises `SourceError`."""
        entries = await self._dashboard.json("/api/jobs/", tuple[wire.Job, ...], timeout=_READ_TIMEOUT_S)
        return SubmissionList(tuple(filter(None, map(_listed, entries))), self._dashboard.server_time)

    async def before(self, name: str) -> Before | None:
        """What was submitted under this id; `None`: Ray knows it no more. Raises `SourceError`."""
        entry = await self.entry(name)
        if entry is None or entry.submission_id is None:
            return None
        env = decode(bytes(entry.runtime_env), Any)
        return Before(
            id=entry.submission_id,
            started=_started_at(entry),
            entrypoint=entry.entrypoint or "",
            runtime_env=env if isinstance(env, dict) else {},
            metadata=entry.texts,
        )

    async def supervisor(self, name: str) -> Actor | None:
        """What runs, or ran, a job's command: it holds what the command was given. `None`: Ray remembers none. Raises `SourceError`."""
        asked: Params = {"filter_keys": "name", "filter_predicates": "=", "filter_values": f"{SUPERVISOR}{name}", "limit": 10, "detail": 1}
        told = await self._dashboard.data("/api/v0/actors", wire.Listed[wire.Actor], timeout=_READ_TIMEOUT_S, params=asked)
        return next((actors.parse_actor(entry, None, {}) for entry in told.result.result), None)

    async def has(self, name: str) -> bool:
        """Whether a package is there already; if so, Ray keeps it for some minutes. Raises `SourceError`."""
        try:
            await self._dashboard.get(f"/api/packages/gcs/{name}", timeout=_PACKAGE_TIMEOUT_S, endpoint="/api/packages/{name}")
        except DashboardRefusedError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def upload(self, name: str, pieces: Iterator[bytes], length: int, hear: Callable[[int], None]) -> None:
        """Into Ray's own memory. Raises `SourceError`."""
        try:
            await self._dashboard.put(
                f"/api/packages/gcs/{name}", _count_sent(pieces, hear), length, timeout=_PACKAGE_TIMEOUT_S + length / SLOWEST_BYTES_PER_S
            )
        except DashboardRefusedError as error:
            if error.status == 413:
                raise SourceError(
                    f"{self._dashboard.shown} refuses a package of this size (HTTP 413): a proxy in front of it may have a lower limit"
                ) from None
            raise

    async def submit(self, submission: Submission, hide: Hide) -> tuple[ListedSubmission, bool]:
        """The job as Ray lists it, and whether it is ours: else somebody else's has that id. Raises `SourceError`."""
        trouble = await self._post(submission, hide)
        for _ in range(_READ_TRIES):
            try:
                job = await self._find(submission.submission_id)
            except NoAnswerError as error:
                trouble = trouble or error
                continue
            if job is not None:
                return job, job.key == submission.metadata.get(KEY)
            break
        if isinstance(trouble, NoAnswerError):
            raise NoAnswerError(f"{trouble}; whether Ray took the job {submission.submission_id} is unknown: {_LOOK_FIRST}")
        raise trouble or SourceError(f"Ray accepted the job {submission.submission_id}, but does not list it")

    async def _post(self, submission: Submission, hide: Hide) -> SourceError | None:
        """What was said against it."""
        body = msgspec.json.encode(submission)
        try:
            await self._dashboard.write("POST", "/api/jobs/", wire.Snake, timeout=_WRITE_TIMEOUT_S, content=body, hide=hide)
        except DashboardRefusedError as error:
            return _explain(error)
        except SourceError as error:
            return error
        return None

    async def _find(self, name: str) -> ListedSubmission | None:
        entry = await self.entry(name)
        return None if entry is None else _listed(entry)

    async def entry(self, name: str, timeout: float = _READ_TIMEOUT_S) -> wire.Job | None:
        """As Ray lists it; `None`: it knows it no more. Raises `SourceError`."""
        return await self._dashboard.find(job_path(name), wire.Job, timeout=timeout, endpoint="/api/jobs/{id}")


def job_path(name: str) -> str:
    """Where Ray's job API has a job."""
    return f"/api/jobs/{quote(name, safe='')}"


_NO_AGENT = "No available agent to submit job"
NO_AGENT_CAUSES = (
    "logs/dashboard_agent.log of the Ray session on each node shows why its agent accepts no job: another process or Ray session "
    "uses its port (52365; `--dashboard-agent-listen-port` of `ray start`), or a limit on processes was reached (`ulimit -u`)"
)
"""An agent whose HTTP port is taken lives on without it (ray-project/ray, pull request 51869)."""


def _explain(error: DashboardRefusedError) -> SourceError:
    """What Ray means, where it is known."""
    if error.status in (404, 405):
        return SourceError(f"{error}: this Ray accepts no jobs over HTTP (needs Ray 1.9 or later with ray[default])")
    if _NO_AGENT in str(error):
        return SourceError(f"{error}; {NO_AGENT_CAUSES}")
    return error


def _listed(entry: wire.Job) -> ListedSubmission | None:
    """`None`: a driver that connected by itself."""
    if entry.submission_id is None:
        return None
    preset = entry.get_text(wire.PRESET)
    again = LaunchOrigin(AGAIN, entry.get_text(AGAIN) or entry.submission_id)
    return ListedSubmission(
        id=entry.submission_id,
        status=entry.status or "",
        origin=again if preset is None else LaunchOrigin(wire.PRESET, preset),
        started=_started_at(entry),
        content=entry.get_text(CONTENT),
        user=entry.get_text(USER),
        key=entry.get_text(KEY),
    )


def _started_at(entry: wire.Job) -> float | None:
    return entry.start_time / 1000 if entry.start_time else None


async def _count_sent(pieces: Iterator[bytes], hear: Callable[[int], None]) -> AsyncIterator[bytes]:
    sent = 0
    for piece in pieces:
        yield piece
        sent += len(piece)
        hear(sent)
