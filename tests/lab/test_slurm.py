"""In a Slurm allocation, or with its job id, without ssh or configuration: every node is seen, and actions reach it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.lab import hosts, slurm
from tests.lab.cluster import eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab
from tests.lab.leftovers import leave_engine
from tests.lab.observe import COCKPIT, action, kinds_on, once
from tests.lab.slurm_ray import WITHOUT_HOSTS, Allocation, findings

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

WORDS = "--hosts head,w1"
OF_LOOKS = {"REQUEST_JOB_INFO_SINGLE", "REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO"}
"""Requests of `squeue --jobs` and `sinfo` to slurmctld."""
OF_ONE_STEP = {"REQUEST_JOB_STEP_CREATE", "REQUEST_HET_JOB_ALLOC_INFO", "REQUEST_CANCEL_JOB_STEP"}
"""Requests of `srun` at its start and end."""
OF_OTHERS = {"REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_STEP_COMPLETE"}
"""Requests of the test itself and of slurmd."""


@pytest.fixture(scope="module")
def allocation() -> Iterator[Allocation]:
    if reason := hosts.why_not() or slurm.why_no_slurm() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"sl{os.getpid() % 100000}", ["head", "w1", "login"], {"PATH": f"{os.environ['PATH']}:/usr/sbin", **slurm.ENV})
    try:
        yield Allocation(lab)
    finally:
        lab.close()


def test_both_nodes_are_probed_without_a_flag_once_a_process_has_no_known_owner(allocation: Allocation):
    stranger = allocation.worker.hold(0, 20 << 30)
    try:
        facts = eventually(lambda: (seen := allocation.look()) and "foreign" in kinds_on(seen, "w1") and seen)
    finally:
        stranger.kill()
    assert not [fault for fault in facts["faults"] if "w1" in fault["text"]]


def test_the_step_of_a_status_ends_with_it(allocation: Allocation):
    assert "ray" in kinds_on(allocation.look(WORDS), "w1")
    allocation.settle()


def test_no_process_of_a_living_step_is_a_leftover(allocation: Allocation):
    facts = allocation.look(WORDS)
    assert {"orphan", "stale"}.isdisjoint(kinds_on(facts, "head") | kinds_on(facts, "w1"))


def test_a_long_watch_keeps_one_step_on_the_other_node(allocation: Allocation):
    allocation.settle()
    before = set(allocation.slurm.steps())
    watched = f"exec env --default-signal=INT {COCKPIT} status --json --watch >/tmp/watched"
    watch = allocation.head.spawn("bash", "-c", f"export {allocation.env} COCKPIT_PROBE_HOSTS=always; {watched}")
    try:
        (step,) = eventually(lambda: set(allocation.slurm.steps()) - before)
        log = allocation.head.tmp / "watched"
        seen = eventually(lambda: log.read_text().count("\n"))
        eventually(lambda: log.read_text().count("\n") > seen + 5)
        assert set(allocation.slurm.steps()) - before == {step}
    finally:
        watch.outer.send_signal(signal.SIGINT)
    allocation.settle()


def test_a_watch_asks_slurmctld_for_its_job_and_nodes_and_makes_one_step(allocation: Allocation):
    """Once a minute squeue and sinfo, which both also ask for the partitions; sinfo once more at the start, for the nodes' names."""
    allocation.settle()
    began = time.monotonic()
    before = allocation.slurm.requests()
    watched = f"exec env --default-signal=INT {COCKPIT} status --json --watch >/tmp/watched"
    watch = allocation.head.spawn("bash", "-c", f"export {allocation.env} COCKPIT_PROBE_HOSTS=always; {watched}")
    log = allocation.head.tmp / "watched"
    try:
        eventually(lambda: log.read_text().count("\n") > 10)
        eventually(lambda: "w1" in {session["host"] for session in json.loads(log.read_text().splitlines()[-2])["sessions"] or ()})
    finally:
        watch.outer.send_signal(signal.SIGINT)
    eventually(lambda: not watch.is_alive())
    sent = allocation.slurm.requests() - before
    looks, minutes = sent["REQUEST_JOB_INFO_SINGLE"], (time.monotonic() - began) / 60
    assert 1 <= looks <= 1 + minutes
    assert sent["REQUEST_NODE_INFO"] <= looks + 1
    assert sent["REQUEST_PARTITION_INFO"] <= 2 * looks + 1
    assert sent["REQUEST_JOB_STEP_CREATE"] == 1
    assert set(sent) <= OF_LOOKS | OF_ONE_STEP | OF_OTHERS, sent
    allocation.settle()


def test_a_killed_watch_leaves_no_step_behind(allocation: Allocation):
    allocation.settle()
    before = set(allocation.slurm.steps())
    watched = f"exec {COCKPIT} status --json --watch >/tmp/watched"
    watch = allocation.head.spawn("bash", "-c", f"export {allocation.env} COCKPIT_PROBE_HOSTS=always; {watched}")
    eventually(lambda: set(allocation.slurm.steps()) - before)
    watch.outer.kill()
    allocation.settle()


def test_a_user_on_the_login_host_names_the_job_and_gets_the_way_to_its_ray(allocation: Allocation):
    """Ray's dashboard listens only on its own host, which is the default."""
    _, facts, stderr = once(allocation.login, f"--slurm {allocation.job}")
    assert not stderr
    assert {"ray"} <= kinds_on(facts, "head") & kinds_on(facts, "w1")
    (wrong,) = findings(facts, "address-wrong")
    seen = [facts[name] for name in ("sessions", "faults")]
    assert wrong["text"] == "Nothing answers at http://127.0.0.1:8265; this host has no Ray, but head has one", seen
    step = f"srun --overlap --jobid={allocation.job} -w head --pty"
    assert wrong["remedy"]["text"] == f"its dashboard listens only on head: run cockpit there: `{step} cockpit`"
    allocation.settle()
    inside = f"{step} {COCKPIT} status --json"
    printed = allocation.login.ssh(f"export RAY_AUTH_MODE=disabled; script -qec {shlex.quote(inside)} /dev/null; true")
    there = json.loads(printed[printed.index("{") :])
    assert [node["state"] for node in there["nodes"]] == ["ALIVE", "ALIVE"]
    allocation.settle()


def test_on_a_worker_the_head_is_named(allocation: Allocation):
    (wrong,) = findings(once(allocation.worker, "", f"export {allocation.env} SLURMD_NODENAME=w1;")[1], "address-wrong")
    assert re.fullmatch(r"Nothing answers at \S+; this host is a worker of session_\S+, whose head is head", wrong["text"])
    assert f"`srun --overlap --jobid={allocation.job} -w head --pty cockpit`" in wrong["remedy"]["text"]
    allocation.settle()


def test_options_of_the_own_step_are_not_passed_to_the_next(allocation: Allocation):
    wishes = "SLURM_EXPORT_ENV=NONE SLURM_LABELIO=1 SLURM_MEM_PER_CPU=100000 SQUEUE_STATES=PENDING SINFO_STATES=down"
    facts = once(allocation.head, WORDS, f"export {allocation.env} {wishes};")[1]
    assert "ray" in kinds_on(facts, "w1")
    assert not [fault for fault in facts["faults"] if fault["source"] != "nvml"]
    allocation.settle()


@pytest.fixture
def submit(allocation: Allocation) -> Iterator[Callable[[str], str]]:
    """Submits a job that only waits; returns its id once it runs."""
    made: list[str] = []

    def submit(words: str) -> str:
        script = "#!/bin/bash\nsleep infinity\n"
        (allocation.head.tmp / "sleep.sh").write_text(script)
        made.append(allocation.head.ssh(f"cd /tmp && sbatch --parsable -o /dev/null {words} sleep.sh").strip())
        eventually(lambda: set(allocation.head.ssh(f"squeue -h -j {made[-1]} -o %T").split()) == {"RUNNING"})
        return made[-1]

    yield submit
    for job in made:
        allocation.head.ssh(f"scancel {job}")


def test_a_task_of_an_array_is_named(allocation: Allocation, submit: Callable[[str], str]):
    job = submit("--array=0-1 -N 1 -n 1 --overcommit")
    code, _, stderr = once(allocation.login, f"--slurm {job}")
    assert (code, stderr) == (3, f"cockpit: --slurm: {job} matches several Slurm jobs; name one: {job}_1 (RUNNING), {job}_0 (RUNNING)\n")
    for task in (f"{job}_0", f"{job}_1"):
        facts = once(allocation.login, f"--slurm {task}")[1]
        assert len({one["host"] for one in facts["sessions"]} & {"head", "w1"}) == 1
        assert not [fault for fault in facts["faults"] if fault["source"] in ("slurm", "probe")]


def test_a_part_of_a_heterogeneous_job_is_watched_by_its_name(allocation: Allocation, submit: Callable[[str], str]):
    job = submit("-N 1 -n 1 --overcommit -w head : -N 1 -n 1 --overcommit -w w1")
    code, _, stderr = once(allocation.login, f"--slurm {job}")
    assert (code, stderr) == (3, f"cockpit: --slurm: {job} matches several Slurm jobs; name one: {job}+0 (RUNNING), {job}+1 (RUNNING)\n")
    for part, node in ((f"{job}+0", "head"), (f"{job}+1", "w1")):
        facts = once(allocation.login, f"--slurm {part}")[1]
        assert {one["host"] for one in facts["sessions"]} == {node}
        assert not [fault for fault in facts["faults"] if fault["source"] in ("slurm", "probe")]


@pytest.mark.parametrize(
    ("job", "stderr"),
    [
        ("4711", "cockpit: --slurm: Slurm job 4711 has ended, or there is none\n"),
        ("train", "cockpit: --slurm: expected the id of a job such as 12345, 12345_1 of an array, or 12345+1, got train\n"),
    ],
)
def test_an_unknown_job_is_refused_with_the_reason(allocation: Allocation, job: str, stderr: str):
    assert once(allocation.head, f"--slurm {job}") == (3, {}, stderr)


def test_an_ended_job_is_refused_with_the_reason(allocation: Allocation):
    ended = allocation.head.ssh("cd /tmp && sbatch --parsable --overcommit -N 1 -o /dev/null hold.sh").strip()
    allocation.head.ssh(f"scancel {ended}")
    eventually(lambda: not allocation.head.ssh(f"squeue -h -j {ended} -o %T", check=False).strip())
    assert once(allocation.login, f"--slurm {ended}") == (3, {}, f"cockpit: --slurm: Slurm job {ended} has ended, or there is none\n")


def test_a_waiting_job_has_no_nodes(allocation: Allocation):
    waiting = allocation.head.ssh("cd /tmp && sbatch --parsable --exclusive -N 2 -o /dev/null hold.sh").strip()
    try:
        assert once(allocation.head, f"--slurm {waiting}") == (
            3,
            {},
            f"cockpit: --slurm: Slurm job {waiting} has no nodes: it is PENDING\n",
        )
    finally:
        allocation.head.ssh(f"scancel {waiting}")


def test_doctor_names_the_way_to_other_hosts(allocation: Allocation):
    text = allocation.head.ssh(f"export {allocation.env}; {COCKPIT} doctor", check=False)
    assert (
        f"Other hosts: by srun, steps of Slurm job {allocation.job} (SLURM_JOB_ID): probes, and every action, as you. To change it" in text
    )
    assert "Slurm: time left, and the state of its nodes" in text.partition("\nOK:")[2]
    allocation.settle()


def test_the_end_of_the_allocation_is_reported_before_it_comes(allocation: Allocation):
    limit = f"scontrol update JobId={allocation.job} TimeLimit="
    allocation.head.ssh(f"{limit}$(( ( $(date +%s) - $(date -d $(squeue -h -j {allocation.job} -o %S) +%s) ) / 60 + 20 ))")
    try:
        (ends,) = findings(allocation.look(), "slurm-ends")
    finally:
        allocation.head.ssh(f"{limit}UNLIMITED")
    assert (ends["level"], ends["subject"]) == ("info", f"Slurm job {allocation.job}"), "no job of Ray's runs"
    assert ends["text"].startswith(f"Slurm job {allocation.job} reaches its time limit in 20 min")
    assert not findings(allocation.look(), "slurm-ends")


def test_a_drained_node_that_ray_uses_is_reported_with_the_reason(allocation: Allocation):
    allocation.head.ssh("scontrol update NodeName=w1 State=DRAIN Reason='Xid 79 on GPU 3'")
    try:
        (drained,) = findings(allocation.look(), "slurm-node-drain")
    finally:
        allocation.head.ssh("scontrol update NodeName=w1 State=RESUME")
    assert drained["text"].startswith(f"Slurm takes w1 out of service after job {allocation.job}")
    assert drained["evidence"] == ["sinfo: w1 is draining: Xid 79 on GPU 3"]
    assert not findings(allocation.look(), "slurm-node-drain")


def test_an_orphan_on_the_other_node_is_ended_through_slurm_and_steps_stay(allocation: Allocation):
    engine = leave_engine(allocation.worker, 5)
    ranks = allocation.worker.matching("raylet")
    code, done, stderr = action(allocation.head, f"kill-orphans --yes {WORDS}", f"export {allocation.env};")
    assert (code, stderr, [(row["host"], row["pid"]) for row in done["done"]]) == (0, "", [("w1", engine.pid)])
    assert all(rank.is_alive() for rank in ranks)
    assert not engine.is_alive()


def test_a_job_that_shares_a_node_leaves_this_ray_alone_without_cgroups(allocation: Allocation, submit: Callable[[str], str]):
    code, stderr = recover(allocation.head, submit("-N 1 -n 1 --overcommit -w head"))
    assert code == 1, stderr
    assert f"with the same port 6379, belongs to Slurm job {allocation.job}, and is not touched" in stderr
    assert allocation.head.matching("raylet/raylet")


def test_its_ray_is_stopped_on_both_nodes_through_slurm(allocation: Allocation):
    code, done, stderr = action(allocation.head, f"stop --yes {WORDS}", f"export {allocation.env};")
    assert code == 0, (stderr, done)
    assert {each["host"] for each in done["done"]} == {"head", "w1"}
    eventually(lambda: not [one for host in allocation.slurm.hosts for one in host.matching("raylet")])


def test_without_a_ray_a_command_is_checked_against_the_gpus_of_the_allocation(allocation: Allocation):
    train = "python -m openrlhf.cli.train_ppo_ray --actor_num_nodes 2 --actor_num_gpus_per_node 9 --pretrain x"
    answer = json.loads(allocation.head.ssh(f"export {allocation.env}; {COCKPIT} check --json -- {shlex.quote(train)}; true"))
    lines = {line["level"]: line["text"] for line in reversed(answer["lines"])}
    assert lines["later"] == f"no Ray runs: checked against the 2 nodes, 16 GPUs of Slurm job {allocation.job}"
    assert "there are only 16 GPUs in total" in " ".join(line["text"] for line in answer["lines"] if line["level"] == "never"), answer[
        "lines"
    ]


def test_its_temp_dirs_are_then_cleaned_through_slurm(allocation: Allocation):
    code, done, stderr = action(allocation.head, "clean head w1 --yes", f"export {allocation.env};")
    assert code == 0, (stderr, done)
    assert {each["host"] for each in done["done"] if each["what"] == "session"} == {"head", "w1"}
    for host in allocation.slurm.hosts:
        assert not list((host.tmp / "ray").glob("session_2*")), host.name


def test_a_ray_started_in_a_job_ends_with_it_if_slurm_tracks_parents(allocation: Allocation, submit: Callable[[str], str]):
    job = submit("-N 1 -n 1 --overcommit -w w1")
    code, stderr = recover(allocation.worker, job)
    assert code == 0, stderr
    assert allocation.worker.matching("gcs_server")
    allocation.head.ssh(f"scancel {job}")
    eventually(lambda: not allocation.worker.matching("gcs_server") and not allocation.worker.matching("raylet/raylet"))


def recover(host: Host, job: str) -> tuple[int, str]:
    """Recovers within that job, on its only node."""
    preset = {"ray": {**WITHOUT_HOSTS["ray"], "workers": {}}}
    (host.tmp / "alone.yaml").write_text(json.dumps(preset))
    step = f"srun --overlap --quiet --jobid={job} -N 1 -n 1 -w {host.name} {COCKPIT}"
    line = f"export TRAIN_API_KEY=x; {step} recover /tmp/alone.yaml --yes --no-follow --skip launch"
    output, _, code = host.ssh(f"{line} 2>&1; code=$?; echo; echo $code", check=False, timeout=280).rstrip().rpartition("\n")
    return int(code), output
