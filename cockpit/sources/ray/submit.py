"""Uploads packages and submits jobs through Ray's job API. Not built with `--readonly`.

Ray accepts a submission_id once, atomically (job_manager.py, 2.9 to 2.60: a put into its table that never overwrites). Even after an error,
the job may exist: it is always looked up, and recognized by the key in its metadata.
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
"""Keys in a job's metadata: its content, its user, the file and host of its preset, and its plan."""
AGAIN = "cockpit_again"
"""A key in the metadata of a job that was launched again: the id of the first job, which cockpit did not launch."""
SLOWEST_BYTES_PER_S = 256 * 1024
"""The bytes per second of the slowest upload that is not aborted."""
_WRITE_TIMEOUT_S, _READ_TIMEOUT_S, _READ_TRIES = 20.0, 8.0, 3
_PACKAGE_TIMEOUT_S = 30.0
_LOOK_FIRST = "look for it among the jobs before you launch again"
_RUNNING = ("PENDING", "RUNNING")


class Submission(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request for a new job. It contains secrets: it is never drawn, logged or kept."""

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
    """An earlier job as Ray lists it. It contains secrets: it is never drawn, logged or kept."""

    id: str
    started: float | None
    entrypoint: str
    runtime_env: Mapping[str, Any]
    metadata: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Before({self.id!r})"


class LaunchOrigin(Value, frozen=True):
    """The preset or the job that a job was launched from."""

    mark: str
    """Its key in the metadata: `PRESET` or `AGAIN`."""
    name: str

    def __str__(self) -> str:
        return self.name


class ListedSubmission(Value, frozen=True):
    """One submission that Ray lists, with the metadata that cockpit has added."""

    id: str
    status: str
    origin: LaunchOrigin
    """The job itself if nothing is known."""
    started: float | None = None
    content: str | None = None
    user: str | None = None
    key: str | None = None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status in _RUNNING

    @property
    def first(self) -> bool:
        """Whether it was not launched from another job or a preset."""
        return self.origin == LaunchOrigin(AGAIN, self.id)


class SubmissionList(Value, frozen=True):
    """All submissions, and the time by the clock of the dashboard."""

    jobs: tuple[ListedSubmission, ...]
    moment: float | None

    @property
    def names(self) -> frozenset[str]:
        """The ids that are in use."""
        return frozenset(job.id for job in self.jobs)


class Submissions:
    """The submissions of one dashboard. Its methods raise `SourceError`."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    async def read(self) -> SubmissionList:
        """All submissions now."""
        entries = await self._dashboard.json("/api/jobs/", tuple[wire.Job, ...], timeout=_READ_TIMEOUT_S)
        return SubmissionList(tuple(filter(None, map(_listed, entries))), self._dashboard.server_time)

    async def before(self, name: str) -> Before | None:
        """The job that was submitted under this id; `None` if Ray no longer lists it."""
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
        """The actor that runs or ran a job's command, and has its environment; `None` if Ray no longer lists it."""
        params: Params = {"filter_keys": "name", "filter_predicates": "=", "filter_values": f"{SUPERVISOR}{name}", "limit": 10, "detail": 1}
        data = await self._dashboard.data("/api/v0/actors", wire.Listed[wire.Actor], timeout=_READ_TIMEOUT_S, params=params)
        return next((actors.parse_actor(entry, None, {}) for entry in data.result.result), None)

    async def has(self, name: str) -> bool:
        """Whether Ray has a package already; if so, Ray keeps it for some minutes."""
        try:
            await self._dashboard.get(f"/api/packages/gcs/{name}", timeout=_PACKAGE_TIMEOUT_S, endpoint="/api/packages/{name}")
        except DashboardRefusedError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def upload(self, name: str, parts: Iterator[bytes], length: int, on_sent: Callable[[int], None]) -> None:
        """Upload a package to the GCS; `on_sent` gets the number of bytes sent so far."""

        async def send() -> AsyncIterator[bytes]:
            sent = 0
            for part in parts:
                yield part
                sent += len(part)
                on_sent(sent)

        timeout = _PACKAGE_TIMEOUT_S + length / SLOWEST_BYTES_PER_S
        try:
            await self._dashboard.put(f"/api/packages/gcs/{name}", send(), length, timeout=timeout)
        except DashboardRefusedError as error:
            if error.status == 413:
                raise SourceError(
                    f"{self._dashboard.shown} refuses a package of this size (HTTP 413): a proxy in front of it may have a lower limit"
                ) from None
            raise

    async def submit(self, submission: Submission, hide: Hide) -> tuple[ListedSubmission, bool]:
        """Submit a job. Returns the job as Ray lists it, and whether it is ours: another job may have the id."""
        body, failure = msgspec.json.encode(submission), None
        try:
            await self._dashboard.write("POST", "/api/jobs/", wire.Snake, timeout=_WRITE_TIMEOUT_S, content=body, hide=hide)
        except DashboardRefusedError as error:
            failure = _explain(error)
        except SourceError as error:
            failure = error
        for _ in range(_READ_TRIES):
            try:
                entry = await self.entry(submission.submission_id)
            except NoAnswerError as error:
                failure = failure or error
                continue
            if entry is not None and (job := _listed(entry)) is not None:
                return job, job.key == submission.metadata.get(KEY)
            break
        if isinstance(failure, NoAnswerError):
            raise NoAnswerError(f"{failure}; whether Ray took the job {submission.submission_id} is unknown: {_LOOK_FIRST}")
        raise failure or SourceError(f"Ray accepted the job {submission.submission_id}, but does not list it")

    async def entry(self, name: str, timeout: float = _READ_TIMEOUT_S) -> wire.Job | None:
        """The job as Ray lists it; `None` if it does not."""
        return await self._dashboard.find(job_path(name), wire.Job, timeout=timeout, endpoint="/api/jobs/{id}")


def job_path(name: str) -> str:
    """The path of a job in Ray's job API."""
    return f"/api/jobs/{quote(name, safe='')}"


NO_AGENT_CAUSES = (
    "logs/dashboard_agent.log of the Ray session on each node shows why its agent accepts no job: another process or Ray session "
    "uses its port (52365; `--dashboard-agent-listen-port` of `ray start`), or a limit on processes was reached (`ulimit -u`)"
)
"""An agent without its HTTP port keeps running (ray-project/ray, pull request 51869)."""


def _explain(error: DashboardRefusedError) -> SourceError:
    """The error with its cause, if the cause is known."""
    if error.status in (404, 405):
        return SourceError(f"{error}: this Ray accepts no jobs over HTTP (needs Ray 1.9 or later with ray[default])")
    return SourceError(f"{error}; {NO_AGENT_CAUSES}") if "No available agent to submit job" in str(error) else error


def _listed(entry: wire.Job) -> ListedSubmission | None:
    """Convert one job; `None` for a driver that was not submitted."""
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
