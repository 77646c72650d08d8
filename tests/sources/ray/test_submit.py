"""A job is submitted, or it is said that it was not, or that nobody knows; and no secret comes back in an error."""

from __future__ import annotations

import json

import httpx
import pytest

from cockpit.sources.ray.submit import AGAIN, KEY, LaunchOrigin, Submission, Submissions
from cockpit.sources.source import SourceError
from tests.sources.ray.job_table import JobTable, dashboard

SECRET = "not-for-anybodys-eyes"


@pytest.fixture
def table() -> JobTable:
    return JobTable()


@pytest.fixture
def submissions(table: JobTable) -> Submissions:
    return Submissions(dashboard(table))


def submission(name: str = "ppo-1", key: str = "k1", **more) -> Submission:
    env = {"env_vars": {"TOKEN": SECRET}}
    return Submission(entrypoint="python train.py", submission_id=name, runtime_env=env, metadata={KEY: key}, **more)


def hide(text: str) -> str:
    return text.replace(SECRET, "•••")


async def test_a_job_that_is_taken_is_ours_or_found_to_be_anothers(table, submissions):
    job, ours = await submissions.submit(submission(entrypoint_num_gpus=1.0, entrypoint_memory=2**30), hide)
    assert (job.id, job.status, job.key, ours) == ("ppo-1", "PENDING", "k1", True)
    sent = {name: value for name, value in table.jobs["ppo-1"].items() if name not in ("type", "status", "start_time")}
    assert sent == {
        "entrypoint": "python train.py",
        "submission_id": "ppo-1",
        "runtime_env": {"env_vars": {"TOKEN": SECRET}},
        "metadata": {KEY: "k1"},
        "entrypoint_num_gpus": 1.0,
        "entrypoint_memory": 2**30,
    }
    await submissions.submit(submission(), hide)
    job, ours = await submissions.submit(submission(key="k2"), hide)
    assert (job.key, ours) == ("k1", False)
    assert len(table.jobs) == 1


async def test_a_job_that_was_taken_though_the_answer_was_lost_is_ours(table, submissions):
    def cut(request):
        if request.method == "POST":
            table.submit(json.loads(request.content))
            raise httpx.ReadError("gone")

    table.twist = cut
    job, ours = await submissions.submit(submission(), hide)
    assert (job.key, ours) == ("k1", True)
    assert table.posts() == 1


async def test_where_nobody_knows_whether_it_was_taken_that_is_said(table, submissions):
    def cut(request):
        if request.method == "POST":
            raise httpx.ReadError("gone")

    table.twist = cut
    with pytest.raises(SourceError, match="whether Ray took the job ppo-1 is unknown"):
        await submissions.submit(submission(), hide)
    assert table.posts() == 1


@pytest.mark.parametrize("padding", range(0, 260, 20))
async def test_no_error_of_rays_repeats_a_secret_nor_the_beginning_of_one(table, submissions, padding):
    echo = f"Traceback (most recent call last):\nTypeError: {'x' * padding} env_vars are {{'ORDER': '{SECRET}'}}\n"
    table.twist = lambda request: httpx.Response(400, text=echo) if request.method == "POST" else None
    with pytest.raises(SourceError) as error:
        await submissions.submit(submission(), hide)
    assert "answered HTTP 400 (asked to start a job): TypeError: " in str(error.value)
    assert SECRET[:6] not in str(error.value)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (404, "404: Not Found", "accepts no jobs over HTTP"),
        (401, "Unauthorized", "requires a token, and none was found"),
        (
            500,
            "Traceback\nRuntimeError: No available agent to submit job, please try again later.\n",
            r"No available agent to submit job.*; logs/dashboard_agent\.log .*52365.*`ulimit -u`",
        ),
    ],
)
async def test_why_ray_takes_no_job_is_said(table, submissions, status, answer, said):
    table.twist = lambda request: httpx.Response(status, text=answer) if request.method == "POST" else None
    with pytest.raises(SourceError, match=said):
        await submissions.submit(submission(), hide)


async def test_a_package_goes_in_one_piece_of_known_length_and_tells_how_far_it_is(table, submissions):
    lengths, heard = [], []

    def watch(request):
        if request.method == "PUT":
            lengths.append((request.headers["content-length"], request.headers.get("transfer-encoding")))

    table.twist = watch
    assert not await submissions.has("_ray_pkg_1.zip")
    await submissions.upload("_ray_pkg_1.zip", iter([b"ab", b"cde"]), 5, heard.append)
    assert table.packages == {"_ray_pkg_1.zip": b"abcde"}
    assert (lengths, heard) == ([("5", None)], [2, 5])
    assert await submissions.has("_ray_pkg_1.zip")


async def test_a_package_that_something_in_between_refuses_for_its_size_is_said_so(table, submissions):
    table.twist = lambda request: httpx.Response(413, text="413: Request Entity Too Large") if request.method == "PUT" else None
    with pytest.raises(SourceError, match="refuses a package of this size"):
        await submissions.upload("_ray_pkg_1.zip", iter([b"ab"]), 2, lambda _: None)


async def test_a_look_tells_the_time_over_there_and_who_launched_what(table, submissions):
    await submissions.submit(submission(), hide)
    table.jobs["odd"] = {"submission_id": "odd", "metadata": {"cockpit_preset": 5, KEY: None}, "status": "RUNNING"}
    table.jobs["driver"] = {"type": "DRIVER", "job_id": "01000000", "status": "RUNNING"}
    look = await submissions.read()
    assert look.moment == table.now
    assert look.names == {"ppo-1", "odd"}
    assert [(job.key, job.origin, job.started) for job in look.jobs] == [
        ("k1", LaunchOrigin(AGAIN, "ppo-1"), table.now),
        (None, LaunchOrigin(AGAIN, "odd"), None),
    ]


def test_a_submission_shows_nothing_of_what_is_in_it():
    assert SECRET not in f"{submission()!r} {submission()}"
