"""Submits jobs that fail, and asks `cockpit status --json` why they did."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Any

from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import Facts, once

OVER = ("FAILED", "SUCCEEDED", "STOPPED")


def submit(ray: Cluster, name: str, entrypoint: str, runtime_env: Mapping[str, Any] | None = None) -> None:
    """Submit a job, even if Ray is busy."""
    body = {"entrypoint": entrypoint, "submission_id": name, **({"runtime_env": runtime_env} if runtime_env else {})}
    eventually(lambda: ray.http.post("/api/jobs/", json=body).is_success)


def reasons(ray: Cluster, names: Collection[str], within: float = 300) -> dict[str, Facts]:
    """What `cockpit status --json` says of each of these jobs, once they are over and their logs were read."""
    eventually(lambda: all(ray.job(name) in OVER for name in names), within)
    said: dict[str, Facts] = {}

    def has_read() -> bool:
        jobs = {job["id"]: job for job in once(ray.head)[1].get("jobs") or ()}
        said.update({name: jobs[name] for name in names if name in jobs})
        return all((said.get(name, {}).get("failure") or {}).get("file") for name in names)

    # A log without an error is never read: then what Ray's message shows counts.
    with contextlib.suppress(AssertionError):
        eventually(has_read, 40, every=1.0)
    return said


def forget(ray: Cluster, names: Collection[str]) -> None:
    """Delete these jobs, so that those of the next test are the newest ones."""
    for name in names:
        ray.http.delete(f"/api/jobs/{name}")
