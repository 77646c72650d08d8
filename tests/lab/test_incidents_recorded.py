"""Six incidents that nobody watches are recorded. The report alone later shows what happened, when, and why."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import psutil
import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Lab
from tests.lab.observe import COCKPIT, once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(1200)]

GIB = 1 << 30
ROOM = 9 * GIB // 2
"""Bytes that jobs may take until Ray kills."""
RAY = Path(sys.executable).with_name("ray")
SOON = {
    "waiting_told": 1, "waiting_hopeless": 4, "orphan_age": 2, "gpu_lost_age": 2, "idle_for": 4, "idle_unheard": 4, "oom_told": 20,
}  # fmt: skip
"""Short thresholds."""
HOME = "XDG_CONFIG_HOME=/tmp/soon XDG_STATE_HOME=/tmp/state"
TROUBLE = """
import nvml, os, pathlib, ray, subprocess, sys, time
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address="auto", log_to_driver=False)

class Rank:
    def start(self):
        nvml.hold(pathlib.Path(os.environ[nvml.STATE]), os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"].split(","), 30 << 30)

class Eater:
    def eat(self):
        eaten = []
        while True:
            eaten.append(b"x" * (56 << 20))
            time.sleep(0.5)

class Engine:
    def start(self): subprocess.Popen([sys.executable, "engine.py", "0,1", "20"], start_new_session=True)

def tp16(): placement_group([{"GPU": 1}] * 16, strategy="STRICT_PACK", name="tp16")

def ranks():
    made = [ray.remote(Rank).options(num_gpus=1, num_cpus=1).remote() for _ in range(4)]
    ray.get([rank.start.remote() for rank in made])
    time.sleep(10000)

def eats(): ray.get(ray.remote(Eater).options(num_cpus=1).remote().eat.remote())

def engine():
    node = next(each["NodeID"] for each in ray.nodes() if each["Alive"] and each["NodeName"] == sys.argv[2])
    made = ray.remote(Engine).options(num_gpus=2, scheduling_strategy=On(node, soft=False)).remote()
    ray.get(made.start.remote())
    time.sleep(10000)

globals()[sys.argv[1]]()
time.sleep(10000)
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two hosts whose Ray kills when little more memory is in use than now, and a recorder that nobody looks at."""
    line = {"RAY_memory_usage_threshold": "0.01", "RAY_min_memory_free_bytes": str(psutil.virtual_memory().available - ROOM)}
    lab = Lab(f"r{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}", **line})
    try:
        made = Cluster(lab, ["head", "w1"], RAY)
        made.start()
        reach = f"ssh -F {lab.ssh_config} -o BatchMode=yes -o ConnectTimeout=2 {{name}} {{python}} -"
        folder = made.head.tmp / "soon" / "cockpit"
        folder.mkdir(parents=True)
        settings = {"reach": reach, "hosts": ["head", "w1"], "probe_hosts": "always", "findings": SOON}
        (folder / "config.yaml").write_text(json.dumps(settings))
        for host in made.hosts:
            (host.tmp / "jobs" / "trouble.py").write_text(TROUBLE)
        yield made
    finally:
        lab.close()


class Story:
    """The report while the recorder continues."""

    def __init__(self, cluster: Cluster) -> None:
        self._head = cluster.head
        self.recorder = self._head.spawn("bash", "-c", f"exec env {HOME} {COCKPIT} record >/tmp/recorder.stderr 2>&1")

    def read(self, form: str = "json") -> str:
        self._head.ssh(f"{HOME} {COCKPIT} report -o /tmp/story.{form}")
        return (self._head.tmp / f"story.{form}").read_text()

    def end(self) -> None:
        self.recorder.outer.terminate()
        eventually(lambda: not self.recorder.is_alive())

    def tells(self, code: str, *words: str, ended: bool = False) -> dict[str, Any]:
        """Waits until the finding with this code and these words is recorded; with `ended`, until its end is."""

        def match() -> dict[str, Any] | None:
            named = [one for one in json.loads(self.read())["findings"] if one["code"] == code]
            return next((one for one in named if all(word in one["text"] for word in words) and (not ended or one["end"])), None)

        try:
            return eventually(match, within=180, every=2.0) or {}
        except AssertionError as error:
            _, facts, _ = once(self._head, f"--at {time.strftime('%H:%M:%S')}", HOME)
            holders = [one for one in facts.get("processes", ()) if one["gpus"]]
            raise AssertionError(f"no {code} with {words}: {facts.get('findings')}, {facts.get('faults')}, {holders}") from error


def during(what: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is reported, if it began during `what`."""
    began = time.time()
    finding = what()
    assert began - 5 <= finding["begin"] <= time.time() + 1, finding
    return finding


def test_the_report_describes_six_incidents_that_nobody_watched(cluster: Cluster):
    story, w1 = Story(cluster), cluster.lab["w1"]
    eventually(lambda: "recording to" in (cluster.head.tmp / "recorder.stderr").read_text(), within=120)

    cluster.submit("tp16", "python trouble.py tp16")
    never = during(lambda: story.tells("placement-group-pending", "tp16", "never fits"))
    cluster.http.post("/api/jobs/tp16/stop")
    story.tells("placement-group-pending", "tp16", ended=True)

    nvml.edit(w1.state, lambda lines: [lose(line, 3) for line in lines])
    lost = during(lambda: story.tells("gpu-lost", "GPU 3 of w1 is lost"))
    w1.reset_gpus()
    story.tells("gpu-lost", ended=True)

    cluster.submit("ranks", "python trouble.py ranks")
    stalled = during(lambda: story.tells("job-stalled", "All 4 GPUs of job ranks have been at 0% for"))
    then = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(stalled["begin"] + 1))
    cluster.http.post("/api/jobs/ranks/stop")
    story.tells("job-stalled", ended=True)

    cluster.submit("eats", "python trouble.py eats")
    killed = during(lambda: story.tells("workers-killed-oom", "actor Eater of job eats"))
    near = story.tells("host-memory-near-kill", "of host memory is in use on ")

    cluster.submit("engine", f"python trouble.py engine {w1.address}")
    engine = eventually(lambda: w1.matching("VLLM::EngineCore"), within=120)[0]
    eventually(lambda: f" {engine.pid} " in w1.state.read_text())
    cluster.command(w1, "ray stop --force")
    story.tells("node-dead", "w1 died")
    cluster.http.post("/api/jobs/engine/stop")  # while its job runs it is no orphan
    orphan = during(lambda: story.tells("gpu-memory-orphaned", "1 orphan process holds 40G of GPU memory on 2 GPUs of w1 (0, 1)"))

    cluster.part("dashboard").kill()
    silent = during(lambda: story.tells("dashboard-silent", "dashboard"))

    story.end()
    account, page = json.loads(story.read()), unescape(story.read("html"))
    (Path(os.environ.get("COCKPIT_STORY", cluster.head.tmp)) / "six.md").write_text(story.read("md"))
    in_the_end = {(one["code"], one["subject"]): one for one in account["findings"]}
    reported = [in_the_end[one["code"], one["subject"]] for one in (never, lost, stalled, near, killed, orphan, silent)]
    assert sorted(one["begin"] for one in reported[:3]) == [one["begin"] for one in reported[:3]]
    assert [one["code"] for one in reported if not (one["remedy"] and one["evidence"])] == []
    assert [one["text"] for one in reported if one["text"] not in page] == []
    assert {"tp16", "ranks", "eats", "engine"} <= {job["id"] for job in account["jobs"]}
    _, facts, stderr = once(cluster.head, f"--at {then}", HOME)
    assert "job-stalled" in {one["code"] for one in facts["findings"]}, (stderr, facts.get("findings"))


def lose(line: str, gpu: int) -> str:
    """A line of the simulated NVML's state: this GPU cannot be reached."""
    words = line.split(" ")
    return " ".join([*words[:9], "1", *words[10:]]) if words[:2] == ["gpu", str(gpu)] else line
