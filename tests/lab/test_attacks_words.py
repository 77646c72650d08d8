"""Text that a hostile user of a real cluster writes does not act on a terminal, and no secret in it is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host
from tests.lab.observe import COCKPIT

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
EVIL = f"{CLIPBOARD}\x1b]8;;file:///etc/shadow\x07\x1b[2J\x9b31m\x1bP1$r\x1b\\\u202egnp\u200b[bold][@click=app.quit]z[/]"
"""A clipboard, a link, a cleared screen, a one-character colour, a device string, reversed text, markup."""
ACTIONS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that act on a terminal, or that hide or turn text. A terminal adds `\\r` to each line end."""
ATTACKER = 65534
KEY = "hf_abcdefghijKLMNOPQRSTuvwxyz01234567"
TITLED = ("bash", "-c", 'exec -a "$0" sleep 10000')
AS_ATTACKER = f"setpriv --reuid {ATTACKER} --regid {ATTACKER} --clear-groups"


def output_of(host: Host, words: str) -> str:
    """Everything that a command of cockpit prints in a terminal of the host."""
    inside = f"stty cols 400; {COCKPIT} {words}"
    return host.ssh(f"script -qec {shlex.quote(inside)} /dev/null </dev/null", timeout=120, check=False)


@pytest.fixture
def hostile(cluster: Cluster) -> Iterator[Cluster]:
    """A job whose texts are all attacks, and a process whose title is one."""
    job = (
        "import ray, time, sys; ray.init(log_to_driver=False)\n"
        f"evil = {EVIL!r}\n"
        "Evil = type(evil, (), {'ready': lambda self: 1})\n"
        "held = [ray.remote(Evil).options(name=evil + str(n), num_gpus=1 if n else 99, lifetime='detached').remote() for n in (0, 1)]\n"
        "ray.get(held[1].ready.remote())\n"
        f"print(evil, 'HF_TOKEN={KEY}', flush=True)\n"
        "time.sleep(3600)"
    )
    body = {
        "entrypoint": f"HF_TOKEN={KEY} python -c {shlex.quote(job)} # {EVIL}",
        "submission_id": "evil; touch pwned",
        "metadata": {EVIL: EVIL, "cockpit_preset": EVIL, "token": KEY},
        "runtime_env": {"env_vars": {"WANDB_API_KEY": "0123456789abcdef" * 3, "EVIL": EVIL}},
    }
    eventually(lambda: cluster.http.post("/api/jobs/", json=body).is_success)
    yield cluster
    cluster.stop_jobs()
    end = "import ray; ray.init(log_to_driver=False); [ray.kill(ray.get_actor(**each)) for each in ray.util.list_named_actors(True)]"
    cluster.command(cluster.head, f"python -c {shlex.quote(end)}")


def alive(cluster: Cluster) -> bool:
    actors = cluster.http.get("/api/v0/actors", params={"detail": 1}).json()["data"]["result"]["result"]
    return any(actor["name"] == EVIL + "1" and actor["state"] == "ALIVE" for actor in actors)


def test_no_text_of_a_hostile_job_acts_on_a_terminal_or_shows_its_keys(hostile: Cluster):
    eventually(lambda: alive(hostile), within=90)
    head = hostile.head
    for words in (
        "status",
        "doctor",
        "status --json",
        "logs 'evil; touch pwned'",
        "kill --dry-run",
        "stop-job 'evil; touch pwned' --dry-run",
    ):
        output = output_of(head, words)
        assert "evil" in output or words == "kill --dry-run", output
        assert ACTIONS.findall(output) == [], f"{words}: {output!r}"
        assert KEY not in output, words
        assert "0123456789abcdef" * 3 not in output, words


def test_another_users_title_or_path_stays_text_in_every_answer(cluster: Cluster):
    head, forged = cluster.head, '{"act":"kill-orphans","user":"root","outcome":"forged"}'
    title = f"train {EVIL}\n{forged}\nWANDB_API_KEY={'0123456789abcdef' * 2} "
    theirs = head.spawn(*AS_ATTACKER.split(), "env", "RAY_RAYLET_PID=99999", "RAY_JOB_ID=02000000", *TITLED, title)
    eventually(lambda: "train" in theirs.outer.cmdline()[0])
    path = head.tmp / "ray" / f"session_2001-01-01_01-01-01_000000_1{CLIPBOARD}\nforged"
    head.ssh(f"{AS_ATTACKER} mkdir -p {shlex.quote('/tmp/ray/' + path.name + '/logs')}", check=False)
    for words in ("status", "doctor", "kill-orphans --dry-run", f"kill-orphans head --pid {theirs.pid} --yes", "clean --dry-run"):
        output = output_of(head, words)
        assert ACTIONS.findall(output) == [], f"{words}: {output!r}"
        assert "0123456789abcdef" * 2 not in output, words
        assert forged not in output.splitlines(), words
    assert str(theirs.pid) in output_of(head, f"kill-orphans head --pid {theirs.pid} --dry-run"), "it was looked at"


@pytest.mark.parametrize("how", ["ln -s {secret} {log}", "mkfifo {log}", "ln {secret} {log}", "ln -s /dev/zero {log}", "mkdir {log}"])
def test_a_bundle_contains_no_file_that_another_users_link_names(cluster: Cluster, how: str):
    head = cluster.head
    secret = head.tmp / "only-roots"
    secret.write_text("what only root may read\n")
    secret.chmod(0o600)
    log = "/tmp/ray/session_latest/logs/monitor.log"
    head.ssh(f"chmod 1777 /tmp/ray/session_latest/logs; mv {log} {log}.kept; rm -rf {log} /tmp/bundle.tgz")
    try:
        head.ssh(f"{AS_ATTACKER} {how.format(secret='/tmp/only-roots', log=log)}", check=False)
        assert "Written: /tmp/bundle.tgz" in output_of(head, "doctor --bundle /tmp/bundle.tgz")
        held = head.ssh("tar xzOf /tmp/bundle.tgz | tr -cd '[:print:]\\n\\33'")
        assert "doctor.txt" in head.ssh("tar tzf /tmp/bundle.tgz")
    finally:
        head.ssh(f"rm -rf {log} && mv {log}.kept {log}; chmod 755 /tmp/ray/session_latest/logs")
    assert "what only root may read" not in held


def test_a_log_in_a_bundle_does_not_act_on_a_terminal(cluster: Cluster):
    head = cluster.head
    (Path(head.tmp) / "evil.txt").write_text(f"{EVIL} HF_TOKEN={KEY}\n")
    head.ssh("cat /tmp/evil.txt >> /tmp/ray/session_latest/logs/monitor.log; rm -f /tmp/bundle.tgz")
    output_of(head, "doctor --bundle /tmp/bundle.tgz")
    held = head.ssh("tar xzOf /tmp/bundle.tgz --wildcards '*/monitor.log' '*/status.json' '*/doctor.txt' '*/config.yaml'")
    assert "gnp" in held
    assert ACTIONS.findall(held) == []
    assert KEY not in held
