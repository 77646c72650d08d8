"""Why actors and jobs don't start on a real Ray: no worker port, an environment that fails or hangs, workers that die, a long import."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster, copy_job_files, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.incidents import found, watching
from tests.lab.observe import Facts, once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

ACTORS = """
import pathlib, ray, sys, time
ray.init(address="auto")

@ray.remote(num_gpus=1, num_cpus=0)
class Engine: pass

@ray.remote(num_cpus=0, runtime_env={"env_vars": {"PYTHONPATH": "/tmp/broken"}})
class Broken: pass

@ray.remote(num_cpus=0)
class Slow:
    def __init__(self):
        sys.path.insert(0, "/tmp/slow")
        import heavy_model

kept = [globals()[sys.argv[1]].remote() for _ in range(int(sys.argv[2]))]
time.sleep(10000)
"""
SILENT_INDEX = """
import socket
listener = socket.create_server(("127.0.0.1", 9999))
kept = []
while True: kept.append(listener.accept())
"""
HANGS = {"packages": ["cockpit-test-hangs==1.0"], "pip_install_options": ["--index-url", "http://127.0.0.1:9999/simple"]}
FAILS = {"packages": ["cockpit-test-fails==1.0"], "pip_install_options": ["--no-index"]}


def _ray(name: str, more: str) -> Iterator[Cluster]:
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"{name}{os.getpid() % 100000}", ["head"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        cluster = Cluster(lab, ["head"], RAY)
        copy_job_files(cluster.head)
        (cluster.head.tmp / "jobs" / "actors.py").write_text(ACTORS)
        line = f"ray start --head --port=6379 --dashboard-host=0.0.0.0 --num-cpus=4 --object-store-memory=100000000 {more}"
        start_patiently(lambda: cluster.command(cluster.head, line, timeout=400), cluster.stop)
        eventually(cluster.complete, within=240)
        yield cluster
    finally:
        lab.close()


@pytest.fixture
def narrow() -> Iterator[Cluster]:
    """A Ray with four ports for workers."""
    yield from _ray("n", "--min-worker-port=20000 --max-worker-port=20003")


@pytest.fixture
def usual() -> Iterator[Cluster]:
    """A Ray with as many ports as it wants."""
    yield from _ray("s", "")


def submit(cluster: Cluster, name: str, entrypoint: str, **more: Any) -> None:
    body = {"entrypoint": f"cd /tmp/jobs && {entrypoint}", "submission_id": name, **more}
    eventually(lambda: cluster.http.post("/api/jobs/", json=body).is_success)


def test_engines_on_a_node_with_four_worker_ports_name_the_ports(narrow: Cluster):
    watcher = watching(narrow, "probe_hosts: always\n", waiting_told=1, waiting_hopeless=4)
    submit(narrow, "engines", f"{sys.executable} actors.py Engine 8")
    waits = found(watcher, "actor-pending", "node head has 4 worker ports (20000-20003) and all are taken")
    assert re.match(r"\d actors Engine of job engines wait: ", waits["text"])
    assert waits["level"] == "warning"
    assert "`--min-worker-port`, `--max-worker-port`" in waits["remedy"]["text"]

    def single_look() -> Facts | None:
        _, facts, _ = once(narrow.head)
        return next((one for one in facts.get("findings", ()) if one["code"] == "actor-pending" and "20000-20003" in one["text"]), None)

    assert eventually(single_look, within=120), "a single look reads the logs too"


def test_what_is_built_fails_dies_or_imports_is_named_for_each_job_alone(usual: Cluster):
    tmp: Path = usual.head.tmp
    for folder, name, text in (
        ("broken", "msgpack.py", 'raise ImportError("libfoo.so.1: cannot open shared object file")'),
        ("slow", "heavy_model.py", "import time\ntime.sleep(10000)"),
    ):
        (tmp / folder).mkdir()
        (tmp / folder / name).write_text(text)
    (tmp / "index.py").write_text(SILENT_INDEX)
    usual.head.spawn(sys.executable, "/tmp/index.py")
    watcher = watching(usual, "probe_hosts: always\n", waiting_told=1, waiting_hopeless=4)
    submit(usual, "slow", f"{sys.executable} actors.py Slow 1")
    submit(usual, "broken", f"{sys.executable} actors.py Broken 1")
    slow = found(watcher, "actor-pending", "Actor Slow of job slow waits: its constructor is running on head, pid ")
    assert slow["level"] == "info"
    found(watcher, "actor-pending", "imports a module at actors.py:15, now at heavy_model.py:2")
    broken = found(watcher, "actor-pending", "Actor Broken of job broken waits: worker processes on head die before they register")
    assert "ImportError: libfoo.so.1: cannot open shared object file" in broken["text"]
    assert broken["level"] == "warning"

    submit(usual, "hangs", "sleep 1000", runtime_env={"pip": HANGS})
    submit(usual, "fails", "sleep 1000", runtime_env={"pip": FAILS})
    hangs = found(
        watcher, "job-pending", "Job hangs has not started: its runtime environment is being built on head: pip install has written"
    )
    assert re.search(r"nothing since \d\d:\d\d:\d\d by that host's clock \(\S+\)$", hangs["text"])
    failed = found(watcher, "job-failed", "cockpit-test-fails==1.0", within=300)
    assert failed["subject"] == "job fails"
