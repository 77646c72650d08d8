"""NCCL's report about jobs of a real Ray: from the command to the port of a worker, and back to the actor, its GPU and its title."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.demo import DemoCluster, cluster, demo_cluster

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'ray[default]'"),
    pytest.mark.lab,
    pytest.mark.incident,
]
JOB = Path(__file__).with_name("nccl_job.py")
NEW, OLD = "2.29.7", "2.27.5"
SECOND = r"rank 2 \(WorkerDict rank2, (head|w1) GPU 2, pid \d+\)"


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoCluster]:
    """A Ray with a hanging job of each NCCL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "JOBS", {})
        with demo_cluster() as running:
            for version in (NEW, OLD):
                (running.folder / version).mkdir()
                with socket.create_server(("127.0.0.1", 0)) as server:
                    port = server.getsockname()[1]
                running.submit(f"job-{version}", f"{sys.executable} {JOB} {running.folder / version} {port} {version}")
                deadline = time.monotonic() + 120
                while not (running.folder / version / "ready").exists():
                    assert time.monotonic() < deadline, "the job has not begun"
                    time.sleep(0.2)
            yield running


def ask(demo: DemoCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("cockpit")), "nccl", *words, "--address", demo.address]
    return subprocess.run(command, env={**os.environ, **demo.env}, capture_output=True, text=True, timeout=120, check=False)


def asked(demo: DemoCluster, *words: str) -> list[str]:
    """The lines once Ray's agents and the probe have seen the job's processes and their actors."""
    deadline = time.monotonic() + 60
    while (ended := ask(demo, *words)).returncode == 3 or "(ray::" in ended.stdout:
        assert time.monotonic() < deadline, ended.stdout + ended.stderr
    return [*ended.stdout.splitlines(), *ended.stderr.splitlines()]


def test_the_rank_that_is_behind_is_named_by_its_actor_and_gpu(demo: DemoCluster):
    lines = asked(demo, f"job-{NEW}")
    assert lines[0].startswith(f"NCCL {NEW}, asked 0s ago: 1 communicator")
    behind = next(line for line in lines if "behind" in line)
    expected = rf"  {SECOND} is 1 AllReduce behind the 3 others \(411 launched, not 412\)"
    assert re.fullmatch(expected, behind)
    assert any(line.startswith("  titles  ray::WorkerDict.update_actor") for line in lines)
    found = json.loads(ask(demo, f"job-{NEW}", "--json").stdout)
    assert (found["problems"], found["not_covered"]) == ([], 0)


def test_an_old_nccl_in_a_real_worker_is_asked_only_with_consent(demo: DemoCluster):
    lines = asked(demo, f"job-{OLD}")
    assert re.search(rf"cockpit: NCCL {OLD} runs on (head|w1)\. Before 2\.29\.2", "\n".join(lines))
    assert not any("behind" in line for line in lines)
    assert any(re.match(f"  {SECOND} is 1 AllReduce behind", line) for line in asked(demo, f"job-{OLD}", "--yes"))
