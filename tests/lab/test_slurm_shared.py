"""Two users' Slurm jobs on the same nodes, each with a Ray: neither is called dead or a rival, or touched by the other's actions."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, Process
from tests.lab.leftovers import leave_process
from tests.lab.observe import COCKPIT, Facts, action, once
from tests.lab.slurm import Slurm
from tests.lab.user import User, add_user, can_run

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(1200)]

HOLD = '#!/bin/bash\nenv | grep ^SLURM_ > "$HOME/allocation"\nsleep infinity\n'
PARTS = ("gcs/gcs_server", "raylet/raylet", "dashboard", "ray::", "ray start")
NODES = ("head", "w1")
UIDS = {"train": 12345, "other": 12346}
ENV_OF_ROOT = "export RAY_AUTH_MODE=disabled;"


@dataclass(frozen=True)
class Inside:
    """A step of a job on a node, started by its user from the login host; used like a host."""

    job: Job
    node: str = "head"

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        step = f"export {self.job.env}; exec srun --overlap --quiet -N 1 -n 1 -w {self.node} bash -c {shlex.quote(command)}"
        return self.job.login.ssh(step, timeout, check)


class Job:
    """A user's job on both nodes, with a Ray that has its own ports and temp dir."""

    def __init__(self, slurm: Slurm, users: Mapping[str, User], number: int, *, has_ray: bool = True) -> None:
        """`users`: the same user on each host."""
        self.slurm, self.users, self.login = slurm, users, users["login"]
        self.user, self.temp = self.login.login, f"/tmp/of-{self.login.login}"
        env = {**self._allocate(users["head"]), **ENV, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": self.temp}
        self.id = env["SLURM_JOB_ID"]
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        self.address = f"--address http://127.0.0.1:{8265 + number}"
        self.words = f"{self.address} --hosts head,w1"
        if has_ray:
            self._start(number)

    def _allocate(self, user: User) -> Mapping[str, str]:
        home = user.host.folder / "run" / "lab" / f"home-{self.user}"
        (home / "hold.sh").write_text(HOLD)
        (home / "allocation").unlink(missing_ok=True)
        user.ssh("sbatch -N 2 -n 2 --ntasks-per-node=1 --overcommit -o /dev/null hold.sh")
        text: str = eventually(lambda: (home / "allocation").read_text())
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def _start(self, number: int) -> None:
        head, more = self.slurm.head, "--num-cpus=2 --object-store-memory=100000000 --disable-usage-stats --block"
        workers = f"--min-worker-port={20000 + 1000 * number} --max-worker-port={20999 + 1000 * number}"
        apart = f"--dashboard-agent-listen-port={52365 + number} {workers}"
        own = f"--port={6379 + number} --dashboard-port={8265 + number} --ray-client-server-port={10001 + number}"
        self._step("head", f"{RAY} start --head --node-ip-address={head.address} {own} {apart} {more}")
        eventually(lambda: head.ssh(f"curl -s -m 5 http://127.0.0.1:{8265 + number}/api/version", check=False))
        self._step("w1", f"{RAY} start --address={head.address}:{6379 + number} {apart} {more}")
        eventually(lambda: [node["state"] for node in self.look()["nodes"] or ()] == ["ALIVE", "ALIVE"])

    def _step(self, node: str, command: str) -> None:
        self.login.spawn("bash", "-c", f"export {self.env}; exec srun --overlap -N 1 -n 1 -w {node} {command}")

    @property
    def inside(self) -> Inside:
        return Inside(self)

    def look(self) -> Facts:
        """The status of both nodes that its user sees."""
        return once(self.inside, self.words)[1]

    @property
    def session(self) -> str:
        """The session name of its Ray."""
        return next(path.name for path in self.folder(self.slurm.head).glob("session_2*"))

    def folder(self, host: Host) -> Path:
        """The folder of its sessions, seen from outside."""
        return host.folder / self.temp[1:] / "ray"

    def parts(self, node: str) -> list[Process]:
        """The processes of its Ray on a node."""
        host = next(host for host in self.slurm.hosts if host.name == node)
        return [one for one in host.processes() if any(words in one.text for words in PARTS) and self._has(one)]

    def _has(self, process: Process) -> bool:
        """Only root writes the cgroup of a process."""
        return f"/job_{self.id}/" in Path(f"/proc/{process.outer.pid}/cgroup").read_text()


class Root:
    """Root on the first node; its /proc/PID/cgroup begins as on a real host."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm, self.name = slurm, "head"

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        return self.slurm.head.ssh(f"{self.slurm.in_its_cgroups()} bash -c {shlex.quote(command)}", timeout, check)


class Shared:
    """The nodes with the two jobs."""

    def __init__(self, lab: Lab) -> None:
        users = [{name: add_user(host, user, UIDS[user]) for name, host in lab.hosts.items()} for user in UIDS]
        if not can_run(users[0]["login"], str(COCKPIT)):
            pytest.skip(f"users without root can't run {COCKPIT}")
        self.slurm = Slurm(lab, ["head", "w1"], cgroups=True)
        self.train, self.other = (Job(self.slurm, user, number) for number, user in enumerate(users))

    def view(self, who: str) -> tuple[Inside | Root, str]:
        """The place from which this user looks, and the words of the command."""
        if who == "root":
            return Root(self.slurm), self.other.address
        job = self.train if who == "train" else self.other
        return job.inside, job.words


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    lacking = None if slurm.FREEZER.is_dir() else f"needs {slurm.FREEZER} (cgroup version 1)"
    if reason := hosts.why_not() or slurm.why_no_slurm() or lacking or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    path = f"{RAY.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    lab, made = Lab(f"sh{os.getpid() % 100000}", ["head", "w1", "login"], {"PATH": path, **slurm.ENV}), None
    try:
        made = Shared(lab)
        yield made
    finally:
        lab.close()
        if made is not None:
            made.slurm.close()


everybody = pytest.mark.parametrize("who", ["train", "other", "root"])


@everybody
def test_both_rays_live_and_no_finding_is_about_either(shared: Shared, who: str):
    place, words = shared.view(who)
    facts = once(place, words, ENV_OF_ROOT)[1]
    nodes = {"head"} if who == "root" else {"head", "w1"}
    rays = {(job.session, job.user) for job in (shared.train, shared.other)}
    assert {(one["host"], one["name"], one["owner"], one["live"]) for one in facts["sessions"]} == {
        (node, *ray, True) for node in nodes for ray in rays
    }
    assert not [finding for finding in facts["findings"] if any(session in json.dumps(finding) for session, _ in rays)]
    assert not [fault for fault in facts["faults"] if fault["source"] != "nvml"]


@everybody
def test_no_process_of_either_job_is_called_a_leftover(shared: Shared, who: str):
    """The owner of Ray's client server is in its environment, which another user cannot read: nothing follows from it."""
    place, words = shared.view(who)
    facts = once(place, words, ENV_OF_ROOT)[1]
    assert {process["user"] for process in facts["processes"]} == {"train", "other"}
    assert not [process for process in facts["processes"] if process["kind"] in ("orphan", "stale")]
    unknown = [process for process in facts["processes"] if process["kind"] == "unknown"]
    assert not [process for process in unknown if who in ("root", process["user"]) or "client.server" not in process["command"]]


@everybody
@pytest.mark.parametrize("command", ["kill-orphans", "clean"])
def test_ending_leftovers_touches_neither_job(shared: Shared, who: str, command: str):
    place, words = shared.view(who)
    before = [part for job in (shared.train, shared.other) for node in NODES for part in job.parts(node)]
    nodes = "head" if who == "root" else "head w1"
    assert not action(place, f"{command} {nodes} --yes {words}", ENV_OF_ROOT)[1]["done"]
    assert len(before) > 20
    assert all(part.is_alive() for part in before)


def test_a_users_leftovers_are_ended_by_that_user_only(shared: Shared):
    worker = shared.slurm.hosts[1]
    engine = leave_process(worker, "-a VLLM::EngineCore sleep 10000", UIDS["other"])
    for who, done in (("train", []), ("other", [("w1", engine.pid)])):
        place, words = shared.view(who)
        ended = action(place, f"kill-orphans w1 --yes {words}")[1]["done"]
        assert [(row["host"], row["pid"]) for row in ended] == done
        assert engine.is_alive() is (not done)


@everybody
def test_only_the_named_ray_would_be_stopped(shared: Shared, who: str):
    place, words = shared.view(who)
    plan = action(place, f"stop --dry-run {words}", ENV_OF_ROOT)[1]["plan"]
    meant, spared = (shared.train, shared.other) if who == "train" else (shared.other, shared.train)
    for node in ("head",) if who == "root" else NODES:
        ends = {row["pid"] for row in plan if row["host"] == node}
        assert {part.pid for part in meant.parts(node) if "raylet/raylet" in part.text} <= ends
        assert ends.isdisjoint(part.pid for part in spared.parts(node))


def test_one_job_is_stopped_and_cleaned_and_the_other_continues(shared: Shared):
    train, other = shared.train, shared.other
    before, folder = [part for node in NODES for part in other.parts(node)], train.session
    assert action(train.inside, f"stop --yes {train.words}")[0] == 0
    assert action(train.inside, f"clean head w1 --yes {train.words}")[0] in (0, 1), "it cannot know whether the other's lives"
    assert before
    assert all(part.is_alive() for part in before)
    assert not [part for node in NODES for part in train.parts(node) if "raylet/raylet" in part.text]
    for host in shared.slurm.hosts:
        assert not (train.folder(host) / folder).exists()
        assert (other.folder(host) / other.session).exists()
    assert [node["state"] for node in other.look()["nodes"]] == ["ALIVE", "ALIVE"]


def test_a_user_who_stopped_the_own_ray_is_not_led_to_the_others(shared: Shared):
    code, _, stderr = once(shared.train.inside, "--hosts head,w1")
    assert code == 3
    assert stderr.startswith("cockpit: only Ray sessions of other users or of other Slurm jobs run on this host; name one with --address:")
    assert f"{shared.other.session} of other" in stderr


def test_a_ray_of_the_users_other_job_is_neither_followed_nor_stopped(shared: Shared):
    train, other = shared.train, shared.other
    train.login.ssh(f"scancel {train.id}")
    second = Job(shared.slurm, other.users, 1, has_ray=False)
    before = [part for node in NODES for part in other.parts(node)]
    code, _, stderr = once(second.inside, "--hosts head,w1")
    assert (code, stderr.splitlines()[0]) == (
        3,
        "cockpit: only Ray sessions of other users or of other Slurm jobs run on this host; name one with --address:",
    )
    assert f"{other.session} of Slurm job {other.id}" in stderr
    for place, words in ((second.inside, "--hosts head,w1"), (other.login, f"--slurm {second.id}")):
        code, answer, stderr = action(place, f"stop --yes {words}")
        assert code in (1, 3)
        assert "Slurm job" in json.dumps(answer) + stderr
    assert before
    assert all(part.is_alive() for part in before)
    assert [node["state"] for node in other.look()["nodes"]] == ["ALIVE", "ALIVE"]
    named = action(other.login, f"stop --dry-run --session {other.session} --slurm {second.id}")[1]
    assert {part.pid for part in other.parts("head") if "raylet/raylet" in part.text} <= {row["pid"] for row in named["plan"]}
