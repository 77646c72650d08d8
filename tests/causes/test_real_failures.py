"""Failures made with real parts: cockpit names the cause, and a remedy that is about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.causes.failed_jobs import reasons, submit
from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import once

pytestmark = [pytest.mark.causes, pytest.mark.timeout(600)]

DETACHED = (
    "import ray; ray.init(); ray.remote(type('Trainer', (), {})).options(name='trainer', lifetime='detached', namespace='rl').remote()"
)
TAKEN = f"{DETACHED}; import time; time.sleep(1)"
IN_A_TASK = """
import ray
ray.init()
@ray.remote
def load(path):
    return open(path).read()
ray.get(load.remote("/data/train.parquet"))
"""
DYING_ACTOR = """
import os, ray
ray.init()
@ray.remote
class Worker:
    def fit(self):
        os._exit(7)
ray.get(Worker.remote().fit.remote())
"""
FULL_SHM = """
import mmap, os
descriptor = os.open("/dev/shm/tensors", os.O_RDWR | os.O_CREAT)
size = 4 << 30
os.ftruncate(descriptor, size)
memory = mmap.mmap(descriptor, size)
for at in range(0, size, 1 << 20):
    memory[at : at + (1 << 20)] = b"x" * (1 << 20)
"""
OPTIONS = """
import argparse
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--max-length", type=int)
parser.parse_args(["--max-lenght", "1024"])
"""
EATER = """
pages = []
while True:
    pages.append(bytearray(b"x" * (1 << 20)))
"""
IN_CGROUP = """
set -e
group=/sys/fs/cgroup/memory/cockpit-causes-$$
mkdir $group
echo 200M > $group/memory.limit_in_bytes
echo $$ > $group/tasks
set +e
python /tmp/scripts/eater.py
code=$?
echo $$ > /sys/fs/cgroup/memory/tasks
rmdir $group
exit $code
"""
ENGINES = """
import ray
ray.init()
@ray.remote
class Engine:
    def ready(self):
        return 1
engines = [Engine.remote() for _ in range(8)]
ray.get([engine.ready.remote() for engine in engines])
"""
SCRIPTS = {
    "engines.py": ENGINES,
    "detached.py": TAKEN,
    "in_a_task.py": IN_A_TASK,
    "dying_actor.py": DYING_ACTOR,
    "full_shm.py": FULL_SHM,
    "options.py": OPTIONS,
    "eater.py": EATER,
    "in_cgroup.sh": IN_CGROUP,
}


@pytest.fixture(scope="module")
def host(ray: Cluster) -> Cluster:
    """The Ray, with the scripts that fail on its host."""
    folder = ray.head.tmp / "scripts"
    folder.mkdir()
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text)
    return ray


def why(ray: Cluster, name: str, entrypoint: str, runtime_env: dict[str, Any] | None = None) -> dict[str, Any]:
    """What cockpit says of a job that runs this and fails."""
    submit(ray, name, entrypoint, runtime_env)
    job: dict[str, Any] = reasons(ray, [name])[name]
    assert job["status"] == "FAILED", job
    assert job["failure"], job
    return job


def test_a_full_disk(host: Cluster):
    host.head.ssh("mkdir -p /tmp/small && mount -t tmpfs -o size=1m tmpfs /tmp/small")
    job = why(host, "full-disk", """python -c "open('/tmp/small/model', 'wb').write(b'x' * (4 << 20))" """)
    assert "full" in job["reason"]
    assert job["failure"]["remedy"]


def test_a_taken_port(host: Cluster):
    holder = host.head.spawn("python3", "-m", "http.server", "28999")
    try:
        eventually(lambda: "28999" in host.head.ssh("ss -ltn"))
        job = why(host, "taken-port", "python -m http.server 28999")
    finally:
        holder.kill()
    assert "port" in job["reason"]
    assert "in use" in job["reason"]


def test_a_name_that_a_detached_actor_has(host: Cluster):
    submit(host, "first-trainer", "python /tmp/scripts/detached.py")
    eventually(lambda: host.job("first-trainer") == "SUCCEEDED")
    job = why(host, "second-trainer", "python /tmp/scripts/detached.py second")
    assert job["failure"]["known"] == "ray-actor-name-taken"
    assert "trainer" in job["reason"]
    findings = once(host.head)[1]["findings"]
    (found,) = [finding for finding in findings if finding["code"] == "job-failed" and "trainer" in finding["text"]]
    assert found["remedy"]["act"] == "kill-actor"


def test_a_python_without_torch(host: Cluster):
    job = why(host, "no-torch", 'python -c "import torch"')
    assert job["failure"]["known"] == "module-missing"
    assert "torch" in job["reason"]


def test_a_runtime_environment_whose_pip_fails(host: Cluster):
    # Without an index, as on a host without a network: pip's own retries would take minutes.
    pip = {"packages": ["cockpit-has-no-such-package==1.2.3"], "pip_install_options": ["--no-index", "--disable-pip-version-check"]}
    job = why(host, "no-package", "python -c 1", {"pip": pip})
    assert "cockpit-has-no-such-package" in f"{job['reason']} {job['failure']['text']}"


def test_an_oom_kill_of_the_kernel(host: Cluster):
    if not Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists():
        pytest.skip("no memory controller of cgroup v1 here")
    job = why(host, "oom-kill", "bash /tmp/scripts/in_cgroup.sh")
    assert any(word in job["reason"] for word in ("SIGKILL", "memory", "killed"))


def test_a_kill_9(host: Cluster):
    job = why(host, "kill-9", """python -c "import os; os.kill(os.getpid(), 9)"; exit $?""")
    assert any(word in job["reason"] for word in ("SIGKILL", "killed"))
    assert "GPU" not in job["reason"], "nothing says so"


def test_the_text_of_slurm_at_a_time_limit(host: Cluster):
    line = "slurmstepd: error: *** JOB 77 ON w1 CANCELLED AT 2026-11-28T10:00:00 DUE TO TIME LIMIT ***"
    job = why(host, "time-limit", f"echo '{line}'; kill -15 $$")
    assert job["failure"]["known"] == "slurm-time-limit"
    assert "77" in job["reason"]


def test_a_full_shared_memory(host: Cluster):
    try:
        job = why(host, "full-shm", "python /tmp/scripts/full_shm.py; exit $?")
    finally:
        host.head.ssh("rm -f /dev/shm/tensors")
    assert "SIGBUS" in job["reason"] or "bus error" in job["reason"].lower()
    assert "/dev/shm" in f"{job['reason']} {job['failure']['remedy']}"


def test_a_missing_file_in_a_remote_task(host: Cluster):
    job = why(host, "no-file", "python /tmp/scripts/in_a_task.py")
    assert "/data/train.parquet" in job["reason"]
    assert "RayTaskError" not in job["reason"]
    assert job["failure"]["raised_at"].startswith("in_a_task.py:6")


def test_an_actor_that_ends_itself(host: Cluster):
    job = why(host, "dying-actor", "python /tmp/scripts/dying_actor.py")
    assert "Worker" in f"{job['reason']} {job['failure']['text']}"


def test_a_misspelt_option(host: Cluster):
    job = why(host, "misspelt-option", "python /tmp/scripts/options.py")
    assert job["failure"]["known"] == "option-unknown"
    assert "--max-lenght" in job["reason"]


def test_a_misspelt_key_of_hydra(host: Cluster, tmp_path_factory: pytest.TempPathFactory):
    folder = Path.home() / ".cache" / "cockpit-tests" / "hydra"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        made = subprocess.run([str(folder / "bin" / "pip"), "install", "-q", "hydra-core"], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"no Hydra here: {made.stderr.strip().splitlines()[-1]}")
    script = host.head.tmp / "scripts" / "hydra_main.py"
    script.write_text("import hydra\n@hydra.main(config_path=None, config_name=None)\ndef main(config): pass\nmain()\n")
    job = why(host, "hydra", f"{python} /tmp/scripts/hydra_main.py trainer.epohcs=3")
    assert "epohcs" in job["reason"]


def test_worker_ports_that_are_too_few(host: Cluster):
    """The job does not fail: it waits for ever, and cockpit says for what."""
    host.stop()
    host.command(
        host.head,
        "ray start --head --port=6379 --dashboard-host=0.0.0.0 --dashboard-port=8265 --num-cpus=16 --object-store-memory=100000000"
        " --disable-usage-stats --min-worker-port=20000 --max-worker-port=20003",
    )
    eventually(host.complete, within=120)
    submit(host, "few-ports", "python /tmp/scripts/engines.py")

    def is_explained() -> bool:
        facts = once(host.head)[1]
        texts = [finding["text"] for finding in facts["findings"]] + [actor["why"] or "" for actor in facts["actors"]["pending"]]
        return any("port" in text and "worker" in text for text in texts)

    eventually(is_explained, within=240, every=3.0)
