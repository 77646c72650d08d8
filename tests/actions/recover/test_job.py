"""The runbook stops if the job is not submitted, if the head is unknown, or if the job shows no progress."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.plan import ActionTarget, Plan, Target, Unreached
from cockpit.actions.recover.job import JobSteps
from cockpit.actions.recover.step_state import StepError
from cockpit.actions.recover.steps import RecoverySteps
from cockpit.budget import Budget, Line
from cockpit.check.result import CheckOutcome, judge
from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.config.thresholds import Limits
from cockpit.model import Actor, Cluster, Job, Quantity, Snapshot
from cockpit.presets import JobSpec, Needs, Preset, RayNode, RayStart, SlurmStart, with_hosts
from tests.world import node, snapshot

PRESET = Preset("ppo", Path("ppo.yaml"), ray=RayStart(RayNode("head"), (RayNode("10.0.0.1"),)), job=JobSpec("python train.py"))


class FakeExecutor:
    """An executor with one plan; `called` has the name of each host."""

    def __init__(self, plan: Plan, called: dict[str, str]) -> None:
        self._plan, self._called, self.asked = plan, called, 0
        self.chosen = ActionTarget()

    async def plan(self, _: object, chosen: ActionTarget, *__: object) -> Plan:
        self.asked, self.chosen = self.asked + 1, chosen
        return self._plan

    def register_host(self, entry: HostEntry) -> str:
        return self._called[entry.name]


def quiet(*_: object) -> None:
    """Ignores all progress."""


NAMED = {"head": "login-1", "10.0.0.1": "w1"}
NOTHING = Plan("start", "Start Ray")


def job_steps(
    called: dict[str, str] = NAMED, plan: Plan = NOTHING, preset: Preset = PRESET, followed: str | None = None
) -> tuple[RecoverySteps, FakeExecutor]:
    """`followed`: the session of the answering dashboard. By default two hosts are called `login-1` and `w1`."""

    async def wait_until_complete() -> None:
        pass

    executor: Any = FakeExecutor(plan, called)
    config = Config(slurm=named_allocation("42", "n[1-2]"))
    monitor: Any = SimpleNamespace(wait_until_complete=wait_until_complete, choice=SimpleNamespace(), config=config)
    monitor.poller = SimpleNamespace(snapshot=Snapshot(cluster=Cluster("http://head:8265", session=followed)))
    return RecoverySteps(monitor, executor, preset, {}, "http://head:8265"), executor


async def test_a_refused_launch_fails_with_the_reason_and_submits_nothing():
    executor: Any = FakeExecutor(Plan("launch", "Launch", refused=(Target("job", "Ray", reason="it can never fit"),)), {})
    nobody: Any = SimpleNamespace()
    with pytest.raises(StepError, match="it can never fit"):
        await JobSteps(nobody, executor, PRESET).launch(quiet, quiet)


async def test_one_host_under_two_names_is_refused_before_it_is_asked_anything():
    runbook, executor = job_steps({"head": "login-1", "10.0.0.1": "login-1"})
    with pytest.raises(StepError, match=r"head and 10\.0\.0\.1 are the same host"):
        await runbook.survey(quiet)
    assert executor.asked == 0


async def test_each_request_contains_the_slurm_job_of_the_hosts_and_wait_fails_if_the_head_has_not_answered():
    runbook, executor = job_steps()
    await runbook.survey(quiet)
    assert {host: request["slurm"] for host, request in executor.chosen.requests.items()} == {"login-1": "42", "w1": "42"}
    with pytest.raises(StepError, match="no Ray is known to run on the head"):
        await runbook.wait(quiet, quiet)


OURS = "session_2026-11-21_01-00-00_000001_1"
ANYWHERE = with_hosts(replace(PRESET, ray=SlurmStart()), Config(slurm=named_allocation("42", "gpu[1-2]")))
CALLED = {"gpu1": "gpu1", "gpu2": "login-1"}


def head_with_ray(**more: Any) -> Target:
    rays = [{"session": OURS, "gcs": "10.0.0.1:6379", "here": True, **more}]
    return Target("host", "gpu1", part="head", facts={"gcs": "10.0.0.1:6379", "rays": rays})


async def test_the_plan_says_on_which_nodes_of_a_slurm_job_head_and_workers_run():
    runbook, _ = job_steps(CALLED, preset=ANYWHERE)
    await runbook.survey(quiet)
    assert runbook.describe_placement() == ("Slurm job 42: the head runs on gpu1, workers on login-1",)
    for workers, workers_text in ((["gpu2", "gpu3"], "workers on gpu2, gpu3"), ([], "no workers")):
        runbook.names = {name: name for name in ("gpu1", *workers)}
        assert runbook.describe_placement() == (f"Slurm job 42: the head runs on gpu1, {workers_text}",)
    named, _ = job_steps()
    await named.survey(quiet)
    assert named.describe_placement() == ()


@pytest.mark.parametrize(
    ("followed", "runs", "reason"),
    [
        (OURS, True, None),
        ("session_of_yesterday", True, "http://head:8265 answers for session_of_yesterday, which does not run on"),
        ("session_of_yesterday", False, "http://head:8265 answers for session_of_yesterday, which does not run on"),
        (None, False, "no Ray on the nodes of Slurm job 42 answers: continue with --from start, without --skip wait"),
    ],
)
async def test_yesterdays_ray_is_not_taken_for_todays(followed: str | None, runs: bool, reason: str | None):
    runbook, _ = job_steps(CALLED, Plan("start", "Start Ray", targets=(head_with_ray(),) if runs else ()), ANYWHERE, followed)
    await runbook.survey(quiet)
    found = runbook.why_not_followed()
    assert found is None if reason is None else found is not None and found.startswith(reason)


async def test_the_ray_of_another_job_on_its_nodes_is_refused_before_anything_is_planned():
    runbook, _ = job_steps(CALLED, Plan("start", "Start Ray", targets=(head_with_ray(slurm="41"),)), ANYWHERE)
    with pytest.raises(StepError, match="belongs to Slurm job 41, and is not touched"):
        await runbook.survey(quiet)


async def test_hosts_are_unreachable_if_none_answers():
    silent = Plan("start", "Start Ray", unreached=(Unreached("login-1", "login-1: no route"), Unreached("w1", "w1: no route")))
    runbook, _ = job_steps(plan=silent)
    assert await runbook.survey(quiet) == "login-1: no route; w1: no route"
    assert not runbook.has_answers


async def test_a_running_part_of_ray_is_fixed_by_the_step_stop_and_other_obstacles_by_hand():
    half = Target("host", "w1", live=True, session="session_1", reason="only a part of that Ray runs here: raylet, without gcs_server")
    for refused, begin in ((half, "stop"), (replace(half, live=False), None)):
        runbook, _ = job_steps(plan=Plan("start", "Start Ray", refused=(refused,)))
        await runbook.survey(quiet)
        with pytest.raises(StepError) as failed:
            await runbook.check_hosts(quiet, quiet)
        assert failed.value.begin == begin
        assert runbook.describe_state() == (("only some parts of Ray run on w1 (session_1)", "not started on login-1") if begin else ())


async def test_the_state_after_a_failure_names_hosts_where_ray_runs():
    runbook, _ = job_steps(plan=Plan("start", "Start Ray", targets=(replace(head_with_ray(), host="login-1"),)))
    await runbook.survey(quiet)
    assert runbook.describe_state() == (f"Ray runs on login-1 ({OURS})", "not started on w1")
    runbook.stopped.append(OURS)
    assert runbook.describe_state() == (f"stopped: {OURS}",)


class FakeMonitor:
    """Stands for the monitor: one job, its next states and its log lines."""

    def __init__(self, states: Sequence[Job], lines: Sequence[str], actors: tuple[Actor, ...] = ()) -> None:
        self._states, self._lines = [*states], lines
        self.poller: Any = SimpleNamespace(snapshot=Snapshot(actors=actors), refresh=lambda: None)

    async def jobs(self) -> tuple[Job, ...]:
        return (self._states.pop(0) if len(self._states) > 1 else self._states[0],)

    async def follow_log(self, job: str) -> AsyncIterator[Sequence[str]]:
        assert job == "ppo-1"
        yield self._lines


RUNS = Job("ppo-1", job="02000000", submission="ppo-1", status="RUNNING", preset="ppo")
RAYS = (
    "2026-11-21 21:58:44,526\tINFO job_manager.py:581 -- Runtime env is setting up.",
    "Running entrypoint for job ppo-1: python train.py",
    "2026-11-21 21:58:47,238\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.99.0.1:6379...",
)


async def followed(fake: FakeMonitor) -> str:
    executor: Any = SimpleNamespace()
    monitor: Any = fake
    return "".join(await JobSteps(monitor, executor, PRESET).follow(quiet))


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("POLL_INTERVAL_S", 0.01), ("SETTLE_S", 0.2), ("PROGRESS_TIMEOUT_S", 1.0)):
        monkeypatch.setattr(f"cockpit.actions.recover.job.{name}", seconds)


@pytest.mark.usefixtures("short_pauses")
async def test_rays_own_lines_in_a_jobs_log_are_no_progress():
    with pytest.raises(StepError, match=r"showed no progress within 1 s$"):
        await followed(FakeMonitor([RUNS], RAYS))
    assert await followed(FakeMonitor([RUNS], [*RAYS, "loading the model"])) == "job ppo-1 is RUNNING; last log line: loading the model"


@pytest.mark.usefixtures("short_pauses")
async def test_live_actors_are_progress_and_rays_own_are_not():
    trainers = tuple(Actor(str(one), "Trainer", state="ALIVE", job="02000000", needs={"GPU": 8.0}) for one in range(2))
    assert await followed(FakeMonitor([RUNS], RAYS, trainers)) == "job ppo-1 is RUNNING, 2 actors with 16 GPUs"
    with pytest.raises(StepError, match="showed no progress"):
        await followed(FakeMonitor([RUNS], RAYS, (replace(trainers[0], internal=True),)))


@pytest.mark.usefixtures("short_pauses")
async def test_a_traceback_as_first_line_is_no_progress_and_the_job_must_be_launched_again():
    message = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n" + "\n".join(RAYS)
    failed = replace(RUNS, status="FAILED", message=message)
    with pytest.raises(StepError) as error:
        await followed(FakeMonitor([RUNS, RUNS, RUNS, failed], [*RAYS, "Traceback (most recent call last):", "ValueError: no such model"]))
    assert str(error.value) == "job ppo-1 is FAILED: ValueError: no such model"
    assert error.value.begin == "launch"


@pytest.mark.usefixtures("short_pauses")
async def test_a_job_that_fails_gives_the_error_below_its_wrappers_with_what_helps_and_without_one_its_last_line():
    failed = replace(RUNS, status="FAILED", message="Job entrypoint command failed with exit code 1, last available logs:\nbye")
    log = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 7, in main',
        "ModuleNotFoundError: No module named 'verl'",
        "bye",
    ]
    with pytest.raises(StepError, match=r"job ppo-1 is FAILED: .*verl.*\(raised at a\.py:7 in main\); what to do: "):
        await followed(FakeMonitor([RUNS, RUNS, RUNS, failed], [*RAYS, *log]))
    with pytest.raises(StepError, match=r"failed with exit code 1; last log line: bye"):
        await followed(FakeMonitor([RUNS, RUNS, RUNS, failed], [*RAYS, "bye"]))


class Started:
    """A Ray that has just started: it reports its used resources at the third request."""

    def __init__(self) -> None:
        self.asked = 0
        self.config = SimpleNamespace(limits=Limits())
        self.poller = SimpleNamespace(snapshot=self._seen(None))

    def _seen(self, used: float | None) -> Snapshot:
        there = node(1, resources={"GPU": Quantity(used, 8), "CPU": Quantity(used, 16)})
        calm: dict[str, Any] = {"placement_groups": (), "actors": (), "jobs": (), "demand": (), "processes": (), "faults": ()}
        return snapshot(nodes=(there,), **calm)

    def refresh(self) -> None:
        self.asked += 1
        self.poller.snapshot = self._seen(4 if self.asked > 2 else None)

    async def wait_until_complete(self, _: float) -> None:
        """Returns at once."""


@pytest.mark.usefixtures("short_pauses")
async def test_a_check_waits_until_a_new_ray_reports_its_used_resources():
    monitor: Any = Started()
    nobody: Any = SimpleNamespace()
    wide = replace(PRESET, needs=Needs(bundles=(({"GPU": 8.0}, 1),)))
    with pytest.raises(StepError, match="ppo does not fit now"):
        await JobSteps(monitor, nobody, wide).check()
    assert monitor.asked == 3


@pytest.mark.usefixtures("short_pauses")
async def test_an_error_in_the_command_is_not_reported_as_missing_resources(monkeypatch):
    mistake = Line("never", "--reward.remote_url is missing")

    async def look(*_: Any) -> CheckOutcome:
        return judge(Budget(None, lines=(mistake,)), [mistake])

    monkeypatch.setattr("cockpit.actions.recover.job.sample_and_check", look)
    monitor: Any = Started()
    with pytest.raises(StepError, match="ppo can't run as written: --reward"):
        await JobSteps(monitor, SimpleNamespace(), PRESET).check()  # type: ignore[arg-type]
