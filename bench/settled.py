"""When the demo is as it is meant to be."""

from __future__ import annotations

import time
from contextlib import suppress

import httpx

from cockpit.demo import DemoCluster

WAITING_GROUPS = ["reward-model", "tp16-engine"]
WAITING_ACTORS = ["judge-0", "judge-1"]


def settle(demo: DemoCluster, within: float = 90.0) -> bool:
    """Wait until every actor that can run does, what must wait waits, and what must fail has failed."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError, KeyError, ValueError):  # a busy dashboard answers late, or with an error in plain text
            if _has_settled(demo):
                return True
        time.sleep(1)
    return False


def _has_settled(demo: DemoCluster) -> bool:
    jobs = {job["submission_id"]: job["status"] for job in _get(demo, "/api/jobs/").json()}
    groups = [group["state"] for group in _list(demo, "placement_groups")]
    waiting = sorted(actor["name"] for actor in _list(demo, "actors") if actor["state"] not in ("ALIVE", "RESTARTING", "DEAD"))
    return jobs["eval-gsm8k"] == "FAILED" and groups.count("PENDING") == len(WAITING_GROUPS) and waiting == WAITING_ACTORS


def _list(demo: DemoCluster, what: str) -> list[dict[str, str]]:
    answer = _get(demo, f"/api/v0/{what}?detail=1&limit=1000").json()
    listed: list[dict[str, str]] = answer["data"]["result"]["result"]
    return listed


def _get(demo: DemoCluster, path: str) -> httpx.Response:
    return httpx.get(demo.address + path, timeout=10, trust_env=False)
