"""In a Slurm allocation `recover` starts Ray in steps that outlive cockpit and its own step, and that end with their Ray."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab
from tests.lab.observe import COCKPIT, run_json
from tests.lab.slurm import FREEZER, Slurm
from tests.lab.slurm_ray import PRESET, WITHOUT_HOSTS

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

SECRET = "sk-" + "5e" * 20


class Allocation:
    """An allocation of two nodes without a Ray, and a login host that may only ask for it."""

    def __init__(self, lab: Lab) -> None:
        self.slurm, self.lab = Slurm(lab, ["head", "w1"], cgroups=FREEZER.is_dir()), lab
        self.head, self.worker = self.slurm.hosts
        self.job = self.slurm.allocate()["SLURM_JOB_ID"]
        self.preset("p")

    def preset(self, name: str, **of_head: Any) -> None:
        """Writes a preset on every host; the head has these additional flags."""
        ray = {**PRESET["ray"], "head": {**PRESET["ray"]["head"], **of_head}}
        for host in self.lab.hosts.values():
            (host.tmp / f"{name}.yaml").write_text(json.dumps({**PRESET, "ray": ray}))
            (host.tmp / "any.yaml").write_text(json.dumps(WITHOUT_HOSTS))

    def cockpit(self, words: str, *, login: bool = False, job: str | None = None) -> tuple[int, dict[str, Any], str]:
        """Runs cockpit in its own step on the first node, or on the login host: exit code, JSON and stderr."""
        step = "" if login else f"srun --overlap --jobid={job or self.job} -N 1 -n 1 -w head "
        host = self.lab["login"] if login else self.head
        return run_json(host, f"export TRAIN_API_KEY={SECRET}; {step}{COCKPIT} {words} --json", 280)

    def steps(self) -> dict[str, str]:
        """The running steps of Ray: id by node."""
        rows = [line.split() for line in self.head.ssh("squeue -h -s -o '%i %j %N'").splitlines()]
        return {node: step for step, name, node in rows if name == "ray"}

    def raylets(self) -> dict[str, int]:
        return {host.name: len(host.matching("raylet/raylet")) for host in self.slurm.hosts}


BOTH = {"head": 1, "w1": 1}
NONE = {"head": 0, "w1": 0}


@pytest.fixture(scope="module")
def allocation() -> Iterator[Allocation]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"sr{os.getpid() % 100000}", ["head", "w1", "login"], {"PATH": f"{os.environ['PATH']}:/usr/sbin", **slurm.ENV})
    made = None
    try:
        made = Allocation(lab)
        yield made
    finally:
        lab.close()
        if made is not None:
            made.slurm.close()


def test_a_check_names_the_next_command(allocation: Allocation):
    code, answer, stderr = allocation.cockpit("check /tmp/p.yaml")
    assert code == 1, stderr
    (later,) = [line for line in answer["lines"] if line["level"] == "later"]
    assert later["text"] == "no Ray runs: checked against the 2 nodes, 16 GPUs that the preset starts"
    assert later["change"] == "`cockpit recover p`"


def test_a_failed_start_is_reported_in_rays_words_and_leaves_no_step(allocation: Allocation):
    allocation.preset("bad", temp_dir="relative")
    code, answer, stderr = allocation.cockpit("recover /tmp/bad.yaml --yes --no-follow")
    assert code == 1, (answer, stderr)
    (failed,) = [step for step in answer["steps"] if step["state"] == "failed"]
    assert failed["name"] == "start"
    assert "`ray start` ended with exit code 1" in failed["error"]
    assert "temp_dir must be absolute path" in failed["error"]
    assert re.search(r"/ray-start-head-[^/ ]+-0\.log\b", failed["error"])
    eventually(lambda: not allocation.steps())


def watched(hosts_: list[Host], over: Event) -> list[str]:
    """The command lines with the secret in them, until `over` is set."""
    found = []
    while not over.is_set():
        found += [process.text for host in hosts_ for process in host.processes() if SECRET in process.text]
    return found


def test_ray_is_started_in_steps_that_outlive_cockpits_own(allocation: Allocation):
    over = Event()
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(watched, allocation.slurm.hosts, over)
        try:
            code, answer, stderr = allocation.cockpit("recover /tmp/p.yaml --yes")
        finally:
            over.set()
    assert code == 0, (answer, stderr)
    assert [step["name"] for step in answer["steps"] if step["state"] == "done"] == [step["name"] for step in answer["steps"]]
    assert any("both are here" in line for line in answer["steps"][-1]["lines"])
    assert [text for text in seen.result() if "export TRAIN_API_KEY" not in text] == [], "but in the shell of this test"
    assert set(allocation.steps()) == {"head", "w1"}
    left = [process.command for host in allocation.slurm.hosts for process in host.matching("srun") if "srun" in process.command[0]]
    assert left == [], "no step of Ray's needs one"
    assert allocation.raylets() == BOTH


def test_the_environment_is_the_presets(allocation: Allocation):
    for host in allocation.slurm.hosts:
        (raylet,) = host.matching("raylet/raylet")
        environ = raylet.outer.environ()
        assert (environ["TRAIN_API_KEY"], environ["RAY_AUTH_MODE"]) == (SECRET, "disabled")
        assert f"{allocation.job}.{environ['SLURM_STEP_ID']}" == allocation.steps()[host.name], "beside what Slurm says of its step"


def test_a_ray_that_runs_in_a_step_is_not_started_again(allocation: Allocation):
    before = allocation.steps()
    code, answer, stderr = allocation.cockpit("recover /tmp/p.yaml --yes --no-follow --from start --skip launch")
    assert code == 0, (answer, stderr)
    assert allocation.steps() == before
    assert allocation.raylets() == BOTH


def test_stop_ends_its_steps(allocation: Allocation):
    code, answer, stderr = allocation.cockpit("stop --yes")
    assert code == 0, (answer, stderr)
    eventually(lambda: not allocation.steps())
    assert allocation.raylets() == NONE


def roles(allocation: Allocation) -> dict[str, int]:
    """The number of GCS processes on each node: the head has one."""
    return {host.name: len(host.matching("gcs_server")) for host in allocation.slurm.hosts}


def test_a_preset_without_hosts_is_checked_against_the_nodes_of_the_job(allocation: Allocation):
    code, answer, stderr = allocation.cockpit("check /tmp/any.yaml")
    assert code == 1, stderr
    (later,) = [line for line in answer["lines"] if line["level"] == "later"]
    assert (
        later["text"] == f"no Ray runs: checked against the 2 nodes, 16 GPUs of Slurm job {allocation.job}, on which the preset starts Ray"
    )


def test_a_preset_without_hosts_starts_on_the_jobs_nodes_with_the_head_on_the_first(allocation: Allocation):
    code, answer, stderr = allocation.cockpit("recover /tmp/any.yaml --yes")
    assert code == 0, (answer, stderr)
    assert f"Slurm job {allocation.job}: the head runs on head, workers on w1" in answer["notes"]
    assert [(row["host"], row["target"]) for row in answer["done"] if row["act"] == "start"] == [("head", "head"), ("w1", "worker")]
    assert allocation.raylets() == BOTH
    assert roles(allocation) == {"head": 1, "w1": 0}
    assert set(allocation.steps()) == {"head", "w1"}
    log = [json.loads(line) for line in allocation.head.ssh("cat ~/.local/state/cockpit/acts.jsonl").splitlines()]
    assert [row["target"] for row in log if row["act"] == "start" and row["outcome"] != "begun"][-2:] == [["head"], ["w1"]]


def test_where_another_job_shares_its_nodes_its_ray_is_left_alone(allocation: Allocation):
    other = allocation.head.ssh("cd /tmp && sbatch --parsable -N 2 --ntasks-per-node=1 -o /dev/null hold.sh").strip()
    eventually(lambda: allocation.head.ssh(f"squeue -h -j {other} -o %T").strip() == "RUNNING")
    try:
        code, answer, stderr = allocation.cockpit("recover /tmp/any.yaml --yes --no-follow", job=other)
        assert code == 1, (answer, stderr)
        assert f"with the same port 6379, belongs to Slurm job {allocation.job}, and is not touched" in stderr
        code, answer, stderr = allocation.cockpit("recover /tmp/any.yaml --yes --no-follow --from launch", job=other)
        assert code == 1, (answer, stderr)
    finally:
        allocation.head.ssh(f"scancel {other}")
    assert allocation.raylets() == BOTH
    assert allocation.cockpit("stop --yes")[0] == 0
    eventually(lambda: not allocation.steps())


def test_a_user_on_the_login_host_names_the_job(allocation: Allocation):
    code, answer, stderr = allocation.cockpit("recover /tmp/any.yaml --yes --no-follow", login=True)
    assert code == 3, (answer, stderr)
    assert "any.yaml:1: ray.head: the preset names no hosts, and cockpit knows no Slurm job whose nodes could be used" in stderr
    job = f"--slurm {allocation.job}"
    code, answer, stderr = allocation.cockpit(f"recover /tmp/any.yaml --yes --no-follow {job} --from launch", login=True)
    assert code == 1, (answer, stderr)
    assert f"no Ray on the nodes of Slurm job {allocation.job} answers: continue with --from start" in stderr
    code, answer, stderr = allocation.cockpit(f"recover /tmp/any.yaml --yes --no-follow {job}", login=True)
    assert code == 0, (answer, stderr)
    assert roles(allocation) == {"head": 1, "w1": 0}
    assert allocation.raylets() == BOTH
    assert set(allocation.steps()) == {"head", "w1"}
    assert allocation.cockpit("stop --yes")[0] == 0
    eventually(lambda: not allocation.steps())


def test_two_operators_start_it_once(allocation: Allocation):
    words = "recover /tmp/p.yaml --yes --no-follow --from start --skip launch"
    with ThreadPoolExecutor() as pool:
        ends = [*pool.map(lambda _: allocation.cockpit(words), range(2))]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert allocation.raylets() == BOTH
    assert eventually(lambda: sorted(allocation.head.ssh("squeue -h -s -o %j").split()) == ["batch", "ray", "ray"])


def test_a_user_on_the_login_host_recovers_it_too(allocation: Allocation):
    before = allocation.steps()
    words = f"recover /tmp/p.yaml --yes --no-follow --slurm {allocation.job} --address http://{allocation.head.address}:8265"
    code, answer, stderr = allocation.cockpit(words, login=True)
    assert code == 0, (answer, stderr)
    assert set(allocation.steps()) == {"head", "w1"}
    assert not set(allocation.steps().values()) & set(before.values())
    assert allocation.raylets() == BOTH


def test_a_start_whose_cockpit_ends_midway_is_not_repeated(allocation: Allocation):
    allocation.cockpit("stop --yes")
    eventually(lambda: not allocation.steps())
    words = "recover /tmp/p.yaml --yes --no-follow --from start --skip launch"
    step = f"srun --overlap --jobid={allocation.job} -N 1 -n 1 -w head --job-name=cockpit {COCKPIT} {words}"
    allocation.head.spawn("bash", "-c", f"export TRAIN_API_KEY={SECRET}; exec {step}")
    eventually(lambda: allocation.head.matching("ray", "start", "--head"), every=0.02)
    allocation.head.ssh("scancel $(squeue -h -s -o '%i %j' | grep ' cockpit$' | cut -d' ' -f1)")
    eventually(lambda: " cockpit" not in allocation.head.ssh("squeue -h -s -o '%i %j'"))
    code, answer, stderr = allocation.cockpit(words)
    assert code == 0, (answer, stderr)
    assert allocation.raylets() == BOTH
    assert set(allocation.steps()) == {"head", "w1"}


def test_scancel_of_its_step_ends_it(allocation: Allocation):
    allocation.head.ssh(f"scancel {shlex.quote(allocation.steps()['w1'])}")
    eventually(lambda: set(allocation.steps()) == {"head"})
    eventually(lambda: allocation.raylets() == {"head": 1, "w1": 0})


def test_it_ends_with_the_job(allocation: Allocation):
    allocation.head.ssh(f"scancel {allocation.job}")
    eventually(lambda: allocation.raylets() == NONE)
    eventually(lambda: not allocation.head.ssh("squeue -h -s -o %i").split())
