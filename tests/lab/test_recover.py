"""One command recovers a broken cluster. Where it cannot, it stops at the right step with the right words."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cockpit.presets import read_preset
from tests.lab import hosts
from tests.lab.cluster import ENV, Cluster, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, is_alive
from tests.lab.leftovers import OLD, leave_engine, leave_session
from tests.lab.observe import COCKPIT, by_nvml, run_json, screen, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30
TRAIN = """
import ray, time
ray.init(address="auto")
@ray.remote(num_gpus=8)
class Trainer:
    def gpus(self):
        return ray.get_gpu_ids()
trainers = [Trainer.remote() for _ in range(2)]
print(sum(len(gpus) for gpus in ray.get([one.gpus.remote() for one in trainers])), "GPUs are at work", flush=True)
time.sleep(10000)
"""
AT_WORK = "16 GPUs are at work"
SECRET = "sk-" + "5e" * 20
PRESET: dict[str, Any] = {
    "ray": {
        "head": {"host": "head", "port": 6379, "dashboard_host": "0.0.0.0", "dashboard_port": 8265},
        "workers": [{"host": "w1"}],
        "env": {**ENV, "RAY_AUTH_MODE": "disabled", "TRAIN_API_KEY": "${TRAIN_API_KEY}"},
        "python": str(RAY.with_name("python")),
    },
    "job": {"entrypoint": "python /tmp/jobs/train.py", "entrypoint_num_cpus": 0},
    "needs": {"bundles": [{"GPU": 8, "count": 2}]},
}
FLAGS = {"num_gpus": 8, "num_cpus": 8, "object_store_memory": "100MB", "disable_usage_stats": True}
"""Flags of a Ray that died yesterday."""


class Pair:
    """Two hosts without a Ray, and the preset on the head."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.head, self.worker = lab, lab["head"], lab["w1"]
        self.cluster = Cluster(lab, ["head", "w1"], RAY)
        write_config(lab)
        for host in lab.hosts.values():
            (host.tmp / "jobs").mkdir()
            (host.tmp / "jobs" / "train.py").write_text(TRAIN)

    def preset(self, name: str, **changed: Any) -> str:
        """Writes the preset on the head; `changed` replaces parts of it."""
        given = {name: part for name, part in json.loads(json.dumps({**PRESET, **changed})).items() if part is not None}
        for node in (given["ray"]["head"], *given["ray"]["workers"]):
            node.update({key: value for key, value in FLAGS.items() if key not in node})
        (self.head.tmp / f"{name}.yaml").write_text(json.dumps(given))
        return f"/tmp/{name}.yaml"

    def recover(self, words: str, host: Host | None = None) -> tuple[int, dict[str, Any], str]:
        """The command's exit code, its JSON and its stderr."""
        return run_json(host or self.head, f"TRAIN_API_KEY={SECRET} {COCKPIT} recover {words} --yes --json", 280)

    def clear(self) -> None:
        """Ends Ray and removes everything it has left."""
        self.cluster.stop()
        for host in self.lab.hosts.values():
            host.reset_gpus()

    def at_work(self) -> bool:
        """Whether a job has all GPUs."""
        jobs = [job for job in self.cluster.http.get("/api/jobs/").json() if job["status"] == "RUNNING"]
        logs = [self.cluster.http.get(f"/api/jobs/{job['submission_id']}/logs").json()["logs"] for job in jobs]
        return any(AT_WORK in (text or "") for text in logs)


@pytest.fixture(scope="module")
def made() -> Iterator[Pair]:
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"r{os.getpid() % 100000}", ["head", "w1"], {"PATH": os.environ["PATH"]})
    yield Pair(lab)
    lab.close()


@pytest.fixture
def pair(made: Pair) -> Iterator[Pair]:
    yield made
    made.clear()


def leave_dead_session(host: Host) -> Path:
    """Leaves the folder of a dead session, the link to it, and an address where nothing answers."""
    folder = leave_session(host)
    (folder.parent / "session_latest").unlink(missing_ok=True)
    (folder.parent / "session_latest").symlink_to(f"/tmp/ray/{OLD}")
    (folder.parent / "ray_current_cluster").write_text("10.1.2.3:6379")
    return folder


def by_hand(pair: Pair) -> float:
    """Recovers as a perfect operator would, without mistakes or pauses: the seconds until all GPUs work."""
    began = time.monotonic()
    pair.cluster.start()
    line = f"{RAY} job submit --address {pair.cluster.address} --no-wait -- python /tmp/jobs/train.py"
    pair.cluster.command(pair.head, line)
    eventually(pair.at_work, within=120, every=0.1)
    return time.monotonic() - began


def stop_by_hand(pair: Pair) -> float:
    began = time.monotonic()
    for host in pair.lab.hosts.values():
        pair.cluster.command(host, "ray stop")
    return time.monotonic() - began


def steps(answer: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["state"] for step in answer["steps"]}


def test_a_broken_cluster_is_recovered_and_its_job_runs(pair: Pair):
    preset = pair.preset("ppo", ray={**PRESET["ray"], "python": None})  # the running Ray's Python, the same on w1
    pair.cluster.command(pair.head, "ray start --head --port=6379 --num-cpus=1 --object-store-memory=100000000 --disable-usage-stats")
    before = {process.pid for process in pair.head.matching("raylet/raylet")}  # half up: w1 is missing, and the GPUs are not counted
    engines = [leave_engine(host, 3) for host in pair.lab.hosts.values()]
    dead = [leave_dead_session(host) for host in pair.lab.hosts.values()]
    code, answer, stderr = pair.recover(preset)
    eventually(pair.at_work, within=120, every=0.1)
    assert (code, {*steps(answer).values()}) == (0, {"done"}), (stderr, answer)
    assert [*steps(answer)] == ["stop", "kill-orphans", "clean", "hosts", "start", "wait", "check", "launch", "follow"]
    assert not any(engine.is_alive() for engine in engines)
    assert not any(folder.exists() for folder in dead)
    assert not {process.pid for process in pair.head.matching("raylet/raylet")} & before
    for host in pair.lab.hosts.values():
        assert_outlives_everybody(host)
        assert sum(gpu[4] for gpu in by_nvml(host)) < 30 * GIB
    assert_secret(answer, stderr, pair)


def test_a_preset_saved_from_a_running_ray_recovers_the_same_cluster(pair: Pair):
    pair.cluster.start()
    pair.cluster.submit("train", "python train.py")
    with screen(pair.head) as shown:
        shown.until("nodes 2/2")
        shown.press("5")
        shown.until("train", "RUNNING")
        shown.press("w")
        shown.until("Name:")
        shown.press("Enter")
        shown.until("Preset written")
    file = pair.head.folder / "run/lab/home/.config/cockpit/presets/train.yaml"
    text = file.read_text()
    (worker,) = read_preset(file).ray.workers
    assert (worker.host, worker.flags["num_cpus"], worker.flags["num_gpus"]) == ("w1", 16, 8)
    assert "variables of Ray's environment" in text
    file.write_text(text.replace("ray:\n", f"ray:\n  env: {json.dumps({**ENV, 'RAY_AUTH_MODE': 'disabled'})}\n", 1))
    before = started_as(pair)
    pair.cluster.part("gcs").kill()
    code, answer, stderr = pair.recover("train")
    assert (code, {*steps(answer).values()}) == (0, {"done"}), (stderr, answer)
    eventually(pair.at_work, within=120, every=0.1)
    assert started_as(pair) == before


def started_as(pair: Pair) -> list[list[Any]]:
    """Each node's resources, ports and dashboard address, from the dashboard and the command lines."""
    names = ("--static_resource_list", "--min_worker_port", "--max_worker_port", "--temp_dir", "--object_store_memory", "--gcs-address")
    words = [host.matching("raylet/raylet", "--raylet_socket_name")[0].text.split() for host in pair.cluster.hosts]
    flags = [[word for word in line if word.startswith(names)] for line in words]
    for line in flags:  # free memory differs from start to start
        line[:] = [re.sub(r"memory,\d+,object", "object", word) for word in line]
    board = pair.cluster.part("dashboard").text.split()
    return [*flags, [word for word in board if word.startswith(("--host=", "--port="))]]


def assert_outlives_everybody(host: Host) -> None:
    """Its Ray has no parent, pipe, terminal or log of ours."""
    (raylet,) = host.matching("raylet/raylet")
    assert raylet.outer.terminal() is None
    assert raylet.outer.ppid() == host.init, "its parent is the host's first process"
    assert os.readlink(f"/proc/{raylet.outer.pid}/fd/0") == "/dev/null"
    assert not host.matching("cockpit")


def assert_secret(answer: dict[str, Any], stderr: str, pair: Pair) -> None:
    """The preset's secret is in no command line, log or answer."""
    assert SECRET not in json.dumps(answer) + stderr
    for host in pair.lab.hosts.values():
        logs = [*host.folder.glob("run/lab/home/.local/state/cockpit/*")]
        assert logs
        assert not [log for log in logs if SECRET in log.read_text()]
        assert SECRET not in "".join(process.text for process in host.processes())


@pytest.mark.incident
def test_a_dry_run_lists_every_step_and_changes_nothing(pair: Pair):
    engine = leave_engine(pair.head, 3)
    plan = pair.head.ssh(f"TRAIN_API_KEY={SECRET} {COCKPIT} recover {pair.preset('dry')} --skip clean --dry-run")
    assert plan.startswith("Recover dry on head, w1: no Ray to stop\n")
    assert "\n  clean         skipped\n" in plan
    assert "\n  start         start the head, then all workers, each with its flags" in plan
    assert engine.is_alive()


@pytest.mark.incident
def test_an_unreachable_worker_is_reported_before_anything_is_changed(pair: Pair):
    engine = leave_engine(pair.head, 3)
    code, answer, stderr = pair.recover(pair.preset("far", ray={**PRESET["ray"], "workers": [{"host": "w1"}, {"host": "w9"}]}))
    assert (code, answer["done"], len(answer["failed"])) == (1, [], 1)
    assert stderr.startswith("cockpit: nothing was done: w9: ")
    assert "w1" not in stderr
    assert engine.is_alive()


@pytest.mark.incident
def test_a_used_port_stops_it_before_ray_is_started(pair: Pair):
    thief = pair.head.spawn("python3", "-c", "import socket, time; s = socket.create_server(('', 6379)); time.sleep(1000)")
    preset = pair.preset("taken", job=None)
    engine = leave_engine(pair.worker, 3)
    code, answer, stderr = pair.recover(preset)
    assert code == 1
    assert steps(answer) == {
        "stop": "done",
        "kill-orphans": "done",
        "clean": "done",
        "hosts": "failed",
        "start": "waiting",
        "wait": "waiting",
    }
    assert f"cockpit: step hosts failed: head: port 6379 (port) is taken by python3 {thief.pid} of root\n" in stderr
    assert "continue with: cockpit recover /tmp/taken.yaml --from hosts" in stderr
    assert not engine.is_alive()
    assert thief.is_alive()
    assert not pair.head.matching("raylet/raylet") + pair.worker.matching("raylet/raylet")


@pytest.mark.incident
def test_a_wrong_token_stops_it_and_a_right_one_continues_without_a_second_head(pair: Pair):
    homes = {name: host.folder / "run" / "lab" / "home" / ".ray" for name, host in pair.lab.hosts.items()}
    for number, home in enumerate(homes.values()):
        home.mkdir(exist_ok=True)
        (home / "auth_token").write_text(f"{number}a" * 32)
    env = {**PRESET["ray"]["env"], "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/lab/home/.ray/auth_token"}
    preset = pair.preset("locked", ray={**PRESET["ray"], "env": env}, job=None)
    try:
        code, answer, stderr = pair.recover(preset)
        assert (code, steps(answer)["start"], steps(answer)["wait"]) == (1, "failed", "waiting")
        assert "step start failed: w1: the cluster requires a token: none was given, or a wrong one" in stderr
        assert any(line.startswith("Ray runs on head") for line in answer["left"])
        assert "not started on w1" in answer["left"]
        (raylet,) = pair.head.matching("raylet/raylet")
        (homes["w1"] / "auth_token").write_text("0a" * 32)
        code, answer, stderr = pair.recover(f"{preset} --from start")
        assert (code, stderr) == (0, ""), answer
        assert raylet.is_alive()
        assert "with 16 GPUs joined" in answer["steps"][-1]["lines"][0]
    finally:
        for home in homes.values():
            (home / "auth_token").unlink()


@pytest.mark.incident
def test_a_job_too_large_for_the_hosts_is_reported_before_anything_is_changed(pair: Pair):
    engine = leave_engine(pair.head, 3)
    code, _, stderr = pair.recover(pair.preset("large", needs={"bundles": [{"GPU": 8, "count": 3}]}))
    words = "nothing was done: the job asks for 24 GPUs, but the preset's hosts have 16: it can never fit"
    assert (code, stderr) == (1, f"cockpit: {words}\n")
    assert engine.is_alive()


@pytest.mark.incident
def test_a_job_that_can_never_be_placed_is_not_launched_and_the_cluster_stays(pair: Pair):
    code, answer, stderr = pair.recover(pair.preset("wide", needs={"bundles": [{"GPU": 9}]}))
    assert (code, steps(answer)["check"], steps(answer)["launch"]) == (1, "failed", "waiting")
    assert "step check failed: wide can never fit: " in stderr
    assert pair.cluster.http.get("/api/jobs/").json() == []
    assert [len(host.matching("raylet/raylet")) for host in pair.lab.hosts.values()] == [1, 1]


@pytest.mark.incident
def test_two_operators_at_the_same_time_get_one_cluster_and_one_job(pair: Pair):
    preset = pair.preset("both")
    (pair.worker.tmp / "both.yaml").write_text((pair.head.tmp / "both.yaml").read_text())
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda host: pair.recover(preset, host), pair.lab.hosts.values())
    late = [f"{answer} {stderr}" for code, answer, stderr in (first, second) if code == 1 or "not submitted a second time" in str(answer)]
    assert len(late) == 1, (first, second)
    assert any(lines in late[0] for lines in ("step launch failed: ", "step check failed: ", "not submitted a second time"))
    assert [len(host.matching("raylet/raylet")) for host in pair.lab.hosts.values()] == [1, 1]
    assert len(pair.cluster.http.get("/api/jobs/").json()) == 1
    eventually(pair.at_work, within=120)


@pytest.mark.incident
def test_interrupted_while_the_head_starts_it_continues_with_that_head(pair: Pair):
    preset = pair.preset("broken", job=None)
    line = f"TRAIN_API_KEY={SECRET} exec {COCKPIT} recover {preset} --yes >/tmp/told 2>&1"
    runbook = pair.head.spawn("bash", "-c", line)
    (gcs,) = eventually(lambda: pair.head.matching("gcs/gcs_server"), within=120, every=0.1)
    runbook.outer.terminate()
    eventually(lambda: not runbook.is_alive())
    lines = (pair.head.tmp / "told").read_text()
    assert "aborted in step start\n" in lines
    assert "a `ray start` that had begun continues on its host" in lines
    code, answer, stderr = pair.recover(f"{preset} --from start")
    assert (code, stderr) == (0, ""), answer
    assert gcs.is_alive()
    assert "2 nodes with 16 GPUs joined" in answer["steps"][-1]["lines"][0]


@pytest.mark.incident
def test_another_users_ray_is_left_alone_and_its_use_of_gpus_is_reported(pair: Pair):
    ports = "--port=7777 --dashboard-port=8777 --ray-client-server-port=9777"
    options = "--num-cpus=1 --num-gpus=0 --object-store-memory=100000000 --disable-usage-stats --temp-dir=/tmp/other"
    pair.cluster.command(pair.head, f"ray start --head {ports} {options}")
    theirs = {process.outer for process in pair.head.matching("ray")}
    code, answer, stderr = pair.recover(pair.preset("beside"))
    assert (code, steps(answer)["hosts"], steps(answer)["start"]) == (1, "failed", "waiting")
    assert "port 52365 (dashboard_agent_listen_port) is taken by agent" in stderr
    assert any("another cluster's Ray also runs there and is not touched: session_" in note for note in answer["notes"])
    preset = pair.preset("beside", ray={**PRESET["ray"], "head": {**PRESET["ray"]["head"], "dashboard_agent_listen_port": 52366}})
    code, answer, stderr = pair.recover(f"{preset} --from hosts")
    assert (code, steps(answer)["follow"]) == (0, "done"), stderr
    assert all(map(is_alive, theirs))


@pytest.mark.incident
def test_it_is_as_fast_as_a_perfect_operator(pair: Pair):
    operator = by_hand(pair)
    pair.cluster.part("raylet", "w1").kill()  # half up: the head and its job live
    for host in pair.lab.hosts.values():
        leave_engine(host, 3)
        leave_dead_session(host)
    began = time.monotonic()
    code, answer, stderr = pair.recover(pair.preset("timed"))
    eventually(pair.at_work, within=120, every=0.1)
    took = time.monotonic() - began
    assert code == 0, (stderr, answer)
    assert any("job" in loss for loss in answer["losses"]), answer["losses"]
    operator += stop_by_hand(pair)
    print(f"\nfigure: recover {took:.1f} s, by hand {operator:.1f} s: {took / operator:.2f} times, of 1.3 promised")
    print("figure: of it " + ", ".join(f"{step['name']} {step['took']:.1f} s" for step in answer["steps"]))
    assert took <= 1.3 * operator
