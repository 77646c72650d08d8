"""The plan of a launch contains no secrets, and a job is submitted once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from cockpit.actions.audit import brief
from cockpit.actions.launch import launch
from cockpit.actions.launch.launch import Launches
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.plan_text import plan_lines, receipt_lines
from cockpit.actions.table import find_action
from cockpit.model import Cluster, Snapshot
from cockpit.presets import Preset, read_preset
from cockpit.sources.source import NotMeantError
from tests.sources.ray.job_table import NOW, JobTable, Operator, dashboard
from tests.world import node, snapshot

SECRET = "not-for-anybodys-eyes-1b2c"
TEXT = """
job:
  entrypoint: python train.py --key ${WANDB_API_KEY}
  working_dir: .
  env: {WANDB_API_KEY: "${WANDB_API_KEY}", MODE: fast}
  submission_id: "{name}-{time}"
  metadata: {team: rl}
"""


@pytest.fixture
def table() -> JobTable:
    return JobTable()


@pytest.fixture
def preset(tmp_path: Path, monkeypatch) -> Preset:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text("print(1)")
    return written(tmp_path, TEXT)


def written(tmp_path: Path, text: str) -> Preset:
    path = tmp_path / "job" / "ppo.yaml"
    path.write_text(text)
    return read_preset(path)


def operator(table: JobTable, snapshot: Snapshot | None = None) -> Launches:
    return Launches(Operator(dashboard(table), snapshot))  # type: ignore[arg-type]


async def test_a_presets_secrets_are_not_sent_to_an_untrusted_dashboard(table, preset):
    who = Operator(dashboard(table))
    who.doubt = "what listens on port 8265 of this host belongs to user 666"
    with pytest.raises(NotMeantError, match=r"nothing is sent to the Ray at .*: what listens on port 8265 .* user 666"):
        await plan(Launches(who), preset)  # type: ignore[arg-type]


async def plan(one: Launches, preset: Preset, *, force: bool = False) -> Plan:
    return await one.plan(find_action("launch"), ActionTarget(rows=(preset,), force=force))


async def launched(table: JobTable, preset: Preset, **how: Any) -> Receipt:
    one = operator(table)
    return await one.perform(await plan(one, preset, **how))


def started(table: JobTable, name: str, status: str = "RUNNING", ago: float = 3600.0, preset: str | None = "ppo") -> None:
    marks = {"cockpit_preset": preset, "cockpit_user": "ana@head"} if preset else {}
    table.jobs[name] = {"submission_id": name, "status": status, "start_time": (table.now - ago) * 1000, "metadata": marks}


def overtake(table: JobTable, metadata: dict[str, str], *, always: bool = False) -> None:
    """Another operator submits a job with the same id and this metadata just before our submission arrives."""

    def twist(request: httpx.Request) -> None:
        if request.method == "POST" and (always or not table.jobs):
            table.submit({**json.loads(request.content), "metadata": metadata})

    table.twist = twist


async def test_a_plan_shows_the_submission_and_changes_nothing(table, preset):
    made = await plan(operator(table), preset)
    text = "\n".join(plan_lines(made, NOW))
    assert made.targets[0].id == "ppo-20261121-1848"
    assert "the job's id contains the minute of its launch; if launched now: ppo-20261121-1848" in text
    assert "python train.py --key ${WANDB_API_KEY}" in text
    assert "2 files" in text
    assert "largest: ppo.yaml" in text
    assert made.word is None
    assert {method for method, _ in table.asked} == {"GET"}


async def test_the_submission_is_the_preset_with_its_secrets_and_marks(table, preset):
    receipt = await launched(table, preset)
    (job,) = table.jobs.values()
    (package,) = table.packages
    assert job["entrypoint"] == f"python train.py --key {SECRET}"
    assert job["runtime_env"] == {"env_vars": {"WANDB_API_KEY": SECRET, "MODE": "fast"}, "working_dir": f"gcs://{package}"}
    assert (job["metadata"]["team"], job["metadata"]["cockpit_preset"]) == ("rl", "ppo")
    assert "@" in job["metadata"]["cockpit_user"]
    assert receipt.done[0].id == "ppo-20261121-1848"
    assert (receipt.done[0].outcome or "").startswith("submitted; ")


async def test_no_secret_is_shown(table, preset):
    one = operator(table)
    made = await plan(one, preset)
    receipt = await one.perform(made)
    seen = [*plan_lines(made, NOW), *receipt_lines(receipt), repr(made), repr(receipt), repr(one._ready)]
    seen += [json.dumps([brief(target, "launch", {}) for target in (*made.targets, *receipt.done)]), msgspec.json.encode(made).decode()]
    assert not [text for text in seen if SECRET in text]


async def test_a_package_that_is_there_is_not_sent_again(table, preset):
    await launched(table, preset)
    table.asked.clear()
    receipt = await launched(table, preset, force=True)
    assert "was already uploaded" in (receipt.done[0].outcome or "")
    assert not [path for method, path in table.asked if method == "PUT"]


async def test_a_folder_that_ray_fetches_itself_is_passed_on(table, preset, tmp_path):
    preset = written(tmp_path, "job: {entrypoint: python a.py, working_dir: 's3://bucket/code.zip'}")
    await launched(table, preset)
    (job,) = table.jobs.values()
    assert job["runtime_env"] == {"working_dir": "s3://bucket/code.zip"}
    assert table.packages == {}


async def test_local_files_of_a_runtime_env_are_read_here(table, preset, tmp_path):
    (tmp_path / "job" / "needs.txt").write_text("vllm==0.9\n\nray\n")
    (tmp_path / "job" / "env.yaml").write_text("dependencies: [pip]\n")
    preset = written(
        tmp_path, "job: {entrypoint: python a.py, runtime_env: {pip: needs.txt, conda: env.yaml, config: {eager_install: true}}}"
    )
    await launched(table, preset)
    (job,) = table.jobs.values()
    assert job["runtime_env"] == {"pip": ["vllm==0.9", "ray"], "conda": {"dependencies": ["pip"]}, "config": {"eager_install": True}}
    preset = written(tmp_path, "job: {entrypoint: python a.py, runtime_env: {py_modules: [./lib]}}")
    with pytest.raises(NotMeantError, match="is on this host"):
        await plan(operator(table), preset)


@pytest.mark.parametrize(
    ("status", "ago", "asks"), [("RUNNING", 9000, True), ("PENDING", 9000, True), ("FAILED", 3, True), ("FAILED", 30, False)]
)
async def test_a_second_launch_needs_the_name_of_the_preset(table, preset, status, ago, asks):
    started(table, "ppo-1", status, ago)
    made = await plan(operator(table), preset)
    assert made.word == ("ppo" if asks else None)
    assert bool([note for note in made.notes if f"job ppo-1 of this preset is {status}" in note and "by ana@head" in note]) is asks
    assert (await plan(operator(table), preset, force=True)).word is None


async def test_jobs_of_other_presets_are_no_reason_to_ask(table, preset):
    started(table, "grpo-1", preset="grpo")
    started(table, "by-hand", preset=None)
    assert (await plan(operator(table), preset)).word is None


async def test_nothing_is_submitted_if_another_job_was_launched_after_the_plan(table, preset):
    one = operator(table)
    made = await plan(one, preset)
    started(table, "ppo-other", "PENDING", 1)
    receipt = await one.perform(made)
    assert "job ppo-other of this preset is PENDING, launched 1s ago by ana@head" in (receipt.refused[0].reason or "")
    assert list(table.jobs) == ["ppo-other"]


async def test_the_same_plan_twice_is_one_job(table, preset):
    one = operator(table)
    made = await plan(one, preset)
    first, second = await one.perform(made), await one.perform(made)
    assert len(table.jobs) == 1
    assert "by this plan" in (second.done[0].outcome or "")
    assert first.done[0].id == second.done[0].id


async def test_two_operators_in_the_same_moment_launch_one_job(table, preset):
    people = [operator(table) for _ in range(5)]
    plans = [await plan(one, preset) for one in people]
    look, looked, all_have = launch.Submissions.read, [], asyncio.Event()

    async def together(self):
        seen = await look(self)
        looked.append(seen)
        if len(looked) == 5:
            all_have.set()
        await all_have.wait()  # no one submits before all have seen that no job exists
        return seen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch.Submissions, "read", together)
        receipts = await asyncio.gather(*(one.perform(made) for one, made in zip(people, plans, strict=True)))
    assert list(table.jobs) == ["ppo-20261121-1848"]
    assert table.posts() == 5
    outcomes = [receipt.done[0].outcome or "" for receipt in receipts if receipt.done]
    assert sum(outcome.startswith("submitted") for outcome in outcomes) == 1


async def test_a_launch_at_the_end_of_a_minute_waits_and_lists_the_jobs_again(table, preset, monkeypatch):
    one = operator(table)
    table.now = NOW + 25  # 18:48:57
    made = await plan(one, preset)
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        table.now += seconds
        started(table, "ppo-20261121-1848", "PENDING", seconds)

    monkeypatch.setattr(launch.asyncio, "sleep", sleep)
    receipt = await one.perform(made)
    assert slept == [3.0]
    assert "job ppo-20261121-1848 of this preset is PENDING" in (receipt.refused[0].reason or "")


async def test_another_version_of_the_preset_launched_at_the_same_moment_is_not_this_job(table, preset):
    overtake(table, {"cockpit_preset": "ppo", "cockpit_content": "other", "cockpit_user": "ana@head"})
    receipt = await launched(table, preset)
    assert "ana@head launched another version of ppo at the same moment" in (receipt.refused[0].reason or "")
    assert len(table.jobs) == 1


async def test_the_next_id_is_used_if_another_job_has_taken_the_first(table, preset):
    overtake(table, {})
    assert (await launched(table, preset)).done[0].id == "ppo-20261121-1848-2"


async def test_a_dashboard_with_every_id_taken_is_an_error(table, preset):
    overtake(table, {}, always=True)
    receipt = await launched(table, preset)
    assert "ids for this job are taken" in (receipt.refused[0].reason or "")
    assert len(table.jobs) == launch.MAX_TAKEN_IDS


async def test_a_dashboard_whose_minute_never_ends_is_an_error(table, preset, monkeypatch):
    monkeypatch.setattr(launch, "MINUTE_END_GUARD_S", launch.MINUTE_S)
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(launch.asyncio, "sleep", sleep)
    receipt = await launched(table, preset)
    assert "the clock of Ray's dashboard does not advance" in (receipt.refused[0].reason or "")
    assert len(waited) == launch.MAX_LAST_LOOKS


async def test_a_second_job_is_reported_after_a_slow_submission(table, preset, monkeypatch):
    monkeypatch.setattr(launch, "MINUTE_END_GUARD_S", -1.0)
    table.twist = lambda request: started(table, "ppo-20261121-1847", "PENDING", 2) if request.method == "POST" else None
    receipt = await launched(table, preset)
    assert len(receipt.done) == 1
    assert "stop one of the two" in receipt.notes[0]


async def test_a_plan_that_another_has_replaced_is_not_performed(table, preset):
    one = operator(table)
    old = await plan(one, preset)
    await plan(one, preset)
    assert "a later plan" in ((await one.perform(old)).refused[0].reason or "")
    assert table.jobs == {}


async def test_the_plan_says_that_the_preset_has_changed_since_the_last_launch(table, preset, tmp_path):
    await launched(table, preset)
    assert not [note for note in (await plan(operator(table), preset)).notes if "has changed since" in note]
    (tmp_path / "job" / "train.py").write_text("print(2)")
    assert [note for note in (await plan(operator(table), preset)).notes if "has changed since" in note]


async def test_a_variable_that_is_not_set_a_folder_that_is_too_large_and_a_preset_without_a_job_are_refused(
    table, preset, tmp_path, monkeypatch
):
    with (tmp_path / "job" / "model.bin").open("wb") as file:
        file.truncate(200 * 2**20)
    with pytest.raises(NotMeantError, match=r"/model\.bin` in "):
        await plan(operator(table), preset)
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(NotMeantError, match=r"\$\{WANDB_API_KEY\} is not set"):
        await plan(operator(table), preset)
    with pytest.raises(NotMeantError, match="nothing to launch"):
        await plan(operator(table), written(tmp_path, "ray: {head: head}"))
    assert {method for method, _ in table.asked} <= {"GET"}


async def test_a_job_that_can_never_fit_is_refused_without_force(table, preset, tmp_path):
    preset = written(tmp_path, "job: {entrypoint: sleep 1, entrypoint_num_gpus: 64}")
    here = replace(snapshot(), cluster=Cluster(reachable=True), nodes=(node(1), node(2)))
    made = await plan(operator(table, here), preset)
    assert made.empty
    assert "ppo can never fit here: " in (made.refused[0].reason or "")
    assert "64" in (made.refused[0].reason or "")
    made = await plan(operator(table, here), preset, force=True)
    assert [target.what for target in made.targets] == ["job"]
    assert "ppo can never fit here" in made.notes[0]


async def test_a_refusal_by_ray_is_a_failure_in_a_sentence(table, preset):
    table.twist = lambda request: httpx.Response(500, text=f"Traceback\nRuntimeError: no {SECRET}") if request.method == "POST" else None
    receipt = await launched(table, preset)
    assert (receipt.failed[0].error or "").endswith("answered HTTP 500 (asked to start a job): RuntimeError: no •••")


async def test_a_cancelled_plan_does_not_wait_for_its_packing(table, preset, tmp_path):
    for number in range(3000):
        (tmp_path / "job" / f"{number}.txt").write_text("x")
    task = asyncio.create_task(plan(operator(table), preset))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
