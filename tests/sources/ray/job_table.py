"""A fake Ray that accepts jobs and packages like a real one: each id once, packages below a size, errors as tracebacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx

from cockpit.config.settings import Config
from cockpit.model import SUPERVISOR, Snapshot
from cockpit.sources.ray.http import Dashboard
from cockpit.sources.ray.jobs import JobActions
from tests.fakes.transport import MockTransport

NOW = 1_795_286_912.0
"""2026-11-21 18:48:32 UTC."""
TAKEN = """Traceback (most recent call last):
  File "job_head.py", line 419, in submit_job
    resp = await job_agent_client.submit_job_internal(submit_request)
RuntimeError: Request failed with status code 400: Traceback (most recent call last):
  File "job_agent.py", line 45, in submit_job
    submission_id = await self.get_job_manager().submit_job(
ValueError: Job with submission_id {} already exists. Please use a different submission_id.
.
"""
"""The message of Ray 2.60, shortened in the middle."""


class JobTable:
    """`jobs` by id, `packages` by name, `supervisors` by job id, all requests in `asked`. `twist` may answer instead."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.packages: dict[str, bytes] = {}
        self.supervisors: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.now = NOW
        self.twist: Callable[[httpx.Request], httpx.Response | None] = lambda _: None

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/api/authentication_mode":
            return httpx.Response(200, json={"authentication_mode": "disabled"})
        self.asked.append((request.method, path))
        answer = self.twist(request) or self._answer(request, path, await request.aread())
        answer.headers["Date"] = formatdate(self.now, usegmt=True)
        return answer

    def _answer(self, request: httpx.Request, path: str, body: bytes) -> httpx.Response:
        method, name = request.method, path.rpartition("/")[2]
        if name == "actors":
            return self.listed(request.url.params["filter_values"])
        if path.startswith("/api/packages/"):
            if method == "PUT":
                self.packages[name] = body
            return httpx.Response(200 if name in self.packages else 404, text="" if name in self.packages else "does not exist")
        if method == "POST":
            return self.submit(json.loads(body))
        if not name:
            return httpx.Response(200, json=[*self.jobs.values()])
        return httpx.Response(200, json=self.jobs[name]) if name in self.jobs else httpx.Response(404, text=f"Job {name} does not exist")

    def submit(self, body: dict[str, Any]) -> httpx.Response:
        name = body["submission_id"]
        if name in self.jobs:
            return httpx.Response(500, text=TAKEN.format(name))
        record = {"type": "SUBMISSION", "status": "PENDING", "start_time": int(self.now * 1000)}
        self.jobs[name] = {**body, **record}
        return httpx.Response(200, json={"job_id": name, "submission_id": name})

    def listed(self, name: str) -> httpx.Response:
        actors = [{"actor_id": "a1", "name": name, **facts} for job, facts in self.supervisors.items() if name == f"{SUPERVISOR}{job}"]
        return httpx.Response(200, json={"result": True, "msg": "", "data": {"result": {"result": actors, "total": len(actors)}}})

    def posts(self) -> int:
        return sum(method == "POST" for method, _ in self.asked)


def dashboard(table: JobTable) -> Dashboard:
    return Dashboard("http://head:8265", token=lambda: None, transport=MockTransport(table))


class Known:
    """The facts about the cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot


class Operator:
    """The parts of a monitor that a launch needs."""

    config = Config()

    def __init__(self, dashboard: Dashboard, snapshot: Snapshot | None = None) -> None:
        self.actions, self.poller, self.choice = JobActions(dashboard), Known(snapshot or Snapshot()), self

    async def wait_until_complete(self, patience: float) -> None:
        pass

    def followed_ray(self) -> Operator:
        return self

    def job_actions(self) -> JobActions:
        return self.actions

    def why_not_trusted(self) -> str | None:
        return self.doubt

    doubt: str | None = None
    """The reason why no secret may be sent."""
