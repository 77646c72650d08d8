"""A fake Ray with recorded answers; tests change single answers to make it lie, stall or die."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from cockpit.sources.ray.client import RayClient
from tests.fakes.transport import MockTransport

RECORDED = Path(__file__).parents[2] / "recorded"
HEAD = "1453a0517da9d921b968c0f3fa91d98fa86036de0e5aa04a6c00486f"
WORKER = "5ad512572f4c0ba5a0882c30292b3942e87ccd317dbb0f3144cc0343"


def recorded(name: str, version: str = "2.60") -> Any:
    return json.loads((RECORDED / version / f"{name}.json").read_text())


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


Answer = Any
"""An answer: JSON, a status and a text, or a function that returns one of these for a request."""


class RecordedRay:
    """`paths` has the recorded answers of `version`; `asked` collects all requests."""

    def __init__(self, version: str = "2.60", **other: str) -> None:
        names = {"nodes": "nodes", "status": "status", "actors": "actors", "placement_groups": "placement_groups", "jobs": "jobs", **other}
        self.asked: list[httpx.Request] = []
        self.paths: dict[str, Answer] = {
            "/api/version": recorded("version", version),
            "/nodes": recorded(names["nodes"], version),
            "/api/cluster_status": recorded(names["status"], version),
            "/api/v0/actors": of_state(recorded(names["actors"], version)),
            "/api/v0/placement_groups": recorded(names["placement_groups"], version),
            "/api/jobs/": recorded(names["jobs"], version),
            "/api/gcs_healthz": (200, "success"),
        }
        if version == "2.60":
            self.paths["/api/authentication_mode"] = recorded("authentication_mode")
            self.paths["/cluster_id"] = recorded("cluster_id")
            self.paths["/api/v0/nodes"] = recorded("nodes_v0_dead")
        else:
            self.paths["/api/v0/nodes"] = recorded("nodes_v0", version)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.paths.get(request.url.path, (404, "404: Not Found"))
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, tuple):
            return httpx.Response(answer[0], text=answer[1])
        return httpx.Response(200, json=answer)

    def ray(self, clock: Callable[[], float] | None = None, token: str | None = None) -> RayClient:
        made = RayClient("http://head:8265", token=lambda: token, transport=MockTransport(self), clock=clock or Clock())
        made._dashboard._clock = lambda: 0.0  # the duration of an answer depends on the machine
        return made

    def times_asked(self, path: str) -> int:
        return sum(request.url.path == path for request in self.asked)


def of_state(listing: Any) -> Callable[[httpx.Request], Any]:
    """Filter the entries as Ray's state API does."""

    def answer(request: httpx.Request) -> Any:
        state, same = request.url.params.get("filter_values"), request.url.params.get("filter_predicates") == "="
        result = listing["data"]["result"]
        kept = [actor for actor in result["result"] if state is None or (state == actor["state"]) == same]
        return {**listing, "data": {"result": {**result, "result": kept, "num_filtered": len(kept)}}}

    return answer


def listing(*entries: dict[str, Any], **counts: int) -> Any:
    """An answer of the state API."""
    number = len(entries)
    result = {"total": number, "num_after_truncation": number, "num_filtered": number, **counts, "result": list(entries)}
    return {"result": True, "msg": "", "data": {"result": result}}
