"""Stopping and deleting jobs: the error for a job that Ray does not have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.actions.plan import ActionTarget
from cockpit.actions.table import find_action
from cockpit.model import Job, Snapshot
from cockpit.sources.source import SourceError


def context(*jobs: Job) -> Any:
    async def listed() -> tuple[Job, ...]:
        return jobs

    return SimpleNamespace(monitor=SimpleNamespace(jobs=listed), snapshot=Snapshot())


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ((Job("ppo", status="RUNNING"), Job("old", status="FAILED")), "Ray has no job nope; running: ppo"),
        ((Job("old", status="FAILED"),), "Ray has no job nope; none is running"),
    ],
)
async def test_the_error_for_an_unknown_job_names_the_running_jobs(jobs, expected):
    with pytest.raises(SourceError) as raised:
        await find_action("stop-job").plan(ActionTarget(id="nope"), context(*jobs), lambda *_: None)
    assert str(raised.value) == expected
