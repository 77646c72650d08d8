"""cockpit's status stays true while parts of a real cluster are killed, frozen, cut off and restarted."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator

import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import stopped
from tests.lab.observe import Facts, Watcher, by_cockpit, by_nvml, faults, kinds, listed, node, once, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches the cluster from its head and has seen it complete."""
    write_config(cluster.lab)
    made = Watcher(cluster.head)
    made.until(
        lambda now: (
            now["jobs"] is not None and now["actors"]["counts"] is not None and [each["state"] for each in now["nodes"]].count("ALIVE") == 2
        )
    )
    made.trusts()
    yield made
    made.end()


# Leftovers


def test_an_engine_whose_job_failed_is_an_orphan(cluster: Cluster, watcher: Watcher):
    cluster.submit("evaluation", "python evaluate.py")
    eventually(lambda: cluster.job("evaluation") == "FAILED", within=120)
    engine, host = eventually(lambda: [(engine, host) for host in cluster.hosts for engine in host.matching("VLLM::EngineCore")])[0]
    took = watcher.until(lambda now: kinds(now, host.name).get(engine.pid) == "orphan")
    held = next(each["gpus"] for each in watcher.now["processes"] if each["pid"] == engine.pid)
    assert [hold["memory"] for hold in held] == [int(21.4 * GIB)]
    assert once(cluster.head)[0] == 1
    print(f"figure: orphan on {host.name} said {took:.1f} s after its job failed")
    engine.kill()
    watcher.until(lambda now: engine.pid not in kinds(now, host.name))


def test_an_unknown_process_on_a_host_without_a_probe_is_examined_over_ssh(cluster: Cluster, watcher: Watcher):
    stranger = cluster.lab["w1"].hold(5, 20 * GIB, title="python finetune.py")
    took = watcher.until(lambda now: kinds(now, "w1").get(stranger.pid) == "foreign")
    print(f"figure: foreign holder on w1 named over ssh after {took:.1f} s")
    stranger.kill()
    watcher.until(lambda now: stranger.pid not in kinds(now, "w1"))


def test_one_status_waits_for_an_unknown_processs_host_and_names_an_unreached_one(cluster: Cluster):
    write_config(cluster.lab)
    head, w1 = cluster.head, cluster.lab["w1"]
    stranger = w1.hold(5, 20 * GIB, title="python finetune.py")
    eventually(lambda: cluster.holders(w1, 5) == [stranger.pid])
    eventually(lambda: kinds(once(head)[1], "w1").get(stranger.pid) == "foreign", within=120)
    with stopped(w1):
        _, unnamed, _ = once(head)
        code, named, _ = once(head, "--hosts head,w1")
    for facts in (unnamed, named):
        assert len(faults(facts, "probe", "w1")) == 1
        assert kinds(facts, "w1") == {stranger.pid: "unknown"}
    assert code != 0
    stranger.kill()
    began = time.monotonic()
    _, facts, _ = once(head, "--hosts head,w1")
    assert node(facts, "w1")["age"] <= time.monotonic() - began
    assert not facts["faults"]


# NVML and the probe


def test_a_hanging_nvml_call_is_a_fault_and_stops_nothing_else(cluster: Cluster, watcher: Watcher):
    head = cluster.head
    nvml.add(head.state, "hang forever nvmlDeviceGetMemoryInfo")
    took = watcher.fault("nvml", host="head")
    before = watcher.now["taken"]
    stranger = head.spawn("bash", "-c", "exec -a ray::Ghost sleep 10000")
    watcher.until(lambda now: now["taken"] > before + 3 and node(now, "head")["age"] < 3 and node(now, "w1")["age"] < 15)
    assert not faults(watcher.now, "ray.")
    nvml.remove(head.state, "hang")
    print(f"figure: hanging NVML said after {took:.1f} s, over after {watcher.trusts():.1f} s")
    stranger.kill()
    assert by_cockpit(watcher.now, "head") == by_nvml(head)


def test_lost_and_damaged_gpus_are_reported(cluster: Cluster, watcher: Watcher):
    head = cluster.head
    nvml.edit(head.state, lambda lines: [re.sub(r"^(gpu 3 .*?\d+ \d+ \d+ \d+ \d+ \d+) 0 0 ", r"\1 1 0 ", line) for line in lines])
    nvml.edit(head.state, lambda lines: [re.sub(r"^(gpu 4 .*?\d+ \d+ \d+ \d+ \d+ \d+) 0 0 ", r"\1 0 7 ", line) for line in lines])
    watcher.until(lambda now: node(now, "head")["gpus"][3]["fault"] and node(now, "head")["gpus"][4]["ecc"] == 7)
    lost = node(watcher.now, "head")["gpus"][3]
    assert lost["memory_used"] is None
    assert lost["utilization"] is None
    assert "lost" in lost["fault"]
    assert once(head)[0] == 2
    head.reset_gpus()
    watcher.until(lambda now: not node(now, "head")["gpus"][3]["fault"])


def test_mig_devices_are_reported(cluster: Cluster, watcher: Watcher):
    head = cluster.head
    nvml.add(head.state, f"mig 7 0 MIG-11111111 {40 * GIB} {GIB} NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    watcher.until(lambda now: [gpu["index"] for gpu in node(now, "head")["gpus"]][-1] == 7000)
    device = node(watcher.now, "head")["gpus"][-1]
    assert (device["uuid"], device["memory_used"], device["memory_total"]) == ("MIG-11111111", GIB, 40 * GIB)


def test_a_killed_probe_is_reported_and_restarted(watcher: Watcher):
    """It restarts after a second, which may lie between two samples. After each immediate end the pause doubles."""
    ended: set[int] = set()

    def is_told_else_kill(now: Facts) -> bool:
        if any("killed by signal 9" in text for text in faults(now, "probe", "head")):
            return True
        if (probe := watcher.probe).pid not in ended:
            probe.kill()
            ended.add(probe.pid)
        return False

    took = watcher.until(is_told_else_kill)
    back = watcher.trusts()
    assert watcher.probe.pid not in ended
    print(f"figure: killed probe said after {took:.1f} s and {len(ended)} times, back after {back:.1f} s more")


@pytest.mark.incident
def test_after_a_long_sleep_nothing_stays_doubtful(cluster: Cluster, watcher: Watcher):
    asleep = [watcher.process.outer, watcher.probe.outer]
    for process in asleep:
        process.suspend()
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 20)
    for process in asleep:
        process.resume()
    watcher.until(lambda now: now["taken"] > time.time() - 2)
    took = watcher.until(lambda now: not now["faults"] and node(now, "head")["age"] < 3 and node(now, "w1")["age"] < 10, within=120)
    print(f"figure: after a sleep of 20 s well again in {took:.1f} s")


# Parts of Ray


@pytest.mark.incident
def test_a_frozen_dashboard_is_reported_and_probes_continue(cluster: Cluster, watcher: Watcher):
    cluster.part("dashboard").freeze()
    first = watcher.fault("ray.")
    watcher.until(lambda now: now["cluster"]["reachable"] is False)
    watcher.until(lambda now: node(now, "head")["age"] < 3 and node(now, "w1")["age"] < 5)  # w1 is asked over ssh from now on
    assert [each["state"] for each in watcher.now["nodes"]] == ["ALIVE", "ALIVE"]
    assert once(cluster.head)[0] == 2
    cluster.part("dashboard").thaw()
    print(f"figure: frozen dashboard said after {first:.1f} s, over after {watcher.trusts():.1f} s")


def test_a_frozen_gcs_is_reported_until_it_continues(cluster: Cluster, watcher: Watcher):
    cluster.part("gcs").freeze()
    took = watcher.fault("ray.gcs", "GCS does not answer")
    watcher.until(lambda now: node(now, "head")["age"] < 3)
    cluster.part("gcs").thaw()
    print(f"figure: frozen GCS said after {took:.1f} s, over after {watcher.trusts():.1f} s")
    watcher.until(lambda now: [each["state"] for each in now["nodes"]] == ["ALIVE", "ALIVE"])


@pytest.mark.incident
def test_a_frozen_agent_makes_only_its_node_old(cluster: Cluster, watcher: Watcher):
    cluster.part("agent", "w1").freeze()
    took = watcher.until(lambda now: node(now, "w1")["age"] > 20, within=120)
    watcher.until(lambda now: node(now, "head")["age"] < 3)
    assert node(watcher.now, "w1")["state"] == "ALIVE"
    cluster.part("agent", "w1").thaw()
    back = watcher.until(lambda now: node(now, "w1")["age"] < 10)
    print(f"figure: frozen agent's node 20 s old after {took:.1f} s, young again after {back:.1f} s")


def test_an_unreachable_host_is_a_fault_of_that_host_only(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    w1.hold(5, 20 * GIB, title="python finetune.py")
    watcher.until(lambda now: "foreign" in kinds(now, "w1").values())
    w1.set_network("down")
    took = watcher.fault("probe", host="w1")
    assert {each["host"] for each in watcher.now["faults"]} <= {"w1", None}
    watcher.until(lambda now: node(now, "head")["age"] < 3)
    w1.set_network("up")
    print(
        f"figure: unreachable w1 said after {took:.1f} s, over after {watcher.until(lambda now: not faults(now, 'probe', 'w1'), 60):.1f} s"
    )


@pytest.mark.incident
def test_a_worker_nodes_dead_raylet_is_a_dead_node(cluster: Cluster, watcher: Watcher):
    cluster.part("raylet", "w1").kill()
    took = watcher.until(lambda now: "DEAD" in [each["state"] for each in now["nodes"]])
    dead = next(each for each in watcher.now["nodes"] if each["state"] == "DEAD")
    assert dead["host"] == "w1"
    assert dead["message"]
    assert once(cluster.head)[0] == 2
    theirs = {each["node_id"]: each["state"] for each in listed(cluster, "nodes")}
    assert {each["id"]: each["state"] for each in watcher.now["nodes"]} == theirs
    print(f"figure: dead node said after {took:.1f} s: {dead['message']}")
    cluster.command(cluster.lab["w1"], f"ray start --address={cluster.gcs_address} --num-cpus=16 --object-store-memory=100000000")
    watcher.until(lambda now: node(now, "w1")["state"] == "ALIVE")
    watcher.until(lambda now: node(now, "w1")["gpus"] and len(node(now, "w1")["gpus"]) == 8)


@pytest.mark.incident
def test_a_killed_gcs_is_reported_and_known_facts_stay(cluster: Cluster, watcher: Watcher):
    cluster.part("gcs").kill()
    took = watcher.fault("ray.")
    watcher.until(lambda now: node(now, "head")["age"] < 3)
    assert once(cluster.head)[0] != 0
    print(f"figure: killed GCS said after {took:.1f} s")


@pytest.mark.incident
def test_a_killed_dashboard_leftovers_of_ray_stop_and_a_new_cluster_at_the_old_port(cluster: Cluster, watcher: Watcher):
    old = watcher.now["cluster"]["session"]
    cluster.submit("evaluation", "python evaluate.py")
    eventually(lambda: cluster.job("evaluation") == "FAILED", within=120)
    engine, host = next((engine, host) for host in cluster.hosts for engine in host.matching("VLLM::EngineCore"))
    cluster.part("dashboard").kill()
    took = watcher.until(lambda now: now["cluster"]["reachable"] is False)
    watcher.until(lambda now: node(now, "head")["age"] < 3)
    assert once(cluster.head)[0] == 2
    for each in cluster.hosts:
        cluster.command(each, "ray stop --force")
    watcher.until(lambda now: {(each["host"], each["name"], each["live"]) for each in now["sessions"]} >= {("head", old, False)})
    watcher.until(lambda now: kinds(now, host.name).get(engine.pid) == "orphan")
    assert once(cluster.head)[0] == 3
    cluster.start()
    back = watcher.until(lambda now: now["cluster"]["reachable"] and now["cluster"]["session"] != old, within=120)
    watcher.trusts()
    watcher.until(lambda now: [each["state"] for each in now["nodes"]] == ["ALIVE", "ALIVE"])
    watcher.until(lambda now: now["jobs"] == [] and len(node(now, "w1")["gpus"]) == 8)
    assert old not in json.dumps([watcher.now[part] for part in ("cluster", "nodes", "actors", "placement_groups", "jobs")])
    watcher.until(lambda now: kinds(now, host.name).get(engine.pid) == "orphan")
    print(f"figure: killed dashboard said after {took:.1f} s, the new cluster known {back:.1f} s after it was there")


@pytest.mark.old_ray
def test_an_old_ray_is_read_too(old_cluster: Cluster):
    code, facts, _ = once(old_cluster.head)
    assert code == 0
    assert facts["cluster"]["ray_version"].startswith("2.")
    assert [each["state"] for each in facts["nodes"]] == ["ALIVE"]
    assert by_cockpit(facts, "old") == by_nvml(old_cluster.head)
    assert set(kinds(facts, "old").values()) <= {"ray", "child"}
    sample = json.loads(old_cluster.head.ssh(f"{sys.executable} -m cockpit.probe --once </dev/null").splitlines()[1])
    version = facts["cluster"]["ray_version"]
    assert {(ray["role"], ray["ray"]) for ray in sample["rays"]} == {("raylet", version), ("gcs_server", version)}
    assert [pointer["alive"] for pointer in sample["pointers"]] == [True, True]


def test_a_missing_wrong_or_right_token(token_cluster: Cluster):
    head, token = token_cluster.head, str(token_cluster.token)
    _, missing, _ = once(head)
    assert "requires a token, and none was found" in faults(missing, "ray.")[0]
    _, wrong, _ = once(head, env="RAY_AUTH_TOKEN=" + "0" * 64)
    assert "rejects the token" in faults(wrong, "ray.")[0]
    code, right, _ = once(head, env=f"RAY_AUTH_TOKEN={token}")
    assert (code, right["faults"], right["cluster"]["auth"]) == (0, [], "token")
    assert [facts["findings"][0]["code"] for facts in (missing, wrong)] == ["token-missing", "token-refused"]
    assert token not in json.dumps([missing, wrong, right])
