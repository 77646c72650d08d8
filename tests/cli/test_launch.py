"""Tests `cockpit launch`: its exit codes and messages, and that the job runs on when nobody follows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from cockpit.cli import launch
from cockpit.config.settings import Config
from cockpit.model import Job, Snapshot
from cockpit.presets import Preset, read_preset
from tests.cli.programs import cockpit
from tests.world import actor

pytestmark = pytest.mark.process

SECRET = "not-for-anybodys-eyes-1b2c"


@pytest.fixture
def preset(tmp_path: Path, monkeypatch) -> Preset:
    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    (tmp_path / "ppo.yaml").write_text('job: {entrypoint: python a.py, env: {SECRET_TOKEN: "${SECRET_TOKEN}"}}')
    return read_preset(tmp_path / "ppo.yaml")


class ClusterMonitor:
    """A monitor of a job with this log, which goes through these states."""

    def __init__(self, lines: list[str], *states: Job) -> None:
        self.lines, self.states, self.gate = lines, list(states), asyncio.Event()
        self.gate.set()

    async def follow_log(self, job: str, lines: int):
        await self.gate.wait()
        yield self.lines

    async def jobs(self) -> tuple[Job, ...]:
        return (self.states.pop(0) if len(self.states) > 1 else self.states[0],)


async def followed(monitor: ClusterMonitor, preset: Preset) -> int:
    return await launch.follow(Config(), monitor, "ppo-1", preset)


def job(status: str, **more) -> Job:
    return Job("ppo-1", status=status, **more)


async def test_a_job_that_succeeds_ends_with_0_and_its_log_shows_no_secret(preset, capsys, monkeypatch):
    monkeypatch.setattr(launch.asyncio, "sleep", lambda _: _soon())
    code = await followed(ClusterMonitor(["step 1", f"login with {SECRET}"], job("RUNNING"), job("SUCCEEDED")), preset)
    out, said = capsys.readouterr()
    assert (code, out) == (0, "step 1\nlogin with •••\n")
    assert "job ppo-1 SUCCEEDED" in said


_sleep = asyncio.sleep


async def _soon() -> None:
    await _sleep(0.001)


async def test_a_job_that_never_began_shows_the_reason_and_no_secret(preset, capsys):
    message = f"runtime_env setup failed:\nTOKEN={SECRET}\nno such package: vlm"
    code = await followed(ClusterMonitor([], job("FAILED", message=message)), preset)
    _, said = capsys.readouterr()
    assert code == 1
    assert "no such package: vlm" in said
    assert "job ppo-1 FAILED" in said
    assert SECRET not in said


async def test_a_failed_job_gives_the_error_in_its_log_last(preset, capsys):
    log = ["Traceback (most recent call last):", f"ValueError: bad key {SECRET}", "shutting down"]
    code = await followed(ClusterMonitor(log, job("FAILED", message="failed with exit code 1")), preset)
    *_, reason, last = capsys.readouterr().err.strip().splitlines()
    assert code == 1
    assert reason.strip().startswith("reason: ValueError: bad key ")
    assert SECRET not in reason
    assert "job ppo-1 FAILED" in last


def test_of_a_traceback_only_the_lines_around_its_frames_are_printed():
    trace = "Traceback (most recent call last):\n  File a\n    child = x\nFileNotFoundError: conda\nDuring handling …\n"
    message = f"runtime_env setup failed: it could not be made.\n[Node 10.0.0.1] {trace}{trace.replace('[', '')}ValueError: no conda here\n"
    assert launch.failure_lines(message) == [
        "runtime_env setup failed: it could not be made.",
        "FileNotFoundError: conda",
        "During handling …",
        "ValueError: no conda here",
    ]
    assert launch.failure_lines("exit code 3\nlast lines:\n  x") == ["exit code 3", "last lines:", "  x"]
    assert launch.failure_lines("") == []


async def test_the_reason_for_a_pending_job_is_printed(preset, capsys, monkeypatch):
    monkeypatch.setattr(launch, "PENDING_GRACE_S", 0.0)

    supervisor = actor(1, name="_ray_internal_job_actor_ppo-1", why="8 GPUs are reserved by holds1")

    async def sample_once(config):
        return SimpleNamespace(poller=SimpleNamespace(snapshot=Snapshot(actors=(supervisor,))))

    monkeypatch.setattr(launch, "sample_once", sample_once)
    monitor = ClusterMonitor([], job("PENDING"), job("SUCCEEDED"))
    monitor.gate.clear()
    task = asyncio.create_task(followed(monitor, preset))
    while "is PENDING: 8 GPUs are reserved by holds1" not in (said := capsys.readouterr().err):
        await _sleep(0.01)
        assert not task.done(), said
    monitor.gate.set()
    assert await task == 0


async def test_a_stopped_follow_says_that_the_job_keeps_running(preset, capsys):
    monitor = ClusterMonitor([], job("RUNNING"))
    monitor.gate.clear()
    task = asyncio.create_task(followed(monitor, preset))
    await _soon()
    task.cancel()
    assert await task == 1
    assert "job ppo-1 keeps running. Log: cockpit logs -f ppo-1. Stop: cockpit stop-job ppo-1" in capsys.readouterr().err


def test_a_mistake_in_a_preset_is_bad_usage(tmp_path):
    (tmp_path / "ppo.yaml").write_text("job: {entrypont: python a.py}")
    ended = cockpit("launch", str(tmp_path / "ppo.yaml"), "--yes")
    assert ended.returncode == 3
    assert "ppo.yaml:1: job.entrypont" in ended.stderr


def test_an_unreachable_dashboard_is_reported(preset):
    ended = cockpit("launch", str(preset.path), "--yes", "--address", "http://127.0.0.1:9")
    assert ended.returncode == 3
    assert "127.0.0.1:9 can't be reached" in ended.stderr
