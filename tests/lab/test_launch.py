"""A preset's job on a real Ray: its folder arrives unchanged, its secrets reach Ray only, and it is launched once."""

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
from tests.lab.hosts import Host, Process
from tests.lab.observe import COCKPIT, screen, write_config
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
    """Writes a folder with a preset to a host; returns its path there."""
    for file, text in {**FOLDER, f"{name}.yaml": PRESET.format(entrypoint=entrypoint)}.items():
        path = host.tmp / "train" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (host.tmp / "train" / "tool.sh").chmod(0o755)
    return host.tmp / "train" / f"{name}.yaml"


def launch(cluster: Cluster, host: Host, name: str, words: str = "--yes") -> tuple[int, str, str]:
    """Launches as an operator on this host: exit code, stdout and stderr."""
    write_config(cluster.lab)
    token = f"RAY_AUTH_TOKEN={cluster.token}" if cluster.token else ""
    printed = host.ssh(
        f"cd /tmp/train; SECRET_TOKEN={SECRET} {token} {COCKPIT} launch ./{name}.yaml --address {cluster.address} {words}"
        " 2>/tmp/stderr; code=$?; echo; echo $code",
        timeout=120,
    )
    out, _, code = printed.rstrip("\n").rpartition("\n")
    return int(code), out, (host.tmp / "stderr").read_text()


def begin(cluster: Cluster, host: Host, name: str) -> Process:
    """Starts the same without waiting for it."""
    write_config(cluster.lab)
    program = f"cd /tmp/train; SECRET_TOKEN={SECRET} exec {COCKPIT} launch ./{name}.yaml --address {cluster.address} --yes"
    for file in ("followed", "stderr_of_launch"):
        (host.tmp / file).write_text("")
    return host.spawn("bash", "-c", f"{program} >/tmp/followed 2>/tmp/stderr_of_launch")


def of_preset(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    return [job for job in cluster.http.get("/api/jobs/").json() if (job["metadata"] or {}).get("cockpit_preset") == name]


def check_a_launch(cluster: Cluster, host: Host, *, modes: bool = True) -> None:
    """`modes`: this Ray keeps the modes of packed files."""
    lay(host, "ppo")
    code, out, stderr = launch(cluster, host, "ppo")
    assert code == 0, (out, stderr)
    assert "greeting hello" in out
    assert f"token {len(SECRET)} •••" in out
    assert "files ['.gitignore', 'data/rewards.txt', 'keep.bin', 'ppo.yaml', 'tool.sh', 'train.py']" in out
    assert ("runs well" in out) == modes
    assert "SUCCEEDED" in stderr
    (job,) = of_preset(cluster, "ppo")
    assert job["runtime_env"]["env_vars"] == {"GREETING": "hello", "SECRET_TOKEN": SECRET}
    assert job["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    log = host.folder / "run" / "lab" / "home" / ".local" / "state" / "cockpit" / "acts.jsonl"
    begun, ended = [json.loads(line) for line in log.read_text().splitlines()[-2:]]
    assert (begun["act"], begun["plan"][0]["why"]) == ("launch", "python train.py")
    assert ended["outcome"]["done"][0]["id"] == job["submission_id"]
    assert not [text for text in (out, stderr, log.read_text()) if SECRET in text]


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
def test_a_failed_job_is_reported_and_launched_again_without_a_second_upload(cluster: Cluster):
    host = cluster.head
    lay(host, "fails", "echo before; exit 3")
    code, out, stderr = launch(cluster, host, "fails")
    assert (code, "before" in out, "FAILED" in stderr) == (1, True, True), (out, stderr)
    code, out, stderr = launch(cluster, host, "fails", "--yes --force --no-follow")
    assert code == 0
    assert "was already uploaded" in out
    assert len({job["submission_id"] for job in of_preset(cluster, "fails")}) == 2


def test_a_second_launch_is_refused_while_the_first_runs_and_ctrl_c_only_stops_following(cluster: Cluster):
    host = cluster.lab["w1"]
    lay(host, "twice", "echo begun; sleep 1000")
    following = begin(cluster, host, "twice")
    eventually(lambda: "begun" in (host.tmp / "followed").read_text().splitlines(), within=120)
    code, _, stderr = launch(cluster, host, "twice", "--yes --no-follow")
    assert code == 1
    assert "of this preset is RUNNING" in stderr
    assert "--force submits it anyway" in stderr
    following.outer.send_signal(signal.SIGINT)
    eventually(lambda: "log no longer printed" in (host.tmp / "stderr_of_launch").read_text())
    assert [job["status"] for job in of_preset(cluster, "twice")] == ["RUNNING"]


@pytest.mark.incident
def test_a_job_that_waits_gives_the_reason_and_is_followed_when_it_begins(cluster: Cluster):
    for name in ("holds1", "holds2"):
        body = {"entrypoint": "sleep 1000", "submission_id": name, "entrypoint_num_gpus": 8}
        assert cluster.http.post("/api/jobs/", json=body).is_success
        eventually(lambda name=name: cluster.job(name) == "RUNNING", within=120)
    host = cluster.head
    path = lay(host, "waits", "echo at last")
    path.write_text(path.read_text().replace("  working_dir: .\n", "  entrypoint_num_gpus: 8\n"))
    begin(cluster, host, "waits")
    stderr = eventually(
        lambda: next((line for line in (host.tmp / "stderr_of_launch").read_text().splitlines() if "is PENDING: " in line), None),
        within=120,
    )
    assert "GPU" in stderr
    cluster.http.post("/api/jobs/holds1/stop")
    eventually(lambda: "SUCCEEDED" in (host.tmp / "stderr_of_launch").read_text(), within=120)
    assert "at last" in (host.tmp / "followed").read_text()


def test_two_operators_at_the_same_time_launch_one_job(cluster: Cluster):
    hosts = [cluster.head, cluster.lab["w1"]]
    for host in hosts:
        lay(host, "shared", "sleep 1000")
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda host: launch(cluster, host, "shared", "--yes --no-follow"), hosts))
    assert 0 in [code for code, _, _ in ended], ended
    (job,) = of_preset(cluster, "shared")
    assert job["submission_id"].startswith("shared-20")


def uploaded(cluster: Cluster) -> str:
    """Uploads a folder as `ray job submit --working-dir` does. Ray keeps it for 10 minutes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr(
            "train.py", "import os; print('key', len(os.environ['WANDB_API_KEY']), 'and', os.environ['MODE']); raise SystemExit(3)"
        )
    name = f"_ray_pkg_{hashlib.sha256(whole.getvalue()).hexdigest()[:16]}.zip"
    assert cluster.http.get(f"/api/packages/gcs/{name}").status_code == 404
    assert cluster.http.put(f"/api/packages/gcs/{name}", content=whole.getvalue()).is_success
    return f"gcs://{name}"


def test_a_failed_job_submitted_by_hand_is_launched_again_with_two_keys(cluster: Cluster):
    """The new job gets the old one's settings, its secret included, which was never shown."""
    env = {"env_vars": {"WANDB_API_KEY": SECRET, "MODE": "${fast}"}, "working_dir": uploaded(cluster)}
    body = {
        "entrypoint": f"python train.py --wandb_token {SECRET}",
        "submission_id": "by-hand",
        "entrypoint_num_gpus": 1,
        "runtime_env": env,
    }
    assert cluster.http.post("/api/jobs/", json={**body, "metadata": {"team": "rl"}}).is_success
    eventually(lambda: cluster.job("by-hand") == "FAILED", within=120)
    write_config(cluster.lab)
    seen = []
    with screen(cluster.head) as shown:
        shown.press("5")
        seen.append(shown.until("by-hand", "FAILED"))
        shown.press("L")
        seen.append(shown.until("Launch again: 1 job", "--wandb_token •••", "which Ray still has", "L again launches it"))
        eventually(lambda: "submitted" in shown.text or shown.press("L"), every=0.5)  # a key before the text could be read is ignored
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
async def test_ray_takes_one_of_two_launches_at_the_same_moment(cluster: Cluster, monkeypatch, people):
    """All have planned before the first submits, so none can have seen another's job."""
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


async def test_two_operators_at_the_same_moment_launch_a_failed_job_again_once(cluster: Cluster):
    assert cluster.http.post("/api/jobs/", json={"entrypoint": "exit 3", "submission_id": "failed-by-hand"}).is_success
    eventually(lambda: cluster.job("failed-by-hand") == "FAILED", within=120)
    failed = cluster.http.get("/api/jobs/failed-by-hand").json()
    job = Job("failed-by-hand", submission="failed-by-hand", status="FAILED", started=failed["start_time"] / 1000)
    async with operator(cluster) as one, operator(cluster) as other:
        plans = [(each, await each.plan(find_action("launch-again"), ActionTarget(rows=(job,)))) for each in (one, other)]
        receipts: list[Receipt] = await asyncio.gather(*(each.perform(plan) for each, plan in (*plans, plans[0])))
    jobs = [entry for entry in cluster.http.get("/api/jobs/").json() if (entry["metadata"] or {}).get("cockpit_again") == "failed-by-hand"]
    assert [entry["submission_id"] for entry in jobs] == [*{receipt.done[0].id for receipt in receipts if receipt.done}]
    assert [receipt.failed for receipt in receipts] == [(), (), ()]
