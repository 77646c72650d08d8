"""A started cluster is complete when every host's node has joined it with all its GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from cockpit.actions.recover import arrival
from cockpit.actions.recover.arrival import wait_for_all
from cockpit.actions.recover.step_state import StepError
from cockpit.sources.ray.client import RayClient
from tests.fakes.transport import MockTransport

SESSION = "session_2026-11-21_01-17-58_164160_11638"
Looks = list[list[dict[str, Any]]]


def node(ip: str, gpus: float, state: str = "ALIVE") -> dict[str, Any]:
    return {"node_id": ip.replace(".", "a") * 4, "node_ip": ip, "state": state, "resources_total": {"GPU": gpus, "CPU": 8.0}}


def dashboard(looks: Looks, session: str = SESSION, status: int = 200) -> Callable[[httpx.Request], httpx.Response]:
    """The lists of its answers, in order; the last one is repeated."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/api/authentication_mode":
            return httpx.Response(200, json={"authentication_mode": "token" if status != 200 else "disabled"})
        if status != 200:
            return httpx.Response(status, text="Unauthorized: Missing authentication token")
        if path == "/api/version":
            return httpx.Response(200, json={"version": "4", "ray_version": "2.60.0", "ray_commit": "", "session_name": session})
        if path == "/cluster_id":
            return httpx.Response(200, json={"result": True, "msg": "", "data": {"clusterId": "ab" * 28}})
        listed = looks.pop(0) if len(looks) > 1 else looks[0]
        result = {"total": len(listed), "num_after_truncation": len(listed), "num_filtered": len(listed), "result": listed}
        return httpx.Response(200, text=json.dumps({"result": True, "msg": "", "data": {"result": result}}))

    return answer


async def await_cluster(handle: Callable[[httpx.Request], httpx.Response], gpus: dict[str, float | None]) -> tuple[float, list[str]]:
    progress: list[str] = []
    ray = RayClient("http://head:8265", token=lambda: None, transport=MockTransport(handle))
    addresses = {"head": "10.0.0.1", "w1": "10.0.0.2"}
    try:
        return await wait_for_all(ray, SESSION, gpus, addresses, lambda host, text: progress.append(f"{host}: {text}")), progress
    finally:
        await ray.close()


async def test_the_cluster_is_complete_when_all_nodes_have_joined_with_all_their_gpus():
    looks = [[node("10.0.0.1", 8)], [node("10.0.0.1", 8), node("10.0.0.2", 7)], [node("10.0.0.1", 8), node("10.0.0.2", 8)]]
    found, progress = await await_cluster(dashboard(looks), {"head": 8.0, "w1": 8.0})
    assert found == 16
    assert [line for line in progress if line.startswith("w1")] == ["w1: its node has not joined yet", "w1: 7 of 8 GPUs", "w1: joined"]


async def test_a_dead_node_of_the_same_host_does_not_count():
    looks = [[node("10.0.0.1", 8), node("10.0.0.2", 8, "DEAD")], [node("10.0.0.1", 8), node("10.0.0.2", 8, "DEAD"), node("10.0.0.2", 8)]]
    found, progress = await await_cluster(dashboard(looks), {"head": 8.0, "w1": None})
    assert found == 16
    assert "w1: its node has not joined yet" in progress


async def test_another_session_at_the_same_address_does_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrival, "JOIN_TIMEOUT_S", 0.6)
    looks = [[node("10.0.0.1", 8), node("10.0.0.2", 8)]]
    with pytest.raises(StepError, match="does not serve session_"):
        await await_cluster(dashboard(looks, "session_2026-11-20_01-17-58_164160_1"), {"head": 8.0, "w1": 8.0})


async def test_the_missing_gpus_are_in_the_error_after_the_timeout(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrival, "JOIN_TIMEOUT_S", 0.6)
    with pytest.raises(StepError, match=r"cluster not complete after 1 s: w1: 4 of 8 GPUs"):
        await await_cluster(dashboard([[node("10.0.0.1", 8), node("10.0.0.2", 4)]]), {"head": 8.0, "w1": 8.0})


async def test_a_token_that_is_missing_is_not_waited_for():
    with pytest.raises(StepError, match="token"):
        await await_cluster(dashboard([[]], status=401), {"head": 8.0, "w1": 8.0})
