"""Hopeless waiting, leftovers and exhausted memory on a real Ray are found with true numbers until they are repaired."""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from cockpit.text import size
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab
from tests.lab.observe import Facts, Watcher, action

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

SOON = """
findings: {waiting_told: 1, waiting_hopeless: 4, waiting_long: 6, job_start: 6, leak_age: 3,
  oom_told: 20}
"""
"""Short thresholds."""
ABOUT = """
import asyncio, json
from cockpit.config.settings import load
from cockpit.monitor.monitor import sample_once
print(json.dumps([[found.code, found.subject, found.about] for found in asyncio.run(sample_once(load({}))).poller.snapshot.findings]))
"""
INCIDENTS = """
import os, pathlib, ray, sys, time
from ray.util.placement_group import placement_group
ray.init(address="auto", log_to_driver=False)

class Critic:
    def ready(self): return True

class Loader(Critic): pass
class Judge(Critic): pass

def actor(kind, **more):
    return ray.remote(kind).options(**more).remote()

def wait(name):
    while not pathlib.Path(f"/tmp/signals/{name}").exists(): time.sleep(0.1)

def train1():
    critics = [actor(Critic, num_gpus=2, num_cpus=0, scheduling_strategy="SPREAD") for _ in range(2)]
    loaders = [actor(Loader, num_cpus=10, scheduling_strategy="SPREAD") for _ in range(2)]
    ray.get([each.ready.remote() for each in critics + loaders])
    judges = [actor(Judge, num_cpus=1, label_selector={"gpu-type": "h100"}) for _ in range(3)]
    wait("room")
    for each in (critics[0], loaders[0], *judges): ray.kill(each)

def slow(): pass

def tp16():
    placement_group([{"GPU": 1}] * 16, strategy="STRICT_PACK", name="tp16")

def engine():
    placement_group([{"GPU": 8}], name="engine")

def vllm():
    here = f"node:{ray.util.get_node_ip_address()}"
    placement_group([{"GPU": 8, here: 0.001}], name="vllm")

def verl():
    placement_group([{"GPU": 1, "CPU": 4}] * 4, name="pool")

class Falls(Critic):
    def fall(self): os.kill(os.getpid(), 9)

def up(each):
    while True:
        try: return ray.get(each.ready.remote())
        except ray.exceptions.RayError: time.sleep(0.2)

def reward():
    falls = actor(Falls, num_cpus=0, max_restarts=-1)
    for _ in range(4):
        up(falls)
        falls.fall.remote()

def leaver():
    if pathlib.Path("/tmp/signals/head").exists(): time.sleep(10000)
    group = placement_group([{"GPU": 1}] * 2, strategy="STRICT_SPREAD", name="left-over", lifetime="detached")
    critic = actor(Critic, name="kept", num_gpus=1, num_cpus=0, lifetime="detached")
    ray.get([group.ready(), critic.ready.remote()])
    raise RuntimeError("the reward model has no head")

def half(name):
    first = placement_group([{"GPU": 6}], name=f"{name}-first")
    ray.get(first.ready())
    wait("halves")
    placement_group([{"GPU": 6}], name=f"{name}-second")

class Eater(Critic):
    def eat(self):
        eaten = []
        while True:
            eaten.append(b"x" * EATEN)
            time.sleep(0.02 if pathlib.Path("/tmp/signals/faster").exists() else 1)

def eats():
    eater = actor(Eater, num_cpus=1)
    ray.get(eater.eat.remote())

def left(): half("left")
def match(): half("right")

globals()[sys.argv[1]]()
time.sleep(10000)
"""
EATEN = 56 << 20
"""Bytes that an actor takes each second."""


class Incidents:
    """Jobs that get into trouble, and a watcher that reports them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.head = cluster, cluster.head
        folder = self.head.tmp / "soon" / "cockpit"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(SOON)
        (self.head.tmp / "jobs" / "incidents.py").write_text(INCIDENTS.replace("EATEN", str(EATEN)))
        self.signals = self.head.tmp / "signals"
        self.signals.mkdir(exist_ok=True)
        self.watcher = Watcher(self.head, env="XDG_CONFIG_HOME=/tmp/soon")

    def submit(self, name: str, does: str = "", **more: Any) -> None:
        """Submits a job that runs one case of the script."""
        self.cluster.http.delete(f"/api/jobs/{name}")
        body = {"entrypoint": f"cd /tmp/jobs && python incidents.py {does or name}", "submission_id": name, **more}
        eventually(lambda: self.cluster.http.post("/api/jobs/", json=body).is_success)

    def send_signal(self, what: str) -> None:
        """Lets jobs continue that wait for this signal."""
        (self.signals / what).write_text("")

    def rays(self, kind: str) -> list[dict[str, Any]]:
        """Ray's list of this kind, without what has ended."""
        rows = self.cluster.http.get(f"/api/v0/{kind}", params={"limit": 1000, "detail": 1}).json()["data"]["result"]["result"]
        return [row for row in rows if row["state"] not in ("DEAD", "REMOVED")]

    def groups(self) -> dict[str, dict[str, Any]]:
        """Ray's placement groups by name."""
        return {row["name"]: row for row in self.rays("placement_groups")}

    def actors(self, class_: str) -> list[str]:
        """Ray's ids of the actors of a class."""
        return [row["actor_id"] for row in self.rays("actors") if row["class_name"].endswith(class_)]

    def now(self, code: str, subject: str) -> Facts | None:
        """The present finding."""
        findings = self.watcher.now.get("findings", ())
        return next((each for each in findings if (each["code"], each["subject"]) == (code, subject)), None)

    def found(self, code: str, subject: str, *words: str, level: str) -> Facts:
        """Waits for the finding with this level and all these words."""

        def match() -> Facts | None:
            found = self.now(code, subject)
            return found if found and found["level"] == level and all(word in found["text"] for word in words) else None

        try:
            return eventually(match, within=120) or {}
        except AssertionError as error:
            raise AssertionError(f"no {code} of {subject}: {self.watcher.now.get('findings')}, {self.watcher.now.get('faults')}") from error

    def ended(self, *known: tuple[str, str]) -> None:
        """Waits until none of these findings remains."""
        try:
            eventually(lambda: not any(self.now(*each) for each in known), within=120)
        except AssertionError as error:
            raise AssertionError(f"remaining: {[self.now(*each) for each in known]}") from error

    def about(self) -> dict[tuple[str, str], set[str]]:
        """The rows that each finding is about."""
        printed = about(self.head, "XDG_CONFIG_HOME=/tmp/soon")
        return {(code, subject): set(keys) for code, subject, keys in printed}

    def action(self, *commands: str) -> None:
        """Runs an operator's commands, all at once."""
        with ThreadPoolExecutor() as pool:
            for code, done, stderr in pool.map(lambda words: action(self.head, f"{words} --yes"), commands):
                assert code == 0, (done, stderr)

    def cancel(self, *jobs: str) -> None:
        """Ends the supervisors of jobs that have not started."""
        (self.head.tmp / "jobs" / "cancel.py").write_text(CANCEL)
        self.cluster.command(self.head, f"python cancel.py {' '.join(jobs)}")

    def close(self) -> None:
        """Stops watching and removes the jobs' signals."""
        self.watcher.end()
        if late := [job["submission_id"] for job in self.cluster.http.get("/api/jobs/").json() if job["status"] == "PENDING"]:
            self.cancel(*late)
        for file in self.signals.iterdir():
            file.unlink()


def about(host: Host, env: str) -> list[tuple[str, str, list[str]]]:
    (host.tmp / "about.py").write_text(ABOUT)
    found: list[tuple[str, str, list[str]]] = json.loads(host.ssh(f"{env} {sys.executable} /tmp/about.py"))
    return found


@pytest.fixture
def small() -> Iterator[Incidents]:
    """A Ray of one node that kills when little more memory is in use than now."""
    room = psutil.virtual_memory().available - ROOM
    line = {"RAY_memory_usage_threshold": "0.01", "RAY_min_memory_free_bytes": str(room)}
    lab = Lab(f"m{os.getpid() % 100000}", ["small"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}", **line})
    try:
        cluster = Cluster(lab, ["small"], RAY)
        cluster.start()
        made = Incidents(cluster)
        yield made
        made.close()
    finally:
        lab.close()


@pytest.fixture
def incidents(cluster: Cluster) -> Iterator[Incidents]:
    """A healthy cluster of two nodes, each with 8 GPUs and 16 CPUs, and a watcher."""
    made = Incidents(cluster)
    yield made
    made.close()


GIB = 1 << 30
ROOM = 9 * GIB // 2
"""Bytes that jobs may take until Ray kills. Ray itself takes 1 GiB of them; other tests may take some meanwhile."""
RAY = Path(sys.executable).with_name("ray")
SLOWLY = '#!/bin/bash\nwhile [ ! -e /tmp/signals/python ]; do sleep 0.2; done\nexec python "$@"\n'
CANCEL = """
import ray, sys
ray.init(address="auto", log_to_driver=False)
for name in sys.argv[1:]:
    ray.kill(ray.get_actor("_ray_internal_job_actor_" + name, namespace="SUPERVISOR_ACTOR_RAY_NAMESPACE"))
"""
"""A job that has not started cannot be stopped: Ray asks its supervisor, which has not started either."""


def test_everything_that_waits_is_reported_with_its_reason_until_it_continues(incidents: Incidents):
    slow = incidents.head.tmp / "jobs" / "slowly"
    slow.write_text(SLOWLY)
    slow.chmod(0o755)
    incidents.submit("slow", runtime_env={"py_executable": "/tmp/jobs/slowly"})
    incidents.submit("hungry", entrypoint_num_cpus=99)
    incidents.submit("train1")
    eventually(lambda: len(incidents.actors("Judge")) == 3, within=120)
    for name in ("tp16", "engine", "vllm", "verl"):
        incidents.submit(name)

    never = incidents.found("placement-group-pending", "job tp16", "needs", level="critical")
    assert never["text"] == (
        "Placement group tp16 of job tp16 waits: never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8 "
        "(Ray: its bundles do not fit, even on empty nodes)"
    )
    pieces = incidents.found("placement-group-pending", "job engine", "needs", level="warning")
    assert pieces["text"].startswith(
        "Placement group engine of job engine waits: needs 8 GPUs on one node; 12 GPUs are free, but not on one node: "
    )
    engine = incidents.found("placement-group-pending", "job vllm", "gives up", level="warning")
    assert re.search(r"; the engine gives up in 2\dm\d\ds$", engine["text"])
    incidents.action("stop-job vllm")
    short = incidents.found("placement-group-pending", "job verl", "needs", level="warning")
    assert short["text"].startswith(
        "Placement group pool of job verl waits: enough GPUs, but not enough CPU: needs 4 x 4 CPUs; "
        "12 of 32 CPUs are free, 20 are reserved by job train1"
    )
    assert {name: row["stats"]["scheduling_state"] for name, row in incidents.groups().items()} == {
        "tp16": "INFEASIBLE",
        "engine": "NO_RESOURCES",
        "pool": "NO_RESOURCES",
    }
    judges = incidents.found("actor-pending", "Judge of job train1", level="critical")
    assert judges["text"] == (
        "3 actors Judge of job train1 wait: never fits on these nodes: "
        "needs 1 CPU on one node with gpu-type=h100: no node has a label gpu-type"
    )
    hungry = incidents.found("job-pending", "job hungry", level="critical")
    assert hungry["text"] == "Job hungry has not started: never fits on these nodes: needs 99 CPUs on one node; 2 nodes have 16"
    starting = incidents.found("job-pending", "job slow", level="warning")
    assert starting["text"].startswith("Job slow has not started: resources are reserved; the runtime environment or the worker")

    ids = {name: f"pg:{row['placement_group_id']}" for name, row in incidents.groups().items()}
    about = incidents.about()
    assert about["placement-group-pending", "job tp16"] == {ids["tp16"], "job:tp16"}
    assert about["placement-group-pending", "job engine"] == {ids["engine"]}
    assert about["placement-group-pending", "job verl"] == {ids["pool"]}
    assert about["actor-pending", "Judge of job train1"] == {*(f"actor:{each}" for each in incidents.actors("Judge")), "job:train1"}
    assert [each["remedy"]["act"] for each in (never, pieces, short, judges, hungry, starting)] == [
        "stop-job", None, None, "stop-job", None, None,
    ]  # fmt: skip

    incidents.send_signal("room")
    incidents.send_signal("python")
    incidents.cancel("hungry")
    incidents.action("stop-job tp16")
    incidents.ended(
        ("placement-group-pending", "job tp16"), ("placement-group-pending", "job engine"), ("placement-group-pending", "job verl"),
        ("actor-pending", "Judge of job train1"), ("job-pending", "job hungry"), ("job-pending", "job slow"),
    )  # fmt: skip
    assert incidents.found("job-failed", "job hungry", level="warning")["text"].endswith(
        "(JOB_SUPERVISOR_ACTOR_DIED): The actor never ran - it was cancelled before it started running."
    )


def test_leftovers_blockers_and_breakage_of_jobs_are_reported_until_the_remedy_is_applied(incidents: Incidents):
    incidents.submit("leaver")
    incidents.submit("reward")
    eventually(lambda: incidents.cluster.job("leaver") == "FAILED", within=120)
    for name in ("left", "right"):
        incidents.submit(name)
        eventually(lambda name=name: incidents.groups().get(f"{name}-first", {}).get("state") == "CREATED", within=120)
    incidents.send_signal("halves")

    failed = incidents.found("job-failed", "job leaver", level="warning")
    assert failed["text"] == "Job leaver failed: RuntimeError: the reward model has no head (exit code 1)"
    group = incidents.found("placement-group-leaked", "job leaver", level="warning")
    assert group["text"] == "Job leaver has ended (FAILED), but its placement group left-over still holds 2 GPUs"
    actor = incidents.found("actor-leaked", "job leaver", level="warning")
    assert actor["text"] == "Job leaver has ended (FAILED), but its actor Critic still holds 1 GPU"
    loop = incidents.found("actor-restarting", "Falls of job reward", "4 times", level="warning")
    assert re.fullmatch(r"Actor Falls of job reward was restarted 4 times (in the last|since its job started) \S+( ago)?", loop["text"])
    blocked = incidents.found("deadlock", "jobs left and right", level="critical")
    assert blocked["text"] == (
        "Deadlock: left and right wait for each other; none can continue until one of them releases its resources; "
        "left holds 6 GPUs and waits for 6 GPUs; right holds 6 GPUs and waits for 6 GPUs"
    )
    ended = incidents.cluster.http.get("/api/jobs/leaver").json()["end_time"] / 1000
    assert [each["since"] for each in (failed, group, actor)] == pytest.approx([ended] * 3, abs=0.01)

    about, groups = incidents.about(), incidents.groups()
    left_over, first, second = (groups[name]["placement_group_id"] for name in ("left-over", "left-second", "right-second"))
    (critic,), (falls,) = incidents.actors("Critic"), incidents.actors("Falls")
    assert about["placement-group-leaked", "job leaver"] == {f"pg:{left_over}"}
    assert about["actor-leaked", "job leaver"] == {f"actor:{critic}"}
    assert about["job-failed", "job leaver"] == {"job:leaver"}
    assert about["deadlock", "jobs left and right"] == {f"pg:{first}", f"pg:{second}", "job:right"}

    found = ((group, left_over), (actor, critic), (loop, falls), (blocked, "right"))
    incidents.action(*(f"{each['remedy']['act']} {id_}" for each, id_ in found))
    incidents.send_signal("head")
    incidents.submit("leaver-again", "leaver")
    incidents.ended(
        ("placement-group-leaked", "job leaver"), ("actor-leaked", "job leaver"), ("actor-restarting", "Falls of job reward"),
        ("deadlock", "jobs left and right"), ("job-failed", "job leaver"),
    )  # fmt: skip
    assert incidents.groups()["left-second"]["state"] == "CREATED"
    assert incidents.cluster.job("leaver-again") == "RUNNING"


class MemoryLog:
    """Used memory of this machine, noted every second: other programs take and release some too."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._ended = Event()
        self._thread = Thread(target=self._note)
        self._thread.start()

    def _note(self) -> None:
        while not self._ended.wait(1):
            memory = psutil.virtual_memory()
            self._seen.append((time.time(), memory.total - memory.available))

    def by_minute(self, until: float, last: float = 120) -> float:
        """Bytes a minute in the last seconds before `until`."""
        moments, used = zip(*((moment, used) for moment, used in self._seen if until - last <= moment <= until), strict=True)
        return 60 * statistics.linear_regression(moments, used).slope

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def grown() -> Iterator[MemoryLog]:
    made = MemoryLog()
    yield made
    made.close()


def test_a_kill_for_lack_of_memory_is_reported_before_and_after(small: Incidents, grown: MemoryLog):
    line = psutil.virtual_memory().total - int(small.cluster.lab.env["RAY_min_memory_free_bytes"])
    small.submit("eats")
    soon = small.found("host-memory-near-kill", "small", "Ray starts killing", level="critical")
    assert f" below the {size(line)} at which Ray kills workers; at +" in soon["text"]
    grows = re.search(r"at \+([\d.]+)([GM])/min", soon["text"])
    assert grows, soon["text"]
    assert float(grows[1]) / (1 if grows[2] == "G" else 1024) == pytest.approx(grown.by_minute(small.watcher.now["taken"]) / GIB, rel=0.5)
    assert soon["remedy"]["act"] == "stop-job"
    assert [each for each in soon["evidence"] if each.startswith("holds most: actor Eater of job eats ")], soon["evidence"]

    small.send_signal("faster")
    killed = small.found("workers-killed-oom", "small", level="critical")
    params = {"limit": 1000, "detail": 1, "filter_keys": "exit_type", "filter_predicates": "=", "filter_values": "NODE_OUT_OF_MEMORY"}
    (worker,) = small.cluster.http.get("/api/v0/workers", params=params).json()["data"]["result"]["result"]
    (held,) = re.findall(r"Selected to kill: [^\n]* actual memory used=([\d.]+)GB", worker["exit_detail"])
    assert killed["text"].startswith("Ray killed 1 worker on small ")
    assert killed["text"].endswith(f" ago (out of memory): actor Eater of job eats, which held {size(float(held) * GIB)}")
    assert f"Ray killed pid {worker['pid']}, actor Eater of job eats" in killed["evidence"][0]
    assert killed["since"] == pytest.approx(worker["end_time_ms"] / 1000, abs=2)
    assert small.about()["workers-killed-oom", "small"] == {f"node:{worker['node_id']}"}
    failed = small.found("job-failed", "job eats", level="warning")
    assert failed["text"].endswith("exit code 1): Ray's memory monitor killed one of its workers because the node was low on memory")
    small.ended(("workers-killed-oom", "small"), ("host-memory-near-kill", "small"))
