"""Requests from one host of the lab to others: through a real ssh in trouble, and through a real Ray where ssh is forbidden."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.config.reach import DEFAULT_REACH, NO_PROMPT
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import SSHD, Host, Lab, Process, stopped

pytestmark = pytest.mark.lab
HOME = Path(__file__).parents[2]
PLAN = {"act": "kill", "stage": "plan"}
FORBIDDEN = "ssh -o BatchMode=yes -o PreferredAuthentications=none -o StrictHostKeyChecking=no {address} {python} -"
GIB = 1 << 30
Facts = dict[str, Any]


def command(wish: Facts) -> str:
    return f"cd {HOME} && echo {shlex.quote(json.dumps(wish))} | {sys.executable} -m tests.lab.send_requests"


def send(host: Host, **wish: Any) -> Facts:
    """The answer of `tests.lab.send_requests` on that host."""
    answer: Facts = json.loads(host.ssh(command({"hosts": ["w1"], "request": PLAN, **wish}), timeout=100))
    return answer


def reach(lab: Lab, *options: str) -> str:
    """The default way, with the lab's ssh configuration and more options of ssh."""
    return DEFAULT_REACH.replace("ssh ", f"ssh {' '.join(options)} -F {lab.ssh_config} ", 1)


def test_one_of_three_hosts_hangs(lab: Lab):
    with stopped(lab["w1"]):
        answer = send(lab["head"], hosts=["here", "head", "w1"], reach=reach(lab))
    answers = answer["answers"]
    assert answers["here"]["reply"]
    assert answers["head"]["reply"]
    assert answers["w1"]["error"].startswith("w1: Connection ")
    assert "timed out" in answers["w1"]["error"]
    assert max(answer["took"]["here"], answer["took"]["head"]) < answer["took"]["w1"]
    assert answer["took"]["w1"] >= 5


def test_a_host_that_hangs_after_connecting_times_out(lab: Lab):
    answer = send(
        lab["head"],
        hosts=["head", "w1"],
        reach=reach(lab).replace("{python} -", "'test $(hostname) = head && exec {python} - || sleep 100'"),
        patience=3,
    )
    assert answer["answers"]["head"]["reply"]
    assert answer["answers"]["w1"]["error"] == "w1: timed out, no answer for 3 s"


def test_an_ssh_that_asks_for_a_password_fails_at_once(lab: Lab):
    w1 = lab["w1"]
    options = "-o PidFile=/tmp/sshd.pid -o PubkeyAuthentication=no -o KbdInteractiveAuthentication=no -o UsePAM=no"
    w1.ssh(f"{SSHD} -p 2222 -h {lab.folder}/host {options} && until test -s /tmp/sshd.pid; do sleep 0.05; done")
    try:
        answer = send(lab["head"], reach=reach(lab, "-p", "2222"))
    finally:
        w1.ssh("kill $(cat /tmp/sshd.pid)")
    assert answer["answers"]["w1"]["error"].endswith(f"Permission denied (password): {NO_PROMPT}")


def test_a_changed_host_key_is_never_accepted(lab: Lab, tmp_path: Path):
    w1, known = lab["w1"], lab["head"].tmp / "known"
    known.write_text(f"{w1.address} {(lab.folder / 'user.pub').read_text()}")
    answer = send(lab["head"], reach=reach(lab, "-o", "UserKnownHostsFile=/tmp/known", "-o", "StrictHostKeyChecking=ask"))
    assert answer["answers"]["w1"]["error"] == "w1: its host key has changed and does not match /tmp/known:1; nothing was sent"
    known.write_text("")
    answer = send(lab["head"], reach=reach(lab, "-o", "UserKnownHostsFile=/tmp/known", "-o", "StrictHostKeyChecking=ask"))
    assert answer["answers"]["w1"]["error"] == "w1: its host key is unknown here: connect once by hand, or add it to known_hosts"


def test_no_process_of_ssh_is_left(lab: Lab):
    assert send(lab["head"], reach=reach(lab))["answers"]["w1"]["reply"]
    eventually(lambda: not lab["head"].matching("ssh", "[mux]"), within=120)
    assert list((lab["head"].tmp / "cockpit-0").iterdir()) == []


# Through Ray


def places(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Each host's session and node, as the dashboard reports them."""
    session = cluster.http.get("/api/version").json()["session_name"]
    return {node["hostname"]: (session, node["raylet"]["nodeId"]) for node in cluster.nodes() if node["raylet"]["state"] == "ALIVE"}


def ours(host: Host) -> list[Process]:
    """The processes of a request through Ray on that host."""
    return [
        process
        for process in host.processes()
        if is_sent(process) or process.command[1:] == ("-I", "-B", "-", "cockpit") or "ray::cockpit" in process.text
    ]


def is_sent(process: Process) -> bool:
    """Whether the process runs a program that came through its stdin."""
    return process.command[1:3] == ("-I", "-c") and "sys.stdin" in process.text


def kill(process: Process, stage: str, **more: Any) -> Facts:
    return {"act": "kill", "stage": stage, "named": [[process.pid, None]], "any": True, "pids": True, **more}


@pytest.mark.timeout(900)
def test_a_process_is_ended_through_ray_where_ssh_is_forbidden(cluster: Cluster):
    head, w1 = cluster.hosts
    held = w1.hold(3, 20 * GIB)
    known = places(cluster)
    planned = send(head, hosts=["head", "w1"], reach=FORBIDDEN, places=known, request=kill(held, "plan"))
    answer = planned["answers"]["w1"]
    assert answer["error"] is None, answer
    (target,) = answer["reply"]["targets"]
    assert (target["pid"], target["gpus"][0]["memory"]) == (held.pid, 20 * GIB)
    assert "Permission denied" in answer["reply"]["notes"][-1]
    assert answer["reply"]["notes"][-1].endswith("; reached through Ray")
    ended = send(head, reach="ray", places=known, request=kill(held, "do", targets=[target]))
    reply = ended["answers"]["w1"]["reply"]
    assert [done["pid"] for done in reply["done"]] == [held.pid]
    assert not held.is_alive()
    eventually(lambda: not ours(head) and not ours(w1), within=120)


@pytest.mark.timeout(900)
def test_it_uses_one_task_without_cpus_per_node_and_ray_stop_ignores_the_probe(cluster: Cluster):
    head, w1 = cluster.hosts
    stubborn = w1.spawn("bash", "-c", "trap '' TERM; while :; do sleep 0.2; done")
    target = send(head, reach="ray", places=places(cluster), request=kill(stubborn, "plan"))["answers"]["w1"]["reply"]["targets"][0]
    wish = {"hosts": ["w1"], "reach": "ray", "places": places(cluster), "request": kill(stubborn, "do", targets=[target], grace=60)}
    head.spawn("bash", "-c", command(wish))
    try:
        probe = eventually(lambda: next((process for process in ours(w1) if is_sent(process)), None))
        worker = probe.outer.parent()
        assert "ray::cockpit" in " ".join(worker.cmdline())
        hunted = ("raylet", "monitor.py", "default_worker.py", "ray::", "gcs_server")
        assert not any(word in process.text for process in [*ours(head), probe] for word in hunted)
        assert cluster.http.get("/api/cluster_status").json()["data"]["clusterStatus"]["loadMetricsReport"]["usage"]["CPU"][0] == 0
        sample = json.loads(w1.ssh(f"cd {HOME} && {sys.executable} -m cockpit.probe --no-lifeline --once").splitlines()[1])
        assert {process["kind"] for process in sample["processes"] if process["pid"] == probe.pid} <= {"child"}
        for process in head.matching("tests.lab.send_requests"):  # as a kill -9 of cockpit
            process.kill()
        eventually(lambda: not ours(head) and not ours(w1), within=120)
        assert stubborn.is_alive()
    finally:
        stubborn.kill()


@pytest.mark.timeout(900)
def test_a_dead_node_is_reported_as_dead(cluster: Cluster):
    known = places(cluster) | {"w1": (places(cluster)["w1"][0], "ab" * 28)}
    answers = send(cluster.head, hosts=["head", "w1"], reach="ray", places=known)["answers"]
    assert answers["head"]["reply"]
    assert answers["w1"]["error"].startswith("w1: Ray: ")


@pytest.mark.old_ray
@pytest.mark.timeout(900)
def test_an_old_ray_supports_it_too(old_cluster: Cluster):
    answer = send(old_cluster.head, hosts=["old"], reach="ray", places=places(old_cluster))
    assert answer["answers"]["old"]["reply"]["targets"] == []


@pytest.mark.timeout(900)
def test_a_ray_that_requires_a_token_gets_its_own(token_cluster: Cluster):
    answer = send(token_cluster.head, hosts=["guarded"], reach="ray", places=places(token_cluster))
    assert answer["answers"]["guarded"]["reply"]["targets"] == []
    assert str(token_cluster.token) not in json.dumps(answer)
    assert subprocess.run(["grep", "-rlF", str(token_cluster.token), str(token_cluster.head.tmp)], capture_output=True).stdout == b""
