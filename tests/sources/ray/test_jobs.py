"""Only the planned jobs are stopped and deleted, and an unknown result is reported as unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from cockpit.sources.ray import actors, jobs
from cockpit.sources.ray.http import Dashboard, NoAnswerError
from cockpit.sources.ray.jobs import JobActions
from cockpit.sources.source import NotMeantError, SourceError
from tests.fakes.transport import MockTransport
from tests.sources.ray.recorded_ray import recorded

(RUNNING,) = [job for job in recorded("jobs_driver") if job["type"] == "SUBMISSION"]
(DRIVER,) = [job for job in recorded("jobs_driver") if job["type"] == "DRIVER"]
NAME = RUNNING["submission_id"]
STARTED = RUNNING["start_time"] / 1000
OVER = {**RUNNING, "status": "STOPPED", "end_time": RUNNING["start_time"] + 5000}


class JobServer:
    """Each `GET` gets the next of the given answers and then always the last one; each write gets `written`."""

    def __init__(self, *looks: Any, written: Any = None) -> None:
        self.looks, self.written = list(looks), written
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/authentication_mode":
            return httpx.Response(200, json={"authentication_mode": "disabled"})
        self.asked.append((request.method, request.url.raw_path.decode().partition("?")[0]))
        answer = self.written if request.method != "GET" else self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer[0], text=answer[1]) if isinstance(answer, tuple) else httpx.Response(200, json=answer)

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [asked for asked in self.asked if asked[0] != "GET"]


@asynccontextmanager
async def acting(server: JobServer) -> Any:
    dashboard = Dashboard("http://head:8265", token=lambda: None, transport=MockTransport(server))
    try:
        yield JobActions(dashboard, pause=0.001)
    finally:
        await dashboard.close()


async def stop(server: JobServer, name: str = NAME, started: float | None = STARTED, **more: Any) -> jobs.Ended:
    async with acting(server) as actions:
        return await actions.stop_job(name, started, **more)


async def delete(server: JobServer, name: str = NAME, started: float | None = STARTED) -> Any:
    async with acting(server) as actions:
        return await actions.delete_job(name, started)


@pytest.mark.parametrize("depth", [100, 600, 900, 20_000])
def test_a_runtime_environment_of_any_depth_breaks_nothing(depth: int):
    found = actors._decode_environment(b'{"a":' * depth + b"1" + b"}" * depth)
    assert found is None or depth == 100


async def test_stop_waits_until_the_job_has_ended():
    server = JobServer(RUNNING, RUNNING, RUNNING, OVER, written={"stopped": True})
    ended = await stop(server)
    assert (ended.job.status, ended.job.id, ended.already) == ("STOPPED", NAME, False)
    assert ended.took > 0
    assert server.asked == [("GET", f"/api/jobs/{NAME}"), ("POST", f"/api/jobs/{NAME}/stop"), *[("GET", f"/api/jobs/{NAME}")] * 3]


async def test_a_job_that_has_ended_before_or_meanwhile_has_ended_by_itself():
    server = JobServer(OVER)
    assert (await stop(server)).already
    assert server.writes == []
    failed = {**OVER, "status": "FAILED"}
    ended = await stop(JobServer(RUNNING, failed, written={"stopped": False}))
    assert (ended.job.status, ended.already) == ("FAILED", True)


async def test_a_job_that_does_not_end_is_an_error():
    with pytest.raises(SourceError, match=r"is still RUNNING after 0.05 s$"):
        await stop(JobServer(RUNNING, written={"stopped": True}), patience=0.05)
    with pytest.raises(SourceError, match="Ray reports that there was nothing to stop"):
        await stop(JobServer(RUNNING, written={"stopped": False}), patience=0.05)


async def test_requests_without_an_answer_are_repeated_and_without_any_the_end_is_unknown():
    ended = await stop(JobServer(RUNNING, httpx.ReadError("gone"), OVER, written={"stopped": True}))
    assert ended.job.status == "STOPPED"
    with pytest.raises(SourceError, match=r"whether it stopped is unknown: .* closed the connection"):
        await stop(JobServer(RUNNING, httpx.ReadError("gone"), written={"stopped": True}), patience=0.05)


@pytest.mark.parametrize("action", [stop, delete])
@pytest.mark.parametrize(
    ("now", "why"),
    [
        ((404, "Job pg-1 does not exist"), "no longer lists job pg-1"),
        ({**OVER, "start_time": OVER["start_time"] + 1}, "now a different job"),
        ({**OVER, "start_time": None}, "now a different job"),
        ({**OVER, "submission_id": "other"}, "now a different job"),
        ({**OVER, "submission_id": None}, "was not submitted"),
    ],
)
async def test_a_job_that_is_not_the_planned_one_is_left_alone(action: Any, now: Any, why: str):
    server = JobServer(now)
    with pytest.raises(NotMeantError, match=why):
        await action(server)
    assert server.writes == []


async def test_the_process_of_a_driver_that_was_not_submitted_is_named():
    server = JobServer(DRIVER)
    with pytest.raises(NotMeantError, match=r"was not submitted to Ray.*process 17937 on 127\.0\.0\.1"):
        await stop(server, DRIVER["job_id"], DRIVER["start_time"] / 1000)
    assert server.writes == []


def hostile() -> Iterator[str]:
    yield from ("a?b", "a#b", "a/b", "a%2Fb", "..", ".", "", "a\\b", "a\nb", "a\x00", "\ud800")


@pytest.mark.parametrize("action", [stop, delete])
@pytest.mark.parametrize("name", hostile())
async def test_an_id_that_ray_may_take_for_another_is_never_sent(action: Any, name: str):
    server = JobServer({**OVER, "submission_id": name.encode("ascii", "replace").decode()})
    with pytest.raises(NotMeantError, match="may take for another"):
        await action(server, name)
    assert server.asked == []


async def test_an_id_with_other_characters_is_sent_encoded():
    name = "größe 1&x=é"
    server = JobServer({**OVER, "submission_id": name}, (404, "gone"), written={"deleted": True})
    await delete(server, name)
    assert server.writes == [("DELETE", "/api/jobs/gr%C3%B6%C3%9Fe%201%26x%3D%C3%A9")]


async def test_an_ended_job_is_deleted_and_its_absence_checked():
    server = JobServer(OVER, (404, "Job pg-1 does not exist"), written={"deleted": True})
    assert (await delete(server)).status == "STOPPED"
    assert server.asked == [("GET", f"/api/jobs/{NAME}"), ("DELETE", f"/api/jobs/{NAME}"), ("GET", f"/api/jobs/{NAME}")]


async def test_a_running_job_is_not_deleted():
    server = JobServer(RUNNING)
    with pytest.raises(NotMeantError, match=r"is not over \(RUNNING\): stop it first"):
        await delete(server)
    assert server.writes == []


async def test_a_job_that_is_still_listed_was_not_deleted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "DELETE_TIMEOUT_S", 0.05)
    with pytest.raises(SourceError, match="still lists job pg-1"):
        await delete(JobServer(OVER, written={"deleted": True}))


async def test_a_job_that_ray_stores_again_is_deleted_again():
    anew = {**OVER, "status": "FAILED", "entrypoint": "Entrypoint not found.", "start_time": None}
    server = JobServer(OVER, anew, (404, "Job pg-1 does not exist"), written={"deleted": True})
    assert (await delete(server)).status == "STOPPED"
    assert server.writes == [("DELETE", f"/api/jobs/{NAME}")] * 2


@pytest.mark.parametrize("other", [{**RUNNING, "start_time": None}, {**OVER, "start_time": RUNNING["start_time"] + 9000}])
async def test_a_new_job_with_the_deleted_id_is_left_alone(other: Any):
    server = JobServer(OVER, other, written={"deleted": True})
    with pytest.raises(SourceError, match="still lists job pg-1"):
        await delete(server)
    assert server.writes == [("DELETE", f"/api/jobs/{NAME}")]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((500, "Traceback (most recent call last):\n  in x\nRuntimeError: No available agent"), "RuntimeError: No available agent"),
        ((400, "Can only stop submission type jobs"), r"HTTP 400 \(asked to stop a job\): Can only stop submission type jobs"),
        ((404, "Job pg-1 does not exist"), "no longer lists job pg-1"),
        ((200, "<html>"), r"sent an HTML page \(asked to stop a job\)"),
    ],
)  # fmt: skip
async def test_rays_refusals_are_reported(answer: Any, why: str):
    with pytest.raises(SourceError, match=why):
        await stop(JobServer(RUNNING, written=answer))


async def test_a_write_that_breaks_off_may_have_been_done():
    with pytest.raises(NoAnswerError, match=r"closed the connection \(asked to stop a job\); whether Ray did it is unknown"):
        await stop(JobServer(RUNNING, written=httpx.ReadError("gone")))


async def test_a_dashboard_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "_WRITE_TIMEOUT_S", 0.05)
    server = JobServer(OVER)

    async def hanging(request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            await asyncio.Event().wait()
        return server(request)

    dashboard = Dashboard("http://head:8265", token=lambda: None, transport=MockTransport(hanging))
    with pytest.raises(NoAnswerError, match=r"did not answer within 0.05 s \(asked to delete a job\); whether Ray did it"):
        await JobActions(dashboard).delete_job(NAME, STARTED)
    await dashboard.close()
