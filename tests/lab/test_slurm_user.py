"""A user without root or ssh to the nodes, in a Slurm job with its own /tmp: the job is seen, acted on, and never misjudged."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, Process
from tests.lab.leftovers import OLD, RAYLET, leave_engine
from tests.lab.observe import COCKPIT, Facts, action, kinds_on, once, screen
from tests.lab.slurm import Slurm
from tests.lab.user import User, add_user, can_run
from tests.probe.orphans import dead_session

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

UID, STRANGER = 12345, 12346
JOBS = "/run/slurm/jobs"
CONF = "PrologFlags=contain\nJobContainerType=job_container/tmpfs\n"
START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats --block"
HOLD = '#!/bin/bash\nenv | grep ^SLURM_ > "$HOME/allocation"\nsleep infinity\n'
MEANT = "--address http://127.0.0.1:8265"
"""Another user's Ray is followed only if a person names it."""


@dataclass(frozen=True)
class Inside:
    """A step of the job on one node, as its user starts it from a login."""

    user: User
    env: str
    node: str

    def ssh(self, command: str, timeout: float = 120, check: bool = True) -> str:
        step = f"export {self.env}; exec srun --overlap --quiet -N 1 -n 1 -w {self.node} bash -c {shlex.quote(command)}"
        return self.user.ssh(step, timeout, check)


class Job:
    """A job of two nodes with a Ray in it, all owned by the user."""

    def __init__(self, lab: Lab) -> None:
        self.users = {name: add_user(host, "train", UID) for name, host in lab.hosts.items()}
        self.strangers = {name: add_user(host, "other", STRANGER) for name, host in lab.hosts.items()}
        if not can_run(self.users["login"], str(COCKPIT)):
            pytest.skip(f"users without root can't run {COCKPIT}")
        for host in lab.hosts.values():
            (host.folder / "run" / "lab" / "job_container.conf").write_text(f"AutoBasePath=true\nBasePath={JOBS}\n")
        self.slurm, self.login = Slurm(lab, ["head", "w1"], CONF), self.users["login"]
        self.head, self.worker = self.slurm.hosts
        env = {**self._allocate(), **ENV, "RAY_AUTH_MODE": "disabled"}
        self.id = env["SLURM_JOB_ID"]
        self.env = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        self.start()

    def _allocate(self) -> dict[str, str]:
        home = self.head.folder / "run" / "lab" / "home-train"
        (home / "hold.sh").write_text(HOLD)
        self.users["head"].ssh("sbatch -N 2 --ntasks-per-node=1 --overcommit -o /dev/null hold.sh")
        text: str = eventually(lambda: (home / "allocation").read_text())
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def start(self) -> None:
        self.step("head", f"{RAY} start --head --port=6379 --node-ip-address={self.head.address} {START}")
        eventually(lambda: self.head.ssh("curl -s -m 5 http://127.0.0.1:8265/api/version", check=False))
        self.step("w1", f"{RAY} start --address={self.head.address}:6379 {START}")
        eventually(lambda: [node["state"] for node in once(self.inside("head"))[1]["nodes"] or ()] == ["ALIVE", "ALIVE"])

    def step(self, node: str, command: str) -> Process:
        return self.login.spawn("bash", "-c", f"export {self.env}; exec srun --overlap -N 1 -n 1 -w {node} {command}")

    def inside(self, node: str) -> Inside:
        return Inside(self.login, self.env, node)

    def settle(self) -> None:
        """Waits until only the job's script, Slurm's own processes and the two parts of Ray run in it."""
        eventually(lambda: len(self.steps()) == 4)

    def steps(self) -> set[str]:
        return set(self.slurm.steps())

    def made(self) -> int:
        """How many steps slurmctld has made for this job so far: the number of the next one."""
        return int(self.login.ssh(f"export {self.env}; srun --overlap --quiet -N 1 -n 1 -w head printenv SLURM_STEP_ID"))

    def leave_engine(self, host: Host) -> Process:
        """Leaves a process as a worker of a dead Ray would: the step that it came from has ended."""
        temp = host.folder / JOBS[1:] / host.name / self.id / f".{self.id}" / "ray"
        if not (temp / OLD).exists():
            dead_session(temp, RAYLET, OLD, UID)
        left = f"RAY_RAYLET_PID={RAYLET} setsid bash -c 'exec -a VLLM::EngineCore sleep 10000' </dev/null >/dev/null 2>&1 &"
        self.inside(host.name).ssh(f"{left} sleep 0")
        return eventually(lambda: host.matching("VLLM::EngineCore", "10000")[0])


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    path = f"{RAY.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    lab = Lab(f"su{os.getpid() % 100000}", ["head", "w1", "login"], {"PATH": path, **slurm.ENV})
    try:
        yield Job(lab)
    finally:
        lab.close()


def kind_of(facts: Facts, host: str, pid: int) -> tuple[str, str]:
    found = next(process for process in facts["processes"] if (process["host"], process["pid"]) == (host, pid))
    return found["kind"], found["why"][0]


def is_on(text: str, pid: int) -> bool:
    """Whether the cursor is on its row."""
    return any("▸" in line and str(pid) in line for line in text.splitlines())


def test_the_user_may_not_log_in_to_the_nodes_and_has_the_jobs_own_tmp(job: Job):
    assert job.login.ssh("ssh -o BatchMode=yes -o StrictHostKeyChecking=no head true 2>/dev/null || echo refused").strip() == "refused"
    assert "ray" in job.inside("w1").ssh("ls /tmp").split()
    assert not (job.worker.tmp / "ray").exists()


@pytest.mark.parametrize("where", ["inside", "login"])
def test_both_nodes_and_their_sessions_are_seen(job: Job, where: str):
    facts = once(job.inside("head"), "--hosts head,w1")[1] if where == "inside" else once(job.login, f"--slurm {job.id}")[1]
    assert {(each["host"], each["live"], each["owner"]) for each in facts["sessions"]} == {("head", True, "train"), ("w1", True, "train")}
    assert "ray" in kinds_on(facts, "head") & kinds_on(facts, "w1")
    assert {"orphan", "stale", "unknown"}.isdisjoint(kinds_on(facts, "head") | kinds_on(facts, "w1"))
    job.settle()


def test_another_job_of_the_user_on_the_node_neither_follows_nor_stops_it(job: Job):
    """Its `/tmp` is another one, but the node's network is the same, and Ray's dashboard listens on the usual address."""
    (job.head.folder / "run" / "lab" / "home-train" / "sleep.sh").write_text("#!/bin/bash\nsleep infinity\n")
    second = job.users["head"].ssh("sbatch --parsable -N 1 -n 1 --overcommit -w head -o /dev/null sleep.sh").strip()
    ray = job.head.matching("gcs_server") + job.head.matching("raylet")
    try:
        eventually(lambda: job.login.ssh(f"squeue -h -j {second} -o %T").strip() == "RUNNING")
        step = f"export RAY_AUTH_MODE=disabled; srun --overlap --quiet --jobid={second} -N 1 -n 1 -w head {COCKPIT}"
        for command in ("status", "stop --yes"):
            output = job.login.ssh(f"{step} {command} 2>&1", check=False)
            assert f"http://127.0.0.1:8265  an unknown program of Slurm job {job.id}" in output, output
    finally:
        job.login.ssh(f"scancel {second}")
    assert ray
    assert all(part.is_alive() for part in ray)


@pytest.mark.parametrize("who", ["root", "train", "other"])
@pytest.mark.parametrize("command", ["kill-orphans", "clean"])
def test_from_outside_its_tmp_a_living_ray_is_neither_called_dead_nor_touched(job: Job, who: str, command: str):
    place = {"root": job.head, "train": job.users["head"], "other": job.strangers["head"]}[who]
    ray = job.head.matching("gcs_server") + job.head.matching("raylet")
    facts = once(place, MEANT, "export RAY_AUTH_MODE=disabled;")[1]
    assert {"orphan", "stale"}.isdisjoint(kinds_on(facts, "head"))
    assert "ray" in kinds_on(facts, "head")
    assert not [session for session in facts["sessions"] if not session["live"]]
    assert not action(place, f"{command} head --yes {MEANT}", "export RAY_AUTH_MODE=disabled;")[1].get("done")
    assert all(part.is_alive() for part in ray)


def test_another_user_cannot_stop_it_and_gets_the_reason(job: Job):
    raylet = job.head.matching("raylet/raylet")[0]
    _, answer, _ = action(job.strangers["head"], f"stop head --yes {MEANT}", "export RAY_AUTH_MODE=disabled;")
    assert "only train and root may stop it" in json.dumps(answer["refused"])
    assert not answer.get("done")
    assert raylet.is_alive()


@pytest.mark.parametrize("who", ["root", "other"])
def test_only_the_owner_reaches_the_nodes_of_a_job(job: Job, who: str):
    place = job.login.host if who == "root" else job.strangers["login"]
    _, facts, stderr = once(place, f"--slurm {job.id}", "export RAY_AUTH_MODE=disabled;")
    assert not stderr
    denied = f"Unable to create step for job {job.id}: Access/permission denied: Slurm starts steps in a job only for its owner"
    assert {fault["host"] for fault in facts["faults"] if denied in fault["text"]} == {"head", "w1"}
    (wrong,) = [finding for finding in facts["findings"] if finding["code"] == "address-wrong"]
    assert wrong["remedy"]["text"] == f"first find out why the nodes of Slurm job {job.id} can't be probed: `cockpit doctor`"


def test_doctor_names_the_way_and_what_needs_root(job: Job):
    text = job.inside("head").ssh(f"{COCKPIT} doctor", check=False)
    assert (
        f"Other hosts: by srun, steps of Slurm job {job.id} (SLURM_JOB_ID): probes, and every action, as you, without root: other users'"
        in text
    )
    from_login = job.login.ssh(f"{COCKPIT} doctor --slurm {job.id}", check=False)
    assert "this host has no Ray, but head has one" in from_login
    assert f"run cockpit there: `srun --overlap --jobid={job.id} -w head --pty cockpit`" in from_login
    job.settle()


def test_a_long_watch_makes_one_step_per_host_and_none_per_sample(job: Job):
    job.settle()
    before, first = job.made(), job.steps()
    watch = job.login.spawn("bash", "-c", f"exec {COCKPIT} status --json --watch --interval 0.5 --slurm {job.id} >$HOME/watched")
    log = job.login.host.folder / "run" / "lab" / "home-train" / "watched"
    try:
        eventually(lambda: {"ray"} <= kinds_on(json.loads(log.read_text().splitlines()[-2]), "w1"))
        assert len(job.steps() - first) == 2
        seen = log.read_text().count("\n")
        eventually(lambda: log.read_text().count("\n") > seen + 10)
    finally:
        watch.kill()
    job.settle()
    assert job.made() - before == 3, "one a host, and that which counts"


def test_logs_are_read_by_the_probe_if_the_dashboard_does_not_answer(job: Job):
    for node in ("head", "w1"):
        assert job.login.ssh(f"{COCKPIT} logs -n 5 --slurm {job.id} {node}").strip()
    job.settle()


def test_the_stack_of_a_process_on_a_node_is_read_through_srun(job: Job):
    agent = job.worker.matching("ray::RuntimeEnvAgent")[0]
    with screen(job.login, f"--slurm {job.id} {MEANT}", env=f"{job.env} HOME={job.login.home}") as terminal:
        terminal.until("Overview")
        terminal.press("4")
        terminal.until(str(agent.pid))
        terminal.press("/")
        terminal.type("RuntimeEnvAgent")
        shown = terminal.till(lambda text: "gcs_server" not in text and str(agent.pid) in text)
        terminal.press("Enter")
        if not is_on(shown, agent.pid):
            terminal.press("Down")
        terminal.till(lambda text: is_on(text, agent.pid))
        terminal.press("s")
        terminal.until("run_forever")
    job.settle()


def test_ranks_of_a_step_are_no_orphans_on_a_node_with_a_dead_ray(job: Job):
    """Srun passed the variables of a worker to them, and nothing else of that Ray lives."""
    left = job.leave_engine(job.worker)
    step = job.step("w1", f"env RAY_RAYLET_PID={RAYLET} sleep 9999")
    rank = eventually(lambda: job.worker.matching("sleep 9999")[0])
    try:
        facts = once(job.login, f"--slurm {job.id}")[1]
        assert kind_of(facts, "w1", left.pid)[0] == "orphan"
        assert rank.pid not in {each["pid"] for each in facts["processes"] if each["kind"] in ("orphan", "stale")}
        for place in (job.worker, job.users["w1"]):
            outside = once(place, "--address http://127.0.0.1:1")[1]
            kind, why = kind_of(outside, "w1", left.pid)
            assert kind == "unknown"
            assert "it sees other files than cockpit" in why
        _, answer, _ = action(job.login, f"kill-orphans --yes --slurm {job.id}")
        assert [(row["host"], row["pid"]) for row in answer["done"]] == [("w1", left.pid)]
        assert rank.is_alive()
        assert not left.is_alive()
    finally:
        step.kill()
    job.settle()


def test_the_users_leftover_is_ended_on_both_nodes_and_roots_is_refused(job: Job):
    left = [job.leave_engine(host) for host in job.slurm.hosts]
    roots = leave_engine(job.worker, 5)
    code, answer, _ = action(job.login, f"kill-orphans --yes --slurm {job.id}")
    assert {(row["host"], row["pid"]) for row in answer["done"]} == {("head", left[0].pid), ("w1", left[1].pid)}
    (refused,) = [row for row in answer["refused"] if row.get("pid") == roots.pid]
    assert code == 1
    assert "its environment can't be read: no permission" in refused["reason"]
    assert roots.is_alive()
    roots.kill()


def test_the_end_of_the_job_and_a_draining_node_are_reported_to_the_user(job: Job):
    head = job.head
    limit = f"scontrol update JobId={job.id} TimeLimit="
    head.ssh(f"{limit}$(( ( $(date +%s) - $(date -d $(squeue -h -j {job.id} -o %S) +%s) ) / 60 + 20 ))")
    head.ssh("scontrol update NodeName=w1 State=DRAIN Reason='Xid 79 on GPU 3'")
    try:
        codes = {finding["code"] for finding in once(job.inside("head"))[1]["findings"]}
    finally:
        head.ssh(f"{limit}UNLIMITED; scontrol update NodeName=w1 State=RESUME")
    assert {"slurm-ends", "slurm-node-drain"} <= codes


def test_the_users_ray_is_stopped_on_both_nodes_and_its_files_are_removed(job: Job):
    code, answer, stderr = action(job.inside("head"), "stop --yes --hosts head,w1")
    assert (code, {row["host"] for row in answer["done"]}) == (0, {"head", "w1"}), (stderr, answer)
    eventually(lambda: not [one for host in job.slurm.hosts for one in host.matching("raylet")])
    code, answer, stderr = action(job.inside("head"), "clean head w1 --yes")
    assert (code, {row["host"] for row in answer["done"]}) == (0, {"head", "w1"}), (stderr, answer)
    for node in ("head", "w1"):
        assert not [name for name in job.inside(node).ssh("ls /tmp/ray").split() if name.startswith("session_2")]


def test_recover_then_starts_the_users_ray_in_new_steps(job: Job):
    flags = {"num_gpus": 8, "num_cpus": 4, "object_store_memory": "100MB", "disable_usage_stats": True}
    ray = {
        "head": {"host": "head", **flags},
        "workers": [{"host": "w1", **flags}],
        "env": {**ENV, "RAY_AUTH_MODE": "disabled"},
        "python": str(RAY.with_name("python")),
    }
    train = {"entrypoint": "echo both are here; sleep 10000", "entrypoint_num_cpus": 0}
    (job.head.folder / "run" / "lab" / "home-train" / "p.yaml").write_text(json.dumps({"ray": ray, "job": train}))
    code, answer, stderr = action(job.inside("head"), f"recover {job.login.home}/p.yaml --yes")
    assert code == 0, (answer, stderr)
    assert {step["state"] for step in answer["steps"]} == {"done"}
    assert any("both are here" in line for line in answer["steps"][-1]["lines"])
    for host in job.slurm.hosts:
        assert [one.outer.uids().real for one in host.matching("raylet/raylet")] == [UID]
    assert [node["state"] for node in once(job.inside("head"))[1]["nodes"]] == ["ALIVE", "ALIVE"]
