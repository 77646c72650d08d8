"""The demo cluster shows its jobs and faults, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from bench.settled import settle
from cockpit.demo import DemoCluster, DemoError, cluster, demo_cluster, nvml, processes, run_demo

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the demo needs Ray: pip install 'ray[default]'"),
    pytest.mark.process,
]


def until(look: Callable[[], bool], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not look():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoCluster]:
    with demo_cluster() as running:
        assert settle(running, 150), "the demo did not settle"
        yield running
    assert not processes.find_marked(str(running.folder))
    assert not running.folder.exists()


def ask(demo: DemoCluster, path: str) -> list[dict]:
    answer = httpx.get(demo.address + path, timeout=60, trust_env=False).json()
    if isinstance(answer, list):
        return answer
    return answer["data"]["summary"] if "summary" in answer["data"] else answer["data"]["result"]["result"]


def test_two_nodes_of_eight_gpus_on_the_loopback_alone(demo: DemoCluster):
    def told() -> bool:
        return all(node.get("gpus") for node in ask(demo, "/nodes?view=summary&nocache=1"))

    until(told)
    nodes = ask(demo, "/nodes?view=summary&nocache=1")
    assert {node["raylet"]["nodeName"]: len(node["gpus"]) for node in nodes} == {"head": 8, "w1": 8}
    assert len({gpu["uuid"] for node in nodes for gpu in node["gpus"]}) == 16
    mine = {process.pid for process in processes.find_marked(str(demo.folder))}
    listening = [each.laddr.ip for each in psutil.net_connections("tcp") if each.pid in mine and each.status == psutil.CONN_LISTEN]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_its_jobs_run_wait_fail_and_succeed(demo: DemoCluster):
    jobs = {job["submission_id"]: job for job in ask(demo, "/api/jobs/")}
    assert {name: job["status"] for name, job in jobs.items()} == {
        "prepare-data": "SUCCEEDED",
        "eval-gsm8k": "FAILED",
        "ppo-7b": "RUNNING",
        "rm-72b": "RUNNING",
    }
    assert "ActorDiedError" in jobs["eval-gsm8k"]["message"]


def test_the_training_run_has_its_models(demo: DemoCluster):
    alive = [actor["class_name"] for actor in ask(demo, "/api/v0/actors?detail=1&limit=1000") if actor["state"] == "ALIVE"]
    models = ("PolicyModelActor", "ReferenceModelActor", "CriticModelActor", "RewardModelActor", "LLMRayActor")
    assert {model: alive.count(model) for model in models} == dict(zip(models, (4, 4, 2, 2, 4), strict=True))


def test_an_engine_of_the_failed_job_still_holds_gpu_memory(demo: DemoCluster):
    held = "".join((demo.folder / f"{node}.nvml").read_text() for node in ("head", "w1"))
    engines = [process for process in processes.find_marked(str(demo.folder)) if _title(process.pid) == "VLLM::EngineCore"]
    orphans = [engine for engine in engines if not (engine.parent() and "ray::" in " ".join(engine.parent().cmdline()))]
    assert len(engines) == 5
    assert [bool(re.search(rf"^proc \d {orphan.pid} {int(21.4 * (1 << 30))} ", held, re.MULTILINE)) for orphan in orphans] == [True]


def _title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")


def test_there_is_a_session_of_a_ray_that_ended_long_ago(demo: DemoCluster):
    sessions = [path for path in demo.session.parent.glob("session_2*") if path.stat().st_mtime < time.time() - 20 * 86400]
    assert [bool(list(session.rglob("model.pt"))) for session in sessions] == [True]


def test_its_environment_points_to_the_demo(demo: DemoCluster):
    assert demo.env["RAY_API_SERVER_ADDRESS"] == demo.address
    assert demo.env[nvml.STATE] == str(demo.folder / "head.nvml")


def folders() -> set[Path]:
    return set(Path("/tmp").glob("cockpit-demo-*"))


HOLD = [sys.executable, "-m", "tests.demo.hold"]


def test_nothing_remains_after_its_end(demo: DemoCluster):
    with subprocess.Popen(HOLD, stdin=-1, stdout=-1, stderr=-1, text=True) as program:
        assert program.stdout
        lines = [program.stdout.readline() for _ in range(4)]
        folder = next(Path(line.split("=", 1)[1].strip()).parent for line in lines if nvml.STATE in line)
        assert processes.find_marked(str(folder))
        program.send_signal(signal.SIGHUP)
        assert program.wait(60) == 128 + signal.SIGHUP
    assert not processes.find_marked(str(folder))
    assert not folder.exists()
    assert processes.find_marked(str(demo.folder)), "it took another demo along"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_remains_of_an_interrupted_start(demo: DemoCluster, end: signal.Signals):
    before = folders()
    with subprocess.Popen(HOLD, stdin=-1, stdout=-1, stderr=-1) as program:
        until(lambda: any(processes.find_marked(str(folder)) for folder in folders() - before))
        started = folders() - before
        program.send_signal(end)
        program.wait(60)
    until(lambda: not any(folder.exists() or processes.find_marked(str(folder)) for folder in started), 60)


def test_a_start_that_fails_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    before = folders()
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    assert run_demo(lambda address: 0) == 3
    assert "Ray did not start" in capfd.readouterr().err
    assert folders() == before


def test_the_screen_opens_in_an_environment_that_points_to_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    @contextmanager
    def ready(hear: Callable[[str], None]) -> Iterator[DemoCluster]:
        hear("starting Ray")
        yield DemoCluster("http://127.0.0.1:1", {nvml.STATE: "/gpus"}, tmp_path, tmp_path)

    monkeypatch.setattr(cluster, "demo_cluster", ready)
    opened: list[tuple[str, str]] = []

    def open_screen(address: str) -> int:
        opened.append((address, os.environ[nvml.STATE]))
        return 7

    assert run_demo(open_screen) == 7, "the screen's own exit code"
    assert opened == [("http://127.0.0.1:1", "/gpus")]
    assert "demo: starting Ray\n" in capfd.readouterr().err, "each step is said while it begins"
    assert nvml.STATE not in os.environ


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DemoError, match=r"pip install 'ray\[default\]'"):
        cluster.require_ray()


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(nvml, "build", _no_compiler)
    with pytest.raises(DemoError, match="no C compiler"):
        cluster.make_gpus(tmp_path)


def _no_compiler(cache: Path) -> Path:
    raise nvml.CompilerError("no C compiler")


def test_a_socket_of_ray_fits_below_the_folder():
    longest = "/ray/session_2026-11-21_08-12-15_508719_4194304/sockets/dash_MetricsHead"
    with tempfile.TemporaryDirectory(prefix="cockpit-demo-", dir=cluster.TEMP) as folder:
        assert len(folder + longest) <= 107
