"""A job is submitted, refused, or reported as unknown; and no secret comes back in an error."""

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


async def test_an_accepted_job_is_ours_or_another_operators(table, submissions):
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


async def test_an_accepted_job_whose_answer_was_lost_is_ours(table, submissions):
    def cut(request):
        if request.method == "POST":
            table.submit(json.loads(request.content))
            raise httpx.ReadError("gone")

    table.twist = cut
    job, ours = await submissions.submit(submission(), hide)
    assert (job.key, ours) == ("k1", True)
    assert table.posts() == 1


async def test_an_unknown_result_of_a_submission_is_reported_as_unknown(table, submissions):
    def cut(request):
        if request.method == "POST":
            raise httpx.ReadError("gone")

    table.twist = cut
    with pytest.raises(SourceError, match="whether Ray took the job ppo-1 is unknown"):
        await submissions.submit(submission(), hide)
    assert table.posts() == 1


@pytest.mark.parametrize("padding", range(0, 260, 20))
async def test_no_error_of_ray_repeats_a_secret_or_its_beginning(table, submissions, padding):
    echo = f"Traceback (most recent call last):\nTypeError: {'x' * padding} env_vars are {{'ORDER': '{SECRET}'}}\n"
    table.twist = lambda request: httpx.Response(400, text=echo) if request.method == "POST" else None
    with pytest.raises(SourceError) as error:
        await submissions.submit(submission(), hide)
    assert "answered HTTP 400 (asked to start a job): TypeError: " in str(error.value)
    assert SECRET[:6] not in str(error.value)


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
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
async def test_the_reason_for_a_refused_job_is_reported(table, submissions, status, answer, expected):
    table.twist = lambda request: httpx.Response(status, text=answer) if request.method == "POST" else None
    with pytest.raises(SourceError, match=expected):
        await submissions.submit(submission(), hide)


async def test_a_package_is_sent_in_one_piece_of_known_length_with_progress(table, submissions):
    lengths, progress = [], []

    def watch(request):
        if request.method == "PUT":
            lengths.append((request.headers["content-length"], request.headers.get("transfer-encoding")))

    table.twist = watch
    assert not await submissions.has("_ray_pkg_1.zip")
    await submissions.upload("_ray_pkg_1.zip", iter([b"ab", b"cde"]), 5, progress.append)
    assert table.packages == {"_ray_pkg_1.zip": b"abcde"}
    assert (lengths, progress) == ([("5", None)], [2, 5])
    assert await submissions.has("_ray_pkg_1.zip")


async def test_a_package_refused_for_its_size_by_a_proxy_is_reported(table, submissions):
    table.twist = lambda request: httpx.Response(413, text="413: Request Entity Too Large") if request.method == "PUT" else None
    with pytest.raises(SourceError, match="refuses a package of this size"):
        await submissions.upload("_ray_pkg_1.zip", iter([b"ab"]), 2, lambda _: None)


async def test_a_lookup_returns_rays_time_and_who_launched_which_job(table, submissions):
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


def test_the_repr_of_a_submission_shows_nothing_of_its_content():
    assert SECRET not in f"{submission()!r} {submission()}"
