"""cockpit's facts about a healthy cluster agree with Ray's own tools, NVML and nvitop."""

from __future__ import annotations

import functools
import json
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab
from tests.lab.observe import COCKPIT, Watcher, by_cockpit, by_nvml, kinds, listed, node, once, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30
WAITS = """
import ray, time
from ray.util.placement_group import placement_group
ray.init(address="auto", log_to_driver=False)
placement_group([{"GPU": 16}], strategy="PACK", name="tp16-engine")
class Judge: pass
judges = [ray.remote(Judge).options(num_gpus=9).remote() for _ in range(3)]
time.sleep(10000)
"""
"""A request that hosts with eight GPUs can never satisfy."""
KINDS = [
    ("ray::LLMRayActor", "worker"), ("ray::PolicyModelActor", "worker"), ("ray::JobSupervisor", "worker"), ("ray::RolloutBuffer", "worker"),
    ("VLLM::EngineCore", "child"), ("python train_ppo_ray.py", "driver"), ("python waits.py", "driver"), ("ray::DashboardAgent", "ray"),
]  # fmt: skip


@pytest.fixture(scope="module")
def reach(lab: Lab) -> Lab:
    write_config(lab)
    return lab


@pytest.fixture(scope="module")
def busy(running: Cluster, reach: Lab) -> Iterator[Cluster]:
    """A small PPO run, and another one that waits for resources that do not exist."""
    flags = "--actor.num_gpus_per_node 1 --critic.num_gpus_per_node 1 --reward.num_gpus_per_node 1 --vllm.num_engines 2"
    running.submit("ppo", f"WANDB_API_KEY=0123456789abcdef python train_ppo_ray.py {flags}")
    (running.head.tmp / "jobs" / "waits.py").write_text(WAITS)
    running.submit("waits", "python waits.py")
    eventually(lambda: counted(running, "actors", "ALIVE") == 10, within=120)  # eight of its own, and two supervisors of jobs
    eventually(lambda: counted(running, "actors", "PENDING_CREATION") == 3)
    yield running
    running.heal()


def counted(cluster: Cluster, what: str, state: str) -> int:
    """The number of Ray's objects in this state."""
    params: dict[str, Any] = {"limit": 1000, "filter_keys": "state", "filter_predicates": "=", "filter_values": state}
    answer = cluster.http.get(f"/api/v0/{what}", params=params).json()
    return int(answer["data"]["result"]["num_filtered"])


def counted_in(unit: int, gpus: list[list[Any]]) -> list[list[Any]]:
    """The same GPUs with memory in whole units."""
    return [[*facts, used // unit, total // unit] for *facts, used, total in gpus]


def same_gpus(watcher: Watcher, host: Host, unit: int) -> bool:
    """Whether cockpit and NVML agree on a host's GPUs now."""
    return counted_in(unit, by_cockpit(watcher.now, host.name)) == counted_in(unit, by_nvml(host))


def test_nodes_agree_with_ray(busy: Cluster):
    _, facts, _ = once(busy.head)
    theirs = {(each["node_id"], each["node_ip"], each["state"], each["is_head_node"]) for each in listed(busy, "nodes")}
    assert {(each["id"], each["ip"], each["state"], each["head"]) for each in facts["nodes"]} == theirs
    assert facts["cluster"]["reachable"] is True
    assert facts["cluster"]["session"] == busy.http.get("/api/version").json()["session_name"]
    assert facts["faults"] == []


def test_gpus_agree_with_nvml_on_both_hosts(busy: Cluster, reach: Lab):
    watcher = Watcher(busy.head)
    try:
        for host in busy.hosts:
            unit = 1 if host is busy.head else 1 << 20  # Ray's agents count memory in MiB
            # Models and engines are busy in turns: ask until both have seen the same turn.
            alike = functools.partial(same_gpus, watcher, host, unit)
            watcher.until(lambda _, alike=alike: alike(), within=120)
        assert len({gpu[1] for host in busy.hosts for gpu in by_cockpit(watcher.now, host.name)}) == 16
    finally:
        watcher.end()


def test_nvitop_shows_the_same_memory(busy: Cluster):
    _, facts, _ = once(busy.head)
    shown = re.findall(r"([\d.]+)([GM])iB / 80.00GiB", busy.head.ssh("nvitop -1"))
    theirs = [float(number) / (1 if unit == "G" else 1024) for number, unit in shown]
    assert [gpu["memory_used"] / GIB for gpu in node(facts, "head")["gpus"]] == pytest.approx(theirs, abs=0.01)


def reserved(output: str) -> list[tuple[float, float]]:
    """Reserved and total CPUs and GPUs. `ray status` does not count idle resources of groups as used."""
    lines = re.findall(r"([\d.]+)/([\d.]+) [CG]PU(?: \(([\d.]+) used of ([\d.]+) reserved)?", output)
    return [(float(used) - float(busy or 0) + float(held or 0), float(total)) for used, total, busy, held in lines]


def test_reservations_agree_with_ray_status(busy: Cluster):
    def same() -> bool:
        theirs = reserved(busy.command(busy.head, "ray status"))
        _, facts, _ = once(busy.head)
        quantities = [[each["resources"][name] for each in facts["nodes"]] for name in ("CPU", "GPU")]
        ours = [(sum(each["used"] for each in found), sum(each["total"] for each in found)) for found in quantities]
        return len(theirs) == 2 and all(one == pytest.approx(other) for one, other in zip(ours, theirs, strict=True))

    eventually(same)


def test_actor_counts_agree_with_ray(busy: Cluster):
    def same() -> bool:
        _, facts, _ = once(busy.head)
        ours = Counter(facts["actors"]["counts"])
        theirs = Counter(each["state"] for each in listed(busy, "actors") if each["state"] != "DEAD")
        return +ours == theirs and facts["actors"]["complete"]

    eventually(same)


def log_of(cluster: Cluster, words: str) -> tuple[int, str]:
    """The output of `cockpit logs` on the head, and its exit code."""
    printed, _, code = cluster.head.ssh(f"{COCKPIT} logs {words} 2>&1; code=$?; echo; echo $code", timeout=120).strip().rpartition("\n")
    return int(code), printed


def test_an_actors_log_is_its_workers_file_on_any_host(busy: Cluster):
    alive = [actor for actor in listed(busy, "actors") if actor["state"] == "ALIVE" and actor["class_name"] != "JobSupervisor"]
    for actor in {actor["node_id"]: actor for actor in alive}.values():
        for stream in ("out", "err"):
            code, text = log_of(busy, f"{actor['actor_id']} -n -1 --log {stream}")
            assert (code, f":job_id:{actor['job_id']}" in text, f":actor_name:{actor['class_name']}" in text) == (0, True, True), text


def test_a_nodes_log_is_its_raylets(busy: Cluster):
    for each in listed(busy, "nodes"):
        code, text = log_of(busy, f"{each['node_id']} -n -1")
        assert code == 0
        assert f"Setting node ID node_id={each['node_id']}" in text


def test_an_unknown_name_has_no_log(busy: Cluster):
    code, text = log_of(busy, "nope")
    assert (code, "there is no job, actor, process or node nope" in text) == (3, True)


def test_waiting_work_is_shown_with_its_needs(busy: Cluster):
    eventually(lambda: once(busy.head)[0] in (1, 2))  # a warning once Ray's monitor lists them, critical half a minute later
    _, facts, _ = once(busy.head)
    waiting = [actor for actor in facts["actors"]["pending"] if actor["class"] == "Judge"]
    assert [actor["needs"]["GPU"] for actor in waiting] == [9, 9, 9]
    groups = {group["name"]: group for group in facts["placement_groups"]}
    theirs = {each["name"]: each["state"] for each in listed(busy, "placement-groups") if each["state"] != "REMOVED"}
    assert {name: group["state"] for name, group in groups.items()} == theirs
    assert groups["tp16-engine"]["state"] == "PENDING"
    assert groups["tp16-engine"]["bundles"] == [{"needs": {"GPU": 16.0}, "node": None, "labels": {}}]


def test_jobs_agree_with_rays_job_list(busy: Cluster):
    _, facts, _ = once(busy.head)
    theirs = {job["submission_id"]: job["status"] for job in busy.http.get("/api/jobs/").json() if job["submission_id"]}
    assert {job["id"]: job["status"] for job in facts["jobs"] if job["id"] in theirs} == theirs
    assert "0123456789abcdef" not in json.dumps(facts)


def test_the_kill_line_agrees_with_the_raylets_log(busy: Cluster):
    logged = busy.head.ssh("grep -hoE 'threshold at [0-9]+ bytes' /tmp/ray/session_latest/logs/raylet.out")
    theirs = int(logged.split()[-2])
    assert node(once(busy.head)[1], "head")["memory"]["kill_at"] == theirs


def test_every_process_on_both_hosts_has_its_kind(busy: Cluster):
    head, w1 = busy.hosts
    nohup = head.spawn("nohup", "bash", "-c", "exec -a 'python train.py' sleep 10000")
    strangers = [host.hold(7, 3 * GIB, title="python finetune.py") for host in (head, w1)]
    watcher = Watcher(head, "--hosts head,w1", env="COCKPIT_PROBE_HOSTS=always")
    try:
        for host, stranger in zip((head, w1), strangers, strict=True):
            watcher.until(lambda now, host=host, stranger=stranger: kinds(now, host.name).get(stranger.pid) == "foreign")
            found = kinds(watcher.now, host.name)
            for words, kind in KINDS:
                assert {found.get(process.pid) for process in host.matching(words) if process.text.startswith(words[:5])} <= {kind}, words
            assert {"ray", "worker"} <= set(found.values())
            assert not {"orphan", "stale", "unknown"} & set(found.values())
        assert kinds(watcher.now, "head").get(nohup.pid, "foreign") == "foreign"
    finally:
        watcher.end()
        for process in (nohup, *strangers):
            process.kill()


@pytest.mark.parametrize("name", ["head", "w1"])
def test_probes_report_rays_own_processes_and_folders(busy: Cluster, name: str):
    host = busy.lab[name]
    facts = json.loads(host.ssh(f"{sys.executable} -m cockpit.probe --once </dev/null").splitlines()[1])
    version = busy.http.get("/api/version").json()
    rays = {ray["role"]: ray for ray in facts["rays"]}
    assert set(rays) == ({"raylet", "gcs_server"} if name == "head" else {"raylet"})
    assert {(ray["ray"], ray["session"], ray["visible"]) for ray in rays.values()} == {
        (version["ray_version"], version["session_name"], None)
    }
    assert rays["raylet"]["python"] == platform.python_version()
    assert rays["raylet"]["node"] in {each["node_id"] for each in listed(busy, "nodes")}
    assert 10 < rays["raylet"]["files"] < rays["raylet"]["files_limit"]
    assert facts["temps"] == [{"path": "/tmp/ray", "owner": "root", "writable": True}]
    assert [(pointer["target"].rpartition("/")[2], pointer["alive"]) for pointer in facts["pointers"]] == [
        (version["session_name"], True),
        (busy.gcs_address, True),
    ]
    written = facts["written"].get(version["session_name"], {})
    assert {"ppo", "waits"} <= set(written) if name == "head" else not facts["written"]
    assert facts["oom_kills"] == facts["faults"] == []
