"""A preset's job on a real Ray: its folder arrives as it is, its secrets are Ray's alone, and it is launched once."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import signal
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.launch.launch import Launches
from cockpit.actions.plan import ActionTarget, Receipt
from cockpit.actions.table import find_action
from cockpit.model import Job
from cockpit.presets import read_preset
from cockpit.sources.ray.http import Dashboard
from tests.lab.cluster import Cluster, eventually
from tests.lab.eyes import COCKPIT, lay_config, screen
from tests.lab.hosts import Host, Process
from tests.sources.ray.job_table import Operator

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SECRET = "not-for-anybodys-eyes-1b2c"
TRAIN = """
import os, pathlib, sys
print("greeting", os.environ["GREETING"])
print("token", len(os.environ["SECRET_TOKEN"]), os.environ["SECRET_TOKEN"])
print("files", sorted(str(path) for path in pathlib.Path(".").rglob("*") if path.is_file()))
print("runs", os.popen("./tool.sh").read().strip())
"""
PRESET = """
about: a job of a test
job:
  entrypoint: {entrypoint}
  working_dir: .
  env: {{GREETING: hello, SECRET_TOKEN: "${{SECRET_TOKEN}}"}}
  submission_id: "{{name}}-{{time}}"
"""
FOLDER = {
    "train.py": TRAIN,
    "tool.sh": "#!/bin/sh\necho well\n",
    ".gitignore": "*.bin\n!keep.bin\n",
    "big.bin": "b" * 5000,
    "keep.bin": "k",
    "data/rewards.txt": "r",
}


def lay(host: Host, name: str, entrypoint: str = "python train.py") -> Path:
    """A folder on a host with a preset in it; its path over there."""
    for file, text in {**FOLDER, f"{name}.yaml": PRESET.format(entrypoint=entrypoint)}.items():
        path = host.tmp / "train" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (host.tmp / "train" / "tool.sh").chmod(0o755)
    return host.tmp / "train" / f"{name}.yaml"


def launch(cluster: Cluster, host: Host, name: str, words: str = "--yes") -> tuple[int, str, str]:
    """What an operator on this host gets: exit code, what is printed, and what is said beside."""
    lay_config(cluster.lab)
    token = f"RAY_AUTH_TOKEN={cluster.token}" if cluster.token else ""
    printed = host.ssh(
        f"cd /tmp/train; SECRET_TOKEN={SECRET} {token} {COCKPIT} launch ./{name}.yaml --address {cluster.address} {words}"
        " 2>/tmp/said; code=$?; echo; echo $code",
        timeout=120,
    )
    out, _, code = printed.rstrip("\n").rpartition("\n")
    return int(code), out, (host.tmp / "said").read_text()


def begin(cluster: Cluster, host: Host, name: str) -> Process:
    """The same, followed while the test goes on."""
    lay_config(cluster.lab)
    program = f"cd /tmp/train; SECRET_TOKEN={SECRET} exec {COCKPIT} launch ./{name}.yaml --address {cluster.address} --yes"
    for file in ("followed", "said_beside"):
        (host.tmp / file).write_text("")
    return host.spawn("bash", "-c", f"{program} >/tmp/followed 2>/tmp/said_beside")


def of_preset(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    return [job for job in cluster.http.get("/api/jobs/").json() if (job["metadata"] or {}).get("cockpit_preset") == name]


def check_a_launch(cluster: Cluster, host: Host, *, modes: bool = True) -> None:
    """`modes`: this Ray gives unpacked files the modes that they have in the package."""
    lay(host, "ppo")
    code, out, said = launch(cluster, host, "ppo")
    assert code == 0, (out, said)
    assert "greeting hello" in out
    assert f"token {len(SECRET)} •••" in out
    assert "files ['.gitignore', 'data/rewards.txt', 'keep.bin', 'ppo.yaml', 'tool.sh', 'train.py']" in out
    assert ("runs well" in out) == modes
    assert "SUCCEEDED" in said
    (job,) = of_preset(cluster, "ppo")
    assert job["runtime_env"]["env_vars"] == {"GREETING": "hello", "SECRET_TOKEN": SECRET}
    assert job["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    log = host.folder / "run" / "lab" / "home" / ".local" / "state" / "cockpit" / "acts.jsonl"
    begun, ended = [json.loads(line) for line in log.read_text().splitlines()[-2:]]
    assert (begun["act"], begun["plan"][0]["why"]) == ("launch", "python train.py")
    assert ended["outcome"]["done"][0]["id"] == job["submission_id"]
    assert not [text for text in (out, said, log.read_text()) if SECRET in text]


def test_a_job_is_launched_and_followed_to_its_end(cluster: Cluster):
    check_a_launch(cluster, cluster.lab["w1"])


@pytest.mark.old_ray
@pytest.mark.incident
def test_a_job_is_launched_on_an_old_ray(old_cluster: Cluster):
    check_a_launch(old_cluster, old_cluster.head, modes=False)


@pytest.mark.incident
def test_a_job_is_launched_on_a_ray_that_asks_for_a_token(token_cluster: Cluster):
    check_a_launch(token_cluster, token_cluster.head)


@pytest.mark.incident
def test_a_job_that_fails_is_told_and_launched_again_without_sending_its_folder_again(cluster: Cluster):
    host = cluster.head
    lay(host, "fails", "echo before; exit 3")
    code, out, said = launch(cluster, host, "fails")
    assert (code, "before" in out, "FAILED" in said) == (1, True, True), (out, said)
    code, out, said = launch(cluster, host, "fails", "--yes --force --no-follow")
    assert code == 0
    assert "was already uploaded" in out
    assert len({job["submission_id"] for job in of_preset(cluster, "fails")}) == 2


def test_a_second_launch_while_the_first_runs_is_refused_and_ctrl_c_ends_only_the_following(cluster: Cluster):
    host = cluster.lab["w1"]
    lay(host, "twice", "echo begun; sleep 1000")
    following = begin(cluster, host, "twice")
    eventually(lambda: "begun" in (host.tmp / "followed").read_text().splitlines(), within=120)
    code, _, said = launch(cluster, host, "twice", "--yes --no-follow")
    assert code == 1
    assert "of this preset is RUNNING" in said
    assert "--force submits it anyway" in said
    following.outer.send_signal(signal.SIGINT)
    eventually(lambda: "log no longer printed" in (host.tmp / "said_beside").read_text())
    assert [job["status"] for job in of_preset(cluster, "twice")] == ["RUNNING"]


@pytest.mark.incident
def test_a_job_that_waits_says_why_and_is_followed_when_it_begins(cluster: Cluster):
    for name in ("holds1", "holds2"):
        body = {"entrypoint": "sleep 1000", "submission_id": name, "entrypoint_num_gpus": 8}
        assert cluster.http.post("/api/jobs/", json=body).is_success
        eventually(lambda name=name: cluster.job(name) == "RUNNING", within=120)
    host = cluster.head
    path = lay(host, "waits", "echo at last")
    path.write_text(path.read_text().replace("  working_dir: .\n", "  entrypoint_num_gpus: 8\n"))
    begin(cluster, host, "waits")
    said = eventually(
        lambda: next((line for line in (host.tmp / "said_beside").read_text().splitlines() if "is PENDING: " in line), None), within=120
    )
    assert "GPU" in said
    cluster.http.post("/api/jobs/holds1/stop")
    eventually(lambda: "SUCCEEDED" in (host.tmp / "said_beside").read_text(), within=120)
    assert "at last" in (host.tmp / "followed").read_text()


def test_two_operators_at_once_launch_one_job(cluster: Cluster):
    hosts = [cluster.head, cluster.lab["w1"]]
    for host in hosts:
        lay(host, "shared", "sleep 1000")
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda host: launch(cluster, host, "shared", "--yes --no-follow"), hosts))
    assert 0 in [code for code, _, _ in ended], ended
    (job,) = of_preset(cluster, "shared")
    assert job["submission_id"].startswith("shared-20")


def uploaded(cluster: Cluster) -> str:
    """A folder as `ray job submit --working-dir` sends it: it asks first, and Ray keeps for 10 minutes what was asked for."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr(
            "train.py", "import os; print('key', len(os.environ['WANDB_API_KEY']), 'and', os.environ['MODE']); raise SystemExit(3)"
        )
    name = f"_ray_pkg_{hashlib.sha256(whole.getvalue()).hexdigest()[:16]}.zip"
    assert cluster.http.get(f"/api/packages/gcs/{name}").status_code == 404
    assert cluster.http.put(f"/api/packages/gcs/{name}", content=whole.getvalue()).is_success
    return f"gcs://{name}"


def test_a_job_that_was_submitted_by_hand_and_failed_is_launched_again_with_two_keys(cluster: Cluster):
    """What it was given goes to the new one, its secret too, which no eye has seen."""
    env = {"env_vars": {"WANDB_API_KEY": SECRET, "MODE": "${fast}"}, "working_dir": uploaded(cluster)}
    body = {
        "entrypoint": f"python train.py --wandb_token {SECRET}",
        "submission_id": "by-hand",
        "entrypoint_num_gpus": 1,
        "runtime_env": env,
    }
    assert cluster.http.post("/api/jobs/", json={**body, "metadata": {"team": "rl"}}).is_success
    eventually(lambda: cluster.job("by-hand") == "FAILED", within=120)
    lay_config(cluster.lab)
    seen = []
    with screen(cluster.head) as shown:
        shown.press("5")
        seen.append(shown.until("by-hand", "FAILED"))
        shown.press("L")
        seen.append(shown.until("Launch again: 1 job", "--wandb_token •••", "which Ray still has", "L again launches it"))
        eventually(
            lambda: "submitted" in shown.text or shown.press("L"), every=0.5
        )  # what is pressed before it could be read doesn't count
        seen.append(shown.text)
        again = eventually(lambda: [job for job in cluster.http.get("/api/jobs/").json() if (job["metadata"] or {}).get("cockpit_again")])
        eventually(lambda: "Esc shows its log" not in shown.text or shown.press("Escape"), every=1.0)
        seen.append(shown.until(f"key {len(SECRET)} and ${{fast}}"))
    (job,) = again
    assert job["submission_id"].startswith("by-hand-20")
    assert (job["entrypoint"], job["runtime_env"]) == (body["entrypoint"], env)
    assert job["metadata"]["team"] == "rl"
    held = cluster.http.get("/api/v0/actors?detail=1").json()["data"]["result"]["result"]
    (own,) = [actor["required_resources"] for actor in held if actor["name"].endswith(job["submission_id"])]
    assert own["GPU"] == 1
    log = cluster.head.folder / "run" / "lab" / "home" / ".local" / "state" / "cockpit" / "acts.jsonl"
    assert not [text for text in (*seen, log.read_text()) if SECRET in text]


@asynccontextmanager
async def operator(cluster: Cluster) -> Any:
    dashboard = Dashboard(cluster.address, token=lambda: cluster.token, transport=None)
    yield Launches(Operator(dashboard))  # type: ignore[arg-type]
    await dashboard.close()


@pytest.mark.parametrize("people", [["a double press"], ["one operator", "another"]], ids=len)
async def test_in_the_very_same_moment_ray_takes_one(cluster: Cluster, monkeypatch, people):
    """Everybody has planned before anybody submits: nobody can have seen another's job."""
    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    name = f"moment{len(people)}"
    preset = read_preset(lay(cluster.head, name, "echo well"))
    async with AsyncExitStack() as stack:
        launches = [await stack.enter_async_context(operator(cluster)) for _ in people]
        plans = [(one, await one.plan(find_action("launch"), ActionTarget(rows=(preset,)))) for one in launches]
        receipts: list[Receipt] = await asyncio.gather(*(one.perform(plan) for one, plan in plans * (2 if len(people) == 1 else 1)))
    (job,) = of_preset(cluster, name)
    assert {receipt.done[0].id for receipt in receipts if receipt.done} == {job["submission_id"]}
    assert [receipt.failed for receipt in receipts] == [(), ()]


async def test_in_the_very_same_moment_two_operators_launch_a_failed_job_again_once(cluster: Cluster):
    assert cluster.http.post("/api/jobs/", json={"entrypoint": "exit 3", "submission_id": "failed-by-hand"}).is_success
    eventually(lambda: cluster.job("failed-by-hand") == "FAILED", within=120)
    told = cluster.http.get("/api/jobs/failed-by-hand").json()
    job = Job("failed-by-hand", submission="failed-by-hand", status="FAILED", started=told["start_time"] / 1000)
    async with operator(cluster) as one, operator(cluster) as other:
        plans = [(each, await each.plan(find_action("launch-again"), ActionTarget(rows=(job,)))) for each in (one, other)]
        receipts: list[Receipt] = await asyncio.gather(*(each.perform(plan) for each, plan in (*plans, plans[0])))
    jobs = [entry for entry in cluster.http.get("/api/jobs/").json() if (entry["metadata"] or {}).get("cockpit_again") == "failed-by-hand"]
    assert [entry["submission_id"] for entry in jobs] == [*{receipt.done[0].id for receipt in receipts if receipt.done}]
    assert [receipt.failed for receipt in receipts] == [(), (), ()]
