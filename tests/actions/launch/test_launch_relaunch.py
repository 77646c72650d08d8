"""A job without a preset is launched again as Ray recorded it, once, and its secrets are never shown."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from cockpit.actions.audit import brief
from cockpit.actions.launch.launch import Launches
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.plan_text import plan_lines, receipt_lines
from cockpit.actions.table import find_action
from cockpit.model import Cluster, Job
from cockpit.sources.source import NotMeantError
from tests.sources.ray.job_table import NOW, JobTable, Operator, dashboard
from tests.world import node, snapshot

SECRET = "not-for-anybodys-eyes-1b2c"
URI = "gcs://_ray_pkg_0123456789abcdef.zip"
ENTRYPOINT = f"python train.py --wandb_token {SECRET} --out ${{HOME}}/x --pids $${{1}} --note '{SECRET[:3]}'"
ENV: dict[str, Any] = {"env_vars": {"WANDB_API_KEY": SECRET, "PATH": "${PATH}:/x"}, "pip": ["wandb"], "_ray_commit": "abc"}
JOB = Job("by-hand", submission="by-hand", status="FAILED", started=NOW - 600)


@pytest.fixture
def table() -> JobTable:
    table = JobTable()
    add_job(table)
    return table


def add_job(table: JobTable, **more: Any) -> None:
    record = {"submission_id": "by-hand", "type": "SUBMISSION", "status": "FAILED", "start_time": int((NOW - 600) * 1000)}
    about = {"entrypoint": ENTRYPOINT, "runtime_env": ENV, "metadata": {"team": "rl", "job_submission_id": "by-hand"}}
    table.jobs["by-hand"] = {**record, **about, **more}


def operator(table: JobTable) -> Launches:
    return Launches(Operator(dashboard(table)))  # type: ignore[arg-type]


async def plan(one: Launches, job: Job = JOB) -> Plan:
    return await one.plan(find_action("launch-again"), ActionTarget(rows=(job,)))


async def launched(table: JobTable, job: Job = JOB) -> Receipt:
    one = operator(table)
    return await one.perform(await plan(one, job))


def known(table: JobTable, name: str) -> Job:
    return Job(name, submission=name, status=table.jobs[name]["status"], started=table.jobs[name]["start_time"] / 1000)


async def test_it_is_submitted_unchanged_and_marked_with_its_origin(table):
    receipt = await launched(table)
    made = table.jobs["by-hand-20261121-1848"]
    assert receipt.done[0].id == "by-hand-20261121-1848"
    assert made["entrypoint"] == ENTRYPOINT
    assert made["runtime_env"] == {key: value for key, value in ENV.items() if key != "_ray_commit"}
    assert (made["metadata"]["team"], made["metadata"]["cockpit_again"]) == ("rl", "by-hand")
    assert not {"cockpit_preset", "cockpit_file", "job_submission_id"} & made["metadata"].keys()


async def test_no_secret_of_it_is_shown(table):
    one = operator(table)
    made = await plan(one)
    receipt = await one.perform(made)
    seen = [*plan_lines(made, NOW), *receipt_lines(receipt), repr(made), repr(receipt), repr(one._ready)]
    seen += [json.dumps([brief(target, "launch", {}) for target in (*made.targets, *receipt.done)]), msgspec.json.encode(made).decode()]
    assert "--wandb_token •••" in "\n".join(seen)
    assert not [text for text in seen if SECRET in text]
    assert table.jobs["by-hand-20261121-1848"]["runtime_env"]["env_vars"]["WANDB_API_KEY"] == SECRET


async def test_rays_refusal_contains_no_secret(table):
    table.twist = lambda request: httpx.Response(400, text=f"TypeError: {ENV}") if request.method == "POST" else None
    receipt = await launched(table)
    assert "TypeError" in (receipt.failed[0].error or "")
    assert SECRET not in repr(receipt)


async def test_its_command_gets_the_same_resources_as_before(table):
    table.supervisors["by-hand"] = {"state": "DEAD", "required_resources": {"GPU": 1, "memory": 2 * 2**30, "disk": 0.5}}
    made = await plan(operator(table))
    await launched(table)
    job = table.jobs["by-hand-20261121-1848"]
    assert (job["entrypoint_num_gpus"], job["entrypoint_memory"], job["entrypoint_resources"]) == (1, 2 * 2**30, {"disk": 0.5})
    assert not [note for note in made.notes if "reserved" in note]


async def test_the_required_labels_are_noted_unless_ray_chose_the_node(table):
    table.supervisors["by-hand"] = {"state": "DEAD", "label_selector": {"ray.io/node-id": "d2d48f36"}}
    assert not [note for note in (await plan(operator(table))).notes if "ran on a node" in note]
    table.supervisors["by-hand"]["label_selector"] = {"gpu": "h100"}
    assert "it ran on a node with gpu=h100; now it may run on any node" in (await plan(operator(table))).notes


@pytest.mark.parametrize("twist", [None, httpx.Response(500, text="no state API")])
async def test_the_plan_says_if_ray_no_longer_knows_the_reserved_resources(table, twist):
    table.twist = lambda request: twist if request.url.path == "/api/v0/actors" else None
    (note,) = [note for note in (await plan(operator(table))).notes if "reserved" in note]
    assert "this time nothing is reserved" in note


async def test_the_second_plan_of_the_same_job_sees_the_first_and_asks_for_its_name(table):
    assert (await plan(operator(table))).word is None
    await launched(table)
    again = await plan(operator(table))
    assert again.word == "by-hand"
    assert "job by-hand-20261121-1848 (by-hand launched again) is PENDING, launched 0s ago" in again.notes[0]


async def test_a_relaunch_of_a_relaunch_names_the_first_job(table):
    await launched(table)
    table.jobs["by-hand-20261121-1848"]["status"] = "FAILED"
    table.now += 120
    receipt = await launched(table, known(table, "by-hand-20261121-1848"))
    assert receipt.done[0].id == "by-hand-20261121-1850"
    assert table.jobs["by-hand-20261121-1850"]["metadata"]["cockpit_again"] == "by-hand"
    assert not [note for note in receipt.notes if "is not what it was" in note]
    assert (await plan(operator(table))).word == "by-hand"


async def test_a_job_needs_its_name_if_it_still_runs_and_not_if_it_failed_at_once(table):
    add_job(table, start_time=int((NOW - 2) * 1000))
    assert (await plan(operator(table), known(table, "by-hand"))).word is None
    add_job(table, status="RUNNING")
    made = await plan(operator(table), known(table, "by-hand"))
    assert made.word == "by-hand"
    assert "job by-hand is RUNNING, launched 10m00s ago" in made.notes[0]


async def test_a_job_that_has_run_but_seems_never_to_fit_needs_its_name(table):
    add_job(table, entrypoint="python -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 64")
    here = replace(snapshot(), cluster=Cluster(reachable=True), nodes=(node(1),))
    one = Launches(Operator(dashboard(table), here))  # type: ignore[arg-type]
    made = await plan(one)
    assert (made.word, [target.id for target in made.targets]) == ("by-hand", ["by-hand-20261121-1848"])
    assert "by-hand can never fit here" in made.notes[0]


async def test_two_operators_and_a_double_press_make_one_job(table):
    people = [operator(table) for _ in range(3)]
    plans = [(one, await plan(one)) for one in people]
    receipts = await asyncio.gather(*(one.perform(made) for one, made in (*plans, plans[0])))
    assert sorted(table.jobs) == ["by-hand", "by-hand-20261121-1848"]
    assert {receipt.done[0].id for receipt in receipts if receipt.done} == {"by-hand-20261121-1848"}


async def test_its_uploaded_folder_is_used_again_while_ray_has_it(table):
    add_job(table, runtime_env={"working_dir": URI, "py_modules": [URI]})
    with pytest.raises(NotMeantError, match=rf"no longer has the folder.*\({URI}\).*set its working_dir"):
        await plan(operator(table))
    table.packages[URI.removeprefix("gcs://")] = b""
    one = operator(table)
    made = await plan(one)
    assert [note for note in made.notes if URI in note and "which Ray still has" in note]
    table.packages.clear()
    assert "no longer has" in ((await one.perform(made)).refused[0].reason or "")
    table.packages[URI.removeprefix("gcs://")] = b""
    await one.perform(made)
    assert table.jobs["by-hand-20261121-1848"]["runtime_env"] == {"working_dir": URI, "py_modules": [URI]}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"runtime_env": {"env_vars": {"WANDB_API_KEY": "<redacted>"}}}, "hides the value of WANDB_API_KEY"),
        ({"runtime_env": {"working_dir": "/home/ana/ppo"}}, "a folder that Ray can't fetch"),
        ({"start_time": int(NOW * 1000)}, "its id was reused"),
        ({"entrypoint": ""}, "does not report the entrypoint of job by-hand"),
    ],
)
async def test_a_job_that_cannot_be_reproduced_is_refused(table, facts, expected):
    add_job(table, **facts)
    with pytest.raises(NotMeantError, match=expected):
        await plan(operator(table))
    assert list(table.jobs) == ["by-hand"]
    table.jobs.clear()
    with pytest.raises(NotMeantError, match="no longer lists job by-hand"):
        await plan(operator(table))
    with pytest.raises(NotMeantError, match="not submitted to Ray"):
        await plan(operator(table), Job("01000000", job="01000000", status="FAILED"))


async def test_an_id_that_is_too_long_or_odd_leaves_room_for_the_time(table):
    name = "äx " + "y" * 100
    table.jobs[name] = {**table.jobs["by-hand"], "submission_id": name}
    receipt = await launched(table, known(table, name))
    assert receipt.done[0].id == f"x-{'y' * 77}-20261121-1848"


async def test_metadata_of_a_job_never_becomes_a_word_that_cannot_be_typed(table):
    add_job(table, metadata={"cockpit_again": " \u202e"})
    await launched(table)
    assert (await plan(operator(table))).word == "job"
