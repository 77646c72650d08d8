"""An operator's actions on a cluster in trouble, by cockpit's commands on the head: exactly what was meant, and nothing else."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Process
from tests.lab.leftovers import leave_process, leave_session
from tests.lab.observe import Screen, action, by_nvml, once, screen, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30
HELD = int(21.4 * GIB)
"""GPU memory that the evaluation engine holds."""
ENGINE = """
import models, ray, time
ray.init(address="auto", log_to_driver=False)
node = next(one["NodeID"] for one in ray.nodes() if not one["Resources"].get("node:__internal_head__"))
place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
engine = ray.remote(models.LLMRayActor).options(num_gpus=1, scheduling_strategy=place).remote(engine_gigabytes=30)
ray.get(engine.ready.remote())
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def config(cluster: Cluster) -> None:
    write_config(cluster.lab)
    for host in cluster.hosts:
        log_of(host).unlink(missing_ok=True)


def log_of(host: Host) -> Path:
    return host.folder / "run" / "lab" / "home" / ".local" / "state" / "cockpit" / "acts.jsonl"


def orphan_on(cluster: Cluster, name: str) -> tuple[Host, Process]:
    """An engine that holds GPU memory after its actor and job have died."""
    cluster.submit(name, "python evaluate.py")
    eventually(lambda: cluster.job(name) == "FAILED", within=120)
    return eventually(lambda: next((each for each in engines(cluster) if f" {each[1].pid} {HELD} " in each[0].state.read_text()), None))


def engines(cluster: Cluster) -> list[tuple[Host, Process]]:
    return [(host, one) for host in cluster.hosts for one in host.matching("VLLM::EngineCore")]


def rows(answer: dict[str, Any], what: str) -> list[tuple[str, Any]]:
    return [(row["host"], row.get("pid") or row.get("path") or row["target"]) for row in answer[what]]


def is_focused(seen: Screen, button: str) -> bool:
    """Whether the button beside Cancel is drawn in reverse."""
    line = next((line for line in seen.raw.splitlines() if "Cancel" in line and button in line), "")
    codes = re.findall(r"\x1b\[([\d;]*)m", line.rpartition("Cancel")[2].partition(button)[0])
    return any("7" in code.split(";") for code in codes if not code.startswith(("38", "48")))


def used(host: Host) -> int:
    return sum(gpu[4] for gpu in by_nvml(host))


def test_an_orphan_is_ended_from_the_head_and_its_memory_is_free(cluster: Cluster):
    host, engine = orphan_on(cluster, "left")
    idle = cluster.lab["head"].hold(6, 2 * GIB, title="python finetune.py")
    before = used(host)
    code, plan, stderr = action(cluster.head, "kill-orphans --dry-run")
    assert (code, stderr, rows(plan, "plan")) == (0, "", [(host.name, engine.pid)])
    began = time.monotonic()
    code, answer, stderr = action(cluster.head, "kill-orphans --yes")
    took = time.monotonic() - began
    assert (code, stderr, rows(answer, "done")) == (0, "", [(host.name, engine.pid)])
    assert answer["freed"]["gpu"] == HELD
    assert used(host) < before
    assert idle.is_alive()
    assert action(cluster.head, "kill-orphans --yes")[:1] == (0,)
    lines = [json.loads(line) for line in log_of(cluster.head).read_text().splitlines()]
    assert [line["act"] for line in lines] == ["kill-orphans", "kill-orphans"]
    print(f"figure: orphan on {host.name} found from the head, ended and freed (measured) in {took:.1f} s, the whole command")
    idle.kill()


def test_a_live_job_is_untouched_when_an_orphan_is_ended(cluster: Cluster):
    cluster.submit("train", "python train_ppo_ray.py")
    eventually(lambda: sum(len(host.matching("ray::PolicyModelActor")) for host in cluster.hosts) >= 1, within=120)
    host, engine = orphan_on(cluster, "left-beside")
    alive = {(each.name, one.pid) for each in cluster.hosts for one in each.processes() if one.pid != engine.pid}
    code, answer, _ = action(cluster.head, "kill-orphans --yes --force")
    assert (host.name, engine.pid) in rows(answer, "done")
    assert not {one for one in rows(answer, "done") if one in alive}
    assert cluster.job("train") == "RUNNING"
    assert code == 0


def test_a_session_is_stopped_on_both_hosts_and_then_cleaned(cluster: Cluster):
    idle = {host.name: used(host) for host in cluster.hosts}
    cluster.submit("train-all", "python train_ppo_ray.py")
    eventually(lambda: any(host.matching("ray::PolicyModelActor") for host in cluster.hosts), within=120)
    session = once(cluster.head)[1]["cluster"]["session"]
    live = action(cluster.head, "clean --yes")[1]
    assert not live["done"]
    assert [row["reason"] for row in live["refused"] if row.get("path", "").endswith(session)]
    code, answer, stderr = action(cluster.head, "stop --yes")
    assert (code, stderr, answer["failed"]) == (0, "", []), [(row["command"], row["reason"]) for row in answer["refused"]]
    assert any("job train-all" in loss for loss in answer["losses"])
    for host in cluster.hosts:
        assert not host.matching("raylet/raylet") + host.matching("gcs_server") + host.matching("dashboard") + host.matching("ray::")
        assert not host.matching("VLLM::EngineCore")
        assert used(host) == idle[host.name]
    code, answer, stderr = action(cluster.head, "clean head w1 --yes")  # without its Ray the head does not know w1
    assert code == 0, answer
    assert {row["host"] for row in answer["done"] if row["what"] == "session"} == {"head", "w1"}
    assert answer["freed"]["disk"]
    for host in cluster.hosts:
        assert not list((host.tmp / "ray").glob("session_2*")), host.name


@pytest.mark.incident
def test_an_orphan_that_ray_stop_left_on_a_worker_is_ended_from_the_head(cluster: Cluster):
    """An operator stopped Ray on w1 and then the job. An engine there still holds 30 GiB."""
    w1 = cluster.lab["w1"]
    idle = used(w1)
    cluster.submit("engine-on-w1", f"python -c {shlex.quote(ENGINE)}")
    engine = eventually(lambda: next(iter(w1.matching("VLLM::EngineCore")), None), within=120)
    eventually(lambda: used(w1) > idle)
    cluster.command(w1, "ray stop")
    assert engine.is_alive()
    answer = action(cluster.head, "kill-orphans --yes --hosts w1")[1]
    assert not answer["done"], "its job still runs, Ray says"
    cluster.stop_jobs()
    assert engine.is_alive()
    code, answer, stderr = action(cluster.head, "kill-orphans --yes --hosts w1")
    assert (stderr, rows(answer, "done")) == ("", [("w1", engine.pid)]), answer
    assert code == 0
    assert answer["freed"]["gpu"] == 30 * GIB
    assert used(w1) == idle
    print(
        f"figure: an orphan on w1 ended over ssh and its memory freed (measured) {answer['took']:.2f} s after confirming, of 2 s promised"
    )


def test_a_process_of_another_user_is_ended_only_if_root_names_it(cluster: Cluster):
    w1 = cluster.lab["w1"]
    theirs = leave_process(w1, "sleep 10000", user=65534)
    code, answer, _ = action(cluster.head, "kill-orphans --yes")
    assert (code, answer["done"]) == (1, [])
    assert [(row["host"], row["pid"]) for row in answer["refused"]] == [("w1", theirs.pid)]
    assert "to kill it, put the cursor on it, or name it by --pid" in answer["refused"][0]["reason"]
    assert theirs.is_alive()
    code, answer, _ = action(cluster.head, f"kill-orphans w1 --pid {theirs.pid} --yes")
    assert (code, rows(answer, "done")) == (0, [("w1", theirs.pid)])
    shutil.rmtree(leave_session(w1))


def test_a_terminal_that_closes_during_a_plan_changes_nothing(cluster: Cluster):
    _, engine = orphan_on(cluster, "cut")
    with screen(cluster.head) as seen:
        seen.until("Overview")
        seen.press("K")
        seen.until("Cancel", f"{engine.pid}")
    assert engine.is_alive()
    assert not log_of(cluster.head).exists()


def test_an_orphan_is_ended_from_the_screen(cluster: Cluster):
    idle = {host.name: used(host) for host in cluster.hosts}
    host, engine = orphan_on(cluster, "seen")
    with screen(cluster.head) as seen:
        seen.until("Overview")
        seen.press("K")
        seen.until("Cancel", f"{engine.pid}")
        eventually(lambda: is_focused(seen, "Kill orphans") or seen.press("Tab"), every=1)  # a key that comes too soon is ignored
        seen.press("Enter")
        seen.until("freed (measured)", within=120)
        assert not engine.is_alive()
        eventually(lambda: seen.press("Escape") or "Close" not in seen.text)
    assert used(host) == idle[host.name]
