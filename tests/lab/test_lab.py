"""The lab itself: hosts like real ones, a real Ray on them, and trouble on demand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from cockpit.demo import nvml
from tests.lab import hosts
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30


def pynvml(host: Host, code: str) -> object:
    """The value that `tell` prints in a Python on the host that has initialized NVML."""
    program = f"import json, pynvml as n\ndef tell(value): print(json.dumps(value))\nn.nvmlInit()\n{code}"
    return json.loads(host.ssh(f"{sys.executable} - <<'END'\n{program}\nEND"))


@pytest.fixture
def head(lab: Lab):
    """A host for experiments; its GPUs are idle again afterwards."""
    yield lab["head"]
    lab["head"].reset_gpus()


def test_a_host_has_its_own_name_files_and_processes(lab: Lab):
    assert lab["w1"].ssh("hostname").strip() == "w1"
    lab["w1"].ssh("touch /tmp/mine /dev/shm/mine ~/mine")
    assert (lab["w1"].tmp / "mine").exists()
    assert lab["head"].ssh("ls /tmp/mine /dev/shm/mine ~/mine 2>/dev/null; true") == ""
    assert lab["head"].ssh("cat /proc/1/comm").strip() == "sshd"
    lab["w1"].ssh("rm /tmp/mine /dev/shm/mine ~/mine")


def test_hosts_reach_each_other_by_name(lab: Lab):
    assert lab["head"].ssh(f"ssh -F {lab.ssh_config} w1 hostname").strip() == "w1"


def test_nvitop_and_pynvml_see_eight_gpus_of_its_own(lab: Lab):
    assert lab["head"].ssh("nvitop -1").count("H100 80GB HBM3") == 8
    ask = "tell([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(n.nvmlDeviceGetCount())])"
    ours, theirs = pynvml(lab["head"], ask), pynvml(lab["w1"], ask)
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    assert len(ours) == len(theirs) == 8
    assert not set(ours) & set(theirs)


def test_memory_belongs_to_the_process_that_holds_it_until_it_dies(head: Host):
    ask = "tell([p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(3))])"
    holder = head.hold(3, 20 * GIB, title="python finetune.py")
    assert pynvml(head, ask) == [holder.pid]
    assert "finetune.py" in holder.text
    holder.kill()
    eventually(lambda: pynvml(head, ask) == [])


def test_trouble_with_gpus_is_seen_from_inside(head: Host):
    nvml.add(head.state, "mig 7 0 MIG-11111111 42949672960 0 NVIDIA H100 80GB HBM3 MIG 3g.40gb", "error 15 nvmlDeviceGetName")
    assert pynvml(head, "tell(n.nvmlDeviceGetMigMode(n.nvmlDeviceGetHandleByIndex(7))[0])") == 1
    with pytest.raises(AssertionError, match="GpuIsLost"):
        pynvml(head, "n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(0))")
    nvml.add(head.state, "hang forever nvmlInit")
    with pytest.raises(subprocess.TimeoutExpired):
        head.ssh(f"timeout 5 {sys.executable} -c 'import pynvml; pynvml.nvmlInit()'", timeout=1)


def test_a_lab_whose_owner_was_killed_is_removed(tmp_path: Path):
    program = (
        "import sys, time; from tests.lab.hosts import Lab; lab = Lab('swept', ['a']); print(lab['a'].init, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=-1, text=True) as owner:
        assert owner.stdout
        init = int(owner.stdout.readline())
        owner.kill()
    eventually(lambda: not psutil.pid_exists(init))
    assert (hosts.ROOT / "swept").exists()
    hosts.sweep()
    assert not (hosts.ROOT / "swept").exists()
    assert "ckswept" not in subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout


def test_rays_agents_report_sixteen_gpus(cluster: Cluster):
    eventually(lambda: {node["hostname"]: len(node["gpus"]) for node in cluster.nodes()} == {"head": 8, "w1": 8})
    assert cluster.nodes()[0]["raylet"]["resourcesTotal"]["GPU"] == 8


def test_rays_agents_report_who_holds_memory(cluster: Cluster):
    w1 = cluster.lab["w1"]
    holder = w1.hold(5, 20 * GIB)
    eventually(lambda: cluster.holders(w1, 5) == [holder.pid])


def test_a_failed_jobs_engine_survives_it_and_ray_stop(cluster: Cluster):
    cluster.submit("evaluation", "python evaluate.py")
    eventually(lambda: cluster.job("evaluation") == "FAILED")
    engine = next(engine for host in cluster.hosts for engine in host.matching("VLLM::EngineCore"))
    host = next(host for host in cluster.hosts if host.matching("VLLM::EngineCore"))
    for each in cluster.hosts:
        cluster.command(each, "ray stop --force")
    assert not host.matching("raylet/raylet")
    assert [left.pid for left in host.matching("VLLM::EngineCore")] == [engine.pid]
    assert engine.outer.ppid() == host.init
    assert f" {engine.pid} {int(21.4 * GIB)} " in host.state.read_text()


def test_a_broken_cluster_is_repaired(running: Cluster):
    sessions = running.http.get("/api/version").json()["session_name"]
    running.part("raylet", "w1").kill()
    running.heal()
    assert running.complete()
    assert running.http.get("/api/version").json()["session_name"] != sessions


def test_a_frozen_part_continues_and_keeps_its_session(running: Cluster):
    session = running.http.get("/api/version").json()["session_name"]
    running.part("gcs").freeze()
    assert running.part("gcs").outer.status() == psutil.STATUS_STOPPED
    running.heal()
    assert running.complete()
    assert running.http.get("/api/version").json()["session_name"] == session


def test_repair_ends_jobs_and_frees_gpus(running: Cluster):
    running.submit("endless", "python train_ppo_ray.py --actor.num_gpus_per_node 1 --critic.num_gpus_per_node 1")
    holder = running.head.hold(0, GIB)
    eventually(lambda: running.job("endless") == "RUNNING")
    running.heal()
    assert running.job("endless") == "STOPPED"
    assert not holder.is_alive()
    assert "proc" not in running.head.state.read_text()


def test_a_cluster_with_a_token_requires_it(token_cluster: Cluster):
    assert httpx.get(f"{token_cluster.address}/api/version", trust_env=False).status_code == 401
    assert token_cluster.http.get("/api/version").is_success


@pytest.mark.old_ray
def test_an_old_ray_starts_too(old_cluster: Cluster):
    assert old_cluster.http.get("/api/version").json()["ray_version"].startswith("2.")
    assert len(old_cluster.nodes()[0]["gpus"]) == 8
    old_cluster.submit("evaluation", "python prepare_data.py")
    eventually(lambda: old_cluster.job("evaluation") == "SUCCEEDED", within=120)
