"""A runbook runs its steps in order, reports their progress, and stops at the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.action_context import OnProgress
from cockpit.actions.plan import Plan, Receipt
from cockpit.actions.recover.runbook import Recovery, check_allocation
from cockpit.actions.recover.step_state import NAMES, Step, StepError, steps_of
from cockpit.actions.recover.steps import Lines, Show
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.demo.processes import MARK
from cockpit.presets import JobSpec, Preset, RayNode, RayStart, fill_preset
from cockpit.sources.probes.requests import Progress
from cockpit.sources.slurm import SlurmJob

TOKEN = "hf_" + "0a" * 17
PRESET = Preset("ppo", Path("ppo.yaml"), ray=RayStart(RayNode("head"), env={"HF_TOKEN": "${HF_TOKEN}"}), job=JobSpec("python train.py"))


class Scripted(Recovery):
    """A recovery whose steps only note their names or fail as given."""

    def __init__(self, fails: dict[str, Exception] | None = None, preset: Preset = PRESET, **more: Any) -> None:
        nobody: Any = SimpleNamespace(choice=SimpleNamespace())
        super().__init__(nobody, nobody, preset, fill_preset(preset, {"HF_TOKEN": TOKEN}), dashboard="http://head:8265", **more)
        self.done: list[str] = []
        self._fails = fails or {}

    def _function_of(self, name: str) -> Any:
        async def deed(on_progress: OnProgress, show: Show) -> Lines:
            show(Plan(name, name))
            show(Receipt(name, name))
            on_progress("head", Progress("half way"))
            await asyncio.sleep(0.01)
            on_progress("head", Progress(f"it wrote {TOKEN}"))
            self.done.append(name)
            if name in self._fails:
                raise self._fails[name]
            return (f"{name} with {TOKEN}",)

        return deed


def test_the_runbook_of_a_demo_does_not_touch_leftovers_of_other_rays():
    demo = replace(PRESET, ray=RayStart(RayNode("head"), env={MARK: "/tmp/cockpit-demo-x"}))
    assert {step.name for step in Scripted(preset=demo).steps if step.state == "skipped"} == {"kill-orphans", "clean"}
    assert not {step.name for step in Scripted().steps if step.state == "skipped"}


async def changes(recovery: Recovery) -> list[Step]:
    return [step async for step in recovery.run()]


def states(steps: Sequence[Step]) -> list[str]:
    return [step.state for step in steps]


async def test_the_steps_run_in_order():
    recovery = Scripted()
    seen = await changes(recovery)
    assert tuple(recovery.done) == NAMES
    assert {*states(recovery.steps)} == {"done"}
    assert recovery.failed is None
    stop = [step for step in seen if step.name == "stop"]
    assert (stop[0].state, stop[-1].state) == ("running", "done")
    assert "half way" in [step.hosts.get("head") for step in stop]
    assert stop[-1].plan == Plan("stop", "stop")


@pytest.mark.parametrize("begin", NAMES)
@pytest.mark.parametrize("preset", [PRESET, replace(PRESET, job=None)], ids=["job", "no job"])
@pytest.mark.parametrize("follow", [True, False])
async def test_no_step_before_the_first_requested_one_runs(begin, preset, follow):
    left = [step.name for step in steps_of(job=preset.job is not None, follow=follow) if NAMES.index(step.name) >= NAMES.index(begin)]
    if not left:
        with pytest.raises(StepError, match=f"no step left to run: --from {begin} and --skip leave out all of them"):
            Scripted(preset=preset, begin=begin, follow=follow)
        return
    recovery = Scripted(preset=preset, begin=begin, follow=follow)
    await changes(recovery)
    assert recovery.done == left


def test_skipping_all_steps_is_an_error():
    with pytest.raises(StepError, match="no step"):
        Scripted(skip=NAMES)


async def test_it_stops_at_the_first_step_that_fails():
    recovery = Scripted({"hosts": StepError("w1: port 6379 is taken")})
    await changes(recovery)
    assert recovery.done == ["stop", "kill-orphans", "clean", "hosts"]
    assert recovery.failed is not None
    assert (recovery.failed.name, recovery.failed.error) == ("hosts", "w1: port 6379 is taken")
    assert states(recovery.steps) == ["done"] * 3 + ["failed"] + ["waiting"] * 5


async def test_a_failed_step_keeps_its_receipts_and_names_the_step_to_repeat():
    recovery = Scripted({"start": StepError("w1: only a part of that Ray runs here", "stop"), "wait": StepError("never")})
    await changes(recovery)
    assert recovery.failed is not None
    assert (recovery.failed.go_on, recovery.failed.receipts) == ("stop", (Receipt("start", "start"),))
    assert recovery["clean"].go_on == "clean"


async def test_a_bug_is_no_failed_step():
    with pytest.raises(ZeroDivisionError):
        await changes(Scripted({"clean": ZeroDivisionError()}))


async def test_it_begins_at_the_given_step_and_skips_the_given_steps():
    recovery = Scripted(begin="start", skip=("check",))
    await changes(recovery)
    assert recovery.done == ["start", "wait", "launch", "follow"]
    assert states(recovery.steps) == ["skipped"] * 4 + ["done", "done", "skipped", "done", "done"]


async def test_without_a_job_the_last_step_is_wait():
    recovery = Scripted(preset=Preset("idle", Path("idle.yaml"), ray=RayStart(RayNode("head"))))
    assert [step.name for step in recovery.steps] == ["stop", "kill-orphans", "clean", "hosts", "start", "wait"]
    assert [step.name for step in Scripted(follow=False).steps][-1] == "launch"


def test_a_preset_without_a_cluster_cannot_be_recovered():
    with pytest.raises(StepError, match="has no `ray` section"):
        Scripted(preset=Preset("job", Path("job.yaml"), job=JobSpec("python train.py")))


@pytest.mark.parametrize(
    ("reach", "listed", "reason"),
    [
        ("SLURM_JOB_ID", None, None),
        ("--slurm", None, None),
        ("config.yaml:1", ("RUNNING", "gpu[1-3]"), None),
        ("config.yaml:1", ("RUNNING", "gpu[2-3]"), "Slurm job 42 (RUNNING) no longer has gpu1"),
        ("config.yaml:1", ("COMPLETING", "gpu[1-2]"), "Slurm job 42 (COMPLETING) no longer has gpu1, gpu2"),
    ],
)
async def test_slurm_is_asked_for_nodes_that_no_step_can_attribute_to_the_job(monkeypatch, reach, listed, reason):
    async def read_job(job: str) -> SlurmJob:
        assert (job, listed is not None) == ("42", True)
        return SlurmJob(job, job, listed[0], None, listed[1])

    monkeypatch.setattr("cockpit.actions.recover.runbook.read_job", read_job)
    start = RayStart(RayNode("gpu1"), (RayNode("gpu2"),), slurm="42")
    config = Config(slurm=named_allocation("42", "gpu[1-2]"), origins={"reach": reach})
    if reason is None:
        await check_allocation(config, start)
        return
    with pytest.raises(StepError) as failed:
        await check_allocation(config, start)
    assert str(failed.value) == reason


async def test_slurm_is_not_asked_for_hosts_that_a_preset_names(monkeypatch):
    monkeypatch.setattr("cockpit.actions.recover.runbook.read_job", None)
    await check_allocation(Config(slurm=named_allocation("42", "gpu[1-2]")), RayStart(RayNode("gpu1")))


async def test_the_presets_secrets_are_in_no_step():
    recovery = Scripted({"launch": StepError(f"Ray refused {TOKEN}")})
    assert TOKEN not in repr(await changes(recovery))
    assert recovery.failed is not None
    assert (recovery.failed.error or "").startswith("Ray refused ")


async def test_leaving_a_run_cancels_the_running_step():
    recovery = Scripted()
    steps = recovery.run()
    await anext(steps)
    await anext(steps)
    await steps.aclose()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
    assert recovery.done == [], "the running step was cancelled"
