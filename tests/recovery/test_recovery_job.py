"""What the runbook makes of a job that Ray is not given, and of a head that nobody knows anything of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.actions.plan import Plan, Target
from cockpit.presets import JobSpec, Preset, RayNode, RayStart
from cockpit.reach import HostEntry
from cockpit.recovery.deeds import Deeds
from cockpit.recovery.job import JobSteps
from cockpit.recovery.step import StepError

PRESET = Preset("ppo", Path("ppo.yaml"), ray=RayStart(RayNode("head"), (RayNode("10.0.0.1"),)), job=JobSpec("python train.py"))


class Door:
    """Stands where the door does: it has one plan, and knows each host by the name of `called`."""

    def __init__(self, plan: Plan, called: dict[str, str]) -> None:
        self._plan, self._called, self.asked = plan, called, 0

    async def plan(self, *_: object) -> Plan:
        self.asked += 1
        return self._plan

    def meet(self, entry: HostEntry) -> str:
        return self._called[entry.name]


def quiet(*_: object) -> None:
    """Nobody listens."""


def deeds(called: dict[str, str], plan: Plan) -> tuple[Deeds, Door]:
    async def known() -> None:
        pass

    door: Any = Door(plan, called)
    lookout: Any = SimpleNamespace(known=known)
    return Deeds(lookout, door, PRESET, {}, "http://head:8265"), door


async def test_a_launch_that_is_refused_says_why_and_submits_nothing():
    door: Any = Door(Plan("launch", "Launch", refused=(Target("job", "Ray", reason="it can never fit"),)), {})
    nobody: Any = SimpleNamespace()
    with pytest.raises(StepError, match="it can never fit"):
        await JobSteps(nobody, door, PRESET).launch(quiet, quiet)


async def test_one_host_under_two_names_is_refused_before_it_is_asked_anything():
    runbook, door = deeds({"head": "login-1", "10.0.0.1": "login-1"}, Plan("start", "Start Ray"))
    with pytest.raises(StepError, match=r"head and 10\.0\.0\.1 are the same host"):
        await runbook.survey(quiet)
    assert door.asked == 0


async def test_a_head_that_has_said_nothing_is_not_waited_for():
    runbook, _ = deeds({"head": "login-1", "10.0.0.1": "w1"}, Plan("start", "Start Ray"))
    await runbook.survey(quiet)
    with pytest.raises(StepError, match="no Ray is known to run on the head"):
        await runbook.wait(quiet, quiet)
