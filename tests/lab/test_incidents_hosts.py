"""Several faults at once on the hosts of a real Ray: each is found with the right numbers, and ends when it is repaired."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host
from tests.lab.incidents import found, over, serious_findings, watching
from tests.lab.observe import COCKPIT, Watcher, action, node, once, write_config

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

GIB = 1 << 30
SECRET = "0123456789abcdef0123456789abcdef"
START = "--num-cpus=16 --object-store-memory=100000000 --disable-usage-stats"
RANKS = """
import nvml, os, pathlib, ray, subprocess, sys, time
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as At
ray.init(address="auto", log_to_driver=False)
class Rank:
    def start(self):
        devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        nvml.hold(pathlib.Path(os.environ[nvml.STATE]), os.getpid(), devices, 30 << 30)
group = placement_group([{"GPU": 2, "CPU": 2}] * 2, strategy="STRICT_SPREAD")
ray.get(group.ready())
at = [At(group, placement_group_bundle_index=number // 2) for number in range(4)]
ranks = [ray.remote(Rank).options(num_gpus=1, num_cpus=1, scheduling_strategy=each).remote() for each in at]
ray.get([rank.start.remote() for rank in ranks])
time.sleep(10000)
"""


LEFT = """
import nvml, os, pathlib, ray, time
ray.init(address="auto", log_to_driver=False)
state = pathlib.Path(os.environ[nvml.STATE])
@ray.remote(num_gpus=1)
class Rank:
    def start(self, busy, grow):
        nvml.hold(state, os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"].split(","), 45 << 30, busy, grow)
ranks = [Rank.remote() for _ in range(4)]
ray.get([rank.start.remote(20 if number == 3 else 95, (number == 0) * (300 << 20)) for number, rank in enumerate(ranks)])
@ray.remote(num_cpus=1)
def leave():
    nvml.hold(pathlib.Path(os.environ[nvml.STATE]), os.getpid(), [7], 5 << 30)
ray.get(leave.remote())
time.sleep(10000)
"""


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches both hosts all the time."""
    made = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n")
    made.until(lambda now: all(node(now, name)["gpus"][0]["power_limit"] for name in ("head", "w1")), within=120)
    yield made
    made.end()


def gpu(host: Host, index: int, **facts: int) -> None:
    """Changes facts of a simulated GPU."""
    names = ("gpu", "index", "uuid", "total", "base", "util", "memutil", "temp", "power", "lost", "ecc")

    def changed(line: str) -> str:
        words = line.split(" ")
        if words[:2] != ["gpu", str(index)]:
            return line
        return " ".join([*(str(facts.get(name, word)) for name, word in zip(names, words, strict=False)), *words[len(names) :]])

    nvml.edit(host.state, lambda lines: [changed(line) for line in lines])


def test_each_gpu_fault_and_held_memory_has_its_own_finding(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    gpu(w1, 3, lost=1)
    gpu(w1, 4, ecc=7)
    gpu(w1, 6, base=30 * GIB)
    nvml.add(w1.state, "set 1 recovery 1", "set 2 recovery 4", "set 5 remap 1", "set 7 slow 0x40")
    stranger = w1.hold(0, 20 * GIB, title="python finetune.py")
    ill = {
        "gpu-lost": ("critical", "w1", "GPU 3 of w1 is lost: NVML can't reach it any more"),
        "gpu-recovery": ("critical", "w1", "GPU 1 of w1 has failed: NVML requests a recovery"),
        "gpu-drain": ("warning", "w1", "GPU 2 of w1 still works, but NVML asks for no new work on it"),
        "gpu-ecc": ("warning", "w1", "GPU 4 of w1 has lost data through memory errors (ECC) since its driver was loaded"),
        "gpu-remap": ("warning", "w1", "GPU 5 of w1 has bad memory rows and needs a reset to replace them"),
        "gpu-slowed": ("warning", "w1", "GPU 7 of w1 is throttled"),
        "gpu-memory-unexplained": (
            "warning", "w1", "30G of GPU memory is in use on 1 GPU of w1 (6), but no visible process holds it"
        ),
        "gpu-memory-held": (
            "warning",
            "w1",
            "Ray counts 2 GPUs of w1 as free, but their memory is in use by others: work placed there may run out of GPU memory",
        ),
    }  # fmt: skip
    eventually(lambda: serious_findings(watcher) == ill, within=120)
    doctor = cluster.head.ssh(f"XDG_CONFIG_HOME=/tmp/soon {COCKPIT} doctor --hosts head,w1,gone; true")
    assert [text for _, _, text in ill.values() if text not in doctor] == [], doctor
    assert "2 nodes alive, 2 of 3 hosts probed" in doctor
    assert "  - probe: gone: " in doctor
    w1.reset_gpus()
    stranger.kill()
    over(watcher, *(set(ill) - {"gpu-slowed"}))
    assert serious_findings(watcher)["gpu-slowed"][2] == "A GPU of w1 was throttled within the last 1m00s"


def test_links_power_limits_and_xids_have_their_own_findings(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    nvml.add(w1.state, "xid 0 79", "set 1 nvlinks_down 2", "set 2 pcie_width 8", "set 3 nvlink_errors 50", "set 4 power_limit 500000")
    worker = w1.hold(2, 20 * GIB, busy=95, title="python finetune.py")
    found(watcher, "gpu-xid", "The driver reported Xid 79 on GPU 0 of w1", "the GPU has fallen off the bus")
    capped = found(
        watcher, "gpu-power-capped", "GPU 4 of w1 has a power limit below its default; other GPUs of this model have a higher one"
    )
    assert "GPU 4: 500 W, by default 700 W (`nvidia-smi -q -d POWER`)" in capped["evidence"]
    found(watcher, "gpu-nvlink-down", "GPU 1 of w1 has NVLinks that are down")
    found(watcher, "gpu-pcie-slow", "GPU 2 of w1 has a PCIe link that runs below its maximum")
    found(watcher, "gpu-nvlink-errors", "GPU 3 of w1 has a growing number of NVLink errors")
    gpus = {each["index"]: each for each in node(watcher.now, "w1")["gpus"]}
    assert (gpus[1]["links"]["nvlinks_active"], gpus[2]["links"]["pcie_width"], [xid["code"] for xid in gpus[0]["xids"]]) == (16, 8, [79])
    w1.reset_gpus()
    worker.kill()
    over(watcher, "gpu-power-capped", "gpu-nvlink-down", "gpu-pcie-slow")


def test_a_slow_rank_growing_memory_and_an_idle_worker_with_memory_are_reported(cluster: Cluster, watcher: Watcher):
    for host in cluster.hosts:
        (host.tmp / "jobs" / "left.py").write_text(LEFT)
    cluster.submit("left", "python left.py")
    idle = found(watcher, "gpu-memory-idle-worker", "1 idle Ray worker holds 5.0G of GPU memory on 1 GPU of ", " (7) for at least ")
    assert (idle["remedy"]["act"], len(idle["evidence"])) == ("kill", 1)
    grows = found(watcher, "gpu-memory-grows", "GPU memory of job left grows and will be full ", " in use, +1")
    assert grows["remedy"]["act"] == "stop-job"
    (line,) = grows["evidence"]
    assert "held by pid " in line
    lags = found(watcher, "gpu-lags", " lags behind the other 3 GPUs of Rank of job left: 20% busy with ")
    assert len(lags["evidence"]) >= 2
    cluster.head.ssh(f"{COCKPIT} stop-job left --yes")
    over(watcher, "gpu-memory-grows", "gpu-lags")


def test_stalled_and_hanging_ranks_are_reported_with_the_different_one_even_without_a_probe(cluster: Cluster):
    for host in cluster.hosts:
        (host.tmp / "jobs" / "ranks.py").write_text(RANKS)
    cluster.submit("ranks", f"WANDB_API_KEY={SECRET} python ranks.py")
    watcher = watching(cluster, "probe_hosts: never\n")
    try:
        stalled = found(
            watcher, "job-stalled", "All 4 GPUs of job ranks have been at 0% for", "with 122G of memory in use, and its log has"
        )
        assert stalled["remedy"]["act"] == "stop-job"
        assert node(watcher.now, "w1")["gpus"][0]["power_limit"] is None, "no probe looks at w1"
        used = [(each["host"], hold["index"]) for each in watcher.now["processes"] for hold in each["gpus"]]
        assert sorted(name for name, _ in used) == ["head", "head", "w1", "w1"]
        odd = max(used)  # Ray decides which GPUs a node hands out
        for name, index in used:
            gpu(cluster.lab[name], index, util=100, power=70_000 if (name, index) == odd else 120_000)
        hung = found(
            watcher,
            "job-hung",
            "All 4 GPUs of job ranks have been at 100% with at most 120 W for",
            f"; different from the others: w1 GPU {odd[1]},",
        )
        there = ", ".join(str(index) for name, index in sorted(used) if name == "w1")
        assert f"w1 GPU {there}: 100%, 70-120 W (`nvidia-smi`)" in hung["evidence"]
        watcher.until(lambda now: [each["level"] for each in now["findings"] if each["code"] == "job-hung"] == ["critical"])
        bundle = cluster.head.tmp / "bundle.tar.gz"
        bundle.unlink(missing_ok=True)
        cluster.head.ssh(f"WANDB_API_KEY={SECRET} XDG_CONFIG_HOME=/tmp/soon {COCKPIT} doctor --bundle /tmp/{bundle.name}; true")
        with tarfile.open(bundle) as packed:
            files = {name: packed.extractfile(name).read().decode() for name in packed.getnames()}  # type: ignore[union-attr]  # all are files
        assert any(name.endswith("/raylet.out") for name in files)
        assert any("python ranks.py" in text for text in files.values())
        assert not [name for name, text in files.items() if SECRET in text]
        for name, index in used:
            gpu(cluster.lab[name], index, util=100, power=560_000)
        over(watcher, "job-hung", "job-stalled")
    finally:
        watcher.end()


@pytest.fixture
def small_disk(cluster: Cluster) -> Iterator[str]:
    """A disk of 64 MiB on w1."""
    w1 = cluster.lab["w1"]
    w1.ssh("mkdir -p /tmp/small && mount -t tmpfs -o size=64m tmpfs /tmp/small")
    yield "/tmp/small"
    w1.ssh("umount -l /tmp/small")


def test_a_second_ray_its_full_disk_and_a_forgotten_raylet_are_reported(cluster: Cluster, watcher: Watcher, small_disk: str):
    write_config(cluster.lab)
    w1, raylet = cluster.lab["w1"], cluster.part("raylet", "w1")
    raylet.freeze()  # while Ray gives it up, continue with the rest
    second = f"--head --port=6399 --temp-dir={small_disk} --num-gpus=1 --num-cpus=1 --object-store-memory=80000000"
    cluster.command(w1, f"ray start {second} --include-dashboard=false --disable-usage-stats")
    both = found(watcher, "sessions-several", "2 Ray sessions run on w1, and each may offer the same 8 GPUs: session_")
    name = os.path.basename(w1.ssh(f"readlink {small_disk}/session_latest").strip())
    assert f"{name} of root" in both["text"]
    over(watcher, "ray-versions", "python-versions")
    for process in [*w1.matching(small_disk), *w1.matching(":6399")]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.outer.kill()
    w1.ssh(f"cd {small_disk} && dd if=/dev/zero of={name}/logs/worker.out bs=1M count=61 status=none")
    w1.ssh(f"cd {small_disk} && touch -d '1 hour ago' ray_current_cluster {name}")
    full = found(
        watcher, "disk-full", "The disk under /tmp/small on w1 is 95% full (2.", "M of 64M left)", "; 1 dead session uses 61M of the disk"
    )
    assert (full["level"], full["remedy"]["act"]) == ("critical", "clean")
    assert f"du -sh {small_disk}/{name}: 61M (dead, of root)" in full["evidence"]
    dead = found(watcher, "pointer-dead", "/tmp/small/ray_current_cluster names")
    assert dead["text"] == (
        f"On w1 /tmp/small/session_latest points at the dead {name} and /tmp/small/ray_current_cluster names {w1.address}:6399, "
        "where no Ray runs: `ray.init()` and `ray status` fail"
    )
    assert "sessions-several" not in serious_findings(watcher)
    code, _, stderr = action(cluster.head, f"clean w1 --session {small_disk}/{name} --yes")
    assert code == 0, stderr
    over(watcher, "disk-full")
    w1.ssh(f"rm -f {small_disk}/ray_current_cluster")  # it belongs to no session
    over(watcher, "pointer-dead")
    given_up = found(watcher, "node-dead", "Ray marked w1 dead", f"but its raylet (pid {raylet.pid}, stopped by a signal) still runs there")
    assert (given_up["level"], given_up["remedy"]["act"]) == ("critical", "kill")
    raylet.thaw()
    found(watcher, "node-dead", "w1 died", "(health check failed due to missing too many heartbeats); lost with it: 8 GPUs")
    assert not w1.matching("raylet/raylet")


AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search env HOME=/tmp"
"""Another user who can read all that root can, and so finds Ray, but cannot write any of it."""
OTHER_PYTHON = "/usr/bin/python3"
"""A Python that is not the tests' own."""


def other_python() -> tuple[str, str]:
    """The command and version of another Python that can import our Ray."""
    packages, theirs = sysconfig.get_paths()["purelib"], ""
    with contextlib.suppress(OSError):
        asked = subprocess.run([OTHER_PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True)
        theirs = asked.stdout.strip()
    if theirs == platform.python_version() or theirs.rpartition(".")[0] != platform.python_version().rpartition(".")[0]:
        pytest.skip(f"{OTHER_PYTHON} is none that differs from this Python in its last number alone")
    return f"PYTHONPATH={packages} {OTHER_PYTHON}", theirs


def test_different_versions_are_reported_and_the_job_that_ray_refuses_for_them(cluster: Cluster):
    python, version = other_python()
    w1, ours = cluster.lab["w1"], platform.python_version()
    nvml.add(w1.state, "driver 570.86.15")
    cluster.command(w1, "ray stop --force")
    minor = "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor"  # else Ray refuses this too
    cluster.command(w1, f"{minor} {python} -m ray.scripts.scripts start --address={cluster.gcs_address} {START}")
    watcher = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n")
    try:
        driver, other = found(watcher, "driver-versions"), found(watcher, "python-versions")
        assert (driver["level"], driver["text"]) == ("info", "The NVIDIA driver is 570.86.15 on w1; 1 other host has 580.00.SIM")
        assert (other["level"], other["text"]) == ("warning", f"Python is {version} on w1; 1 other host has {ours}")
        cluster.submit("other", f"{python} -c 'import ray; ray.init(\"auto\")'")
        failed = found(watcher, "job-failed", "Job other failed: RuntimeError: Version mismatch: ")
        assert f"Python: {ours} This process on " in failed["text"]
        assert failed["text"].endswith(f"Python: {version}")
    finally:
        watcher.end()
        cluster.part("raylet", "w1").kill()  # the next test gets a complete Ray


def test_another_users_temp_dir_is_reported_with_the_users_it_blocks_and_a_working_remedy(cluster: Cluster):
    write_config(cluster.lab)
    w1 = cluster.lab["w1"]
    start = "ray start --head --num-gpus=1 --num-cpus=1 --object-store-memory=80000000 --include-dashboard=false"
    refused = cluster.command(w1, f"{AS_NOBODY} {start} --port=6399 2>&1; true")
    assert "PermissionError: [Errno 13] Permission denied: '/tmp/ray/ray_current_cluster'" in refused
    watcher = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n")
    try:
        left = found(watcher, "sessions-several", "2 Ray sessions run on w1", " of nobody")  # Ray refused the rest, but these run
        session = left["text"].partition(" of nobody")[0].split()[-1]
        code, _, stderr = action(cluster.head, f"stop w1 --session {session} --yes")
        assert code == 0, stderr
        over(watcher, "sessions-several")
    finally:
        watcher.end()
    seen = json.loads(cluster.command(w1, f"{AS_NOBODY} {COCKPIT} status --json --address={cluster.address}; true"))
    (finding,) = [each for each in seen["findings"] if each["code"] == "temp-dir-foreign"]
    assert (finding["level"], finding["subject"], finding["text"]) == (
        "info",
        "w1 /tmp/ray",
        "/tmp/ray on w1 belongs to root, and this user can't write to it: `ray start` by this user fails there",
    )
    assert finding["remedy"]["text"].startswith("start a Ray of your own with `ray start --head --temp-dir=/tmp/ray-$USER`")
    assert not [each for each in once(w1)[1]["findings"] if each["code"] == "temp-dir-foreign"], "root can write to it"
    assert "Ray runtime started" in cluster.command(w1, f"{AS_NOBODY} {start} --port=6400 --temp-dir=/tmp/ray-nobody")
    for process in [*w1.matching("ray-nobody"), *w1.matching("6399"), *w1.matching("6400")]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.outer.kill()


ENGINE = """
import ray, subprocess, sys, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address="auto", log_to_driver=False)
class Engine:
    def start(self):
        subprocess.Popen([sys.executable, "engine.py", "0,1", "20"], start_new_session=True)
node = next(each["NodeID"] for each in ray.nodes() if each["Alive"] and each["NodeName"] == sys.argv[1])
engine = ray.remote(Engine).options(num_gpus=2, scheduling_strategy=On(node, soft=False)).remote()
ray.get(engine.start.remote())
time.sleep(10000)
"""


@contextlib.contextmanager
def limited_tasks(pid: int, limit: int) -> Iterator[None]:
    """Moves that process into its own cgroup with a limit of processes and threads."""
    root = Path("/sys/fs/cgroup/pids") if Path("/sys/fs/cgroup/pids").is_dir() else Path("/sys/fs/cgroup")
    before, own = Path(f"/proc/{pid}/cgroup").read_text(), root / f"cockpit-{pid}"
    home = next(path for line in before.splitlines() for _, named, path in [line.split(":", 2)] if named in ("pids", ""))
    own.mkdir()
    try:
        (own / "pids.max").write_text(str(limit))
        (own / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (root / home.lstrip("/") / "cgroup.procs").write_text(str(pid))
        own.rmdir()


def test_leftovers_of_ray_stop_and_limits_of_raylets_are_reported(cluster: Cluster, watcher: Watcher):
    write_config(cluster.lab)
    w1 = cluster.lab["w1"]
    (cluster.head.tmp / "jobs" / "engine_on.py").write_text(ENGINE)
    cluster.submit("engine", f"python engine_on.py {w1.address}")
    engine = eventually(lambda: w1.matching("VLLM::EngineCore"), within=120)[0]
    eventually(lambda: f" {engine.pid} " in w1.state.read_text())
    cluster.command(w1, "ray stop --force")
    cluster.http.post("/api/jobs/engine/stop")  # while its job runs it is no orphan
    left = found(watcher, "gpu-memory-orphaned")
    assert left["text"].startswith("1 orphan process holds 40G of GPU memory on 2 GPUs of w1 (0, 1): job engine STOPPED ")
    assert left["text"].endswith(" ago and nothing alive owns it")
    assert (left["level"], left["subject"], left["remedy"]["act"]) == ("critical", "w1", "kill-orphans")
    assert left["evidence"][0].startswith(f"pid {engine.pid} (orphan) VLLM::EngineCore holds GPU 0: 20G, GPU 1: 20G: ")
    found(watcher, "node-dead", "w1 died", "lost with it: 8 GPUs")
    code, _, stderr = action(cluster.head, "kill-orphans w1 --yes")
    assert code == 0, stderr
    over(watcher, "gpu-memory-orphaned")

    cluster.command(w1, f"CUDA_VISIBLE_DEVICES=0,1,9 ray start --address={cluster.gcs_address} --num-gpus=3 {START}")
    over(watcher, "node-dead")
    seen = found(watcher, "gpu-visible")
    assert seen["text"] == "The raylet of w1 was given GPUs that do not exist: CUDA_VISIBLE_DEVICES names 9"
    nvml.remove(w1.state, *(f"gpu {index} " for index in range(1, 8)))
    gone = found(watcher, "gpu-count")
    assert gone["text"] == "Ray offers 3 GPUs on w1, but NVML sees 1: work placed there can fail for lack of a GPU"
    w1.reset_gpus()
    over(watcher, "gpu-count")
    raylet = cluster.part("raylet", "w1")
    files = len(os.listdir(f"/proc/{raylet.outer.pid}/fd"))
    limit = int(files / 0.85)
    w1.ssh(f"prlimit --pid {raylet.pid} --nofile={limit}:")
    near = found(
        watcher, "open-files", f"Raylet (pid {raylet.pid}) on w1 has ", f" of {limit} files open: at the limit no more workers can register"
    )
    assert f"`prlimit --pid {raylet.pid} --nofile=" in near["remedy"]["text"]
    w1.ssh(f"prlimit --pid {raylet.pid} --nofile=20000:")
    over(watcher, "open-files")

    with limited_tasks(raylet.outer.pid, int(len(os.listdir(f"/proc/{raylet.outer.pid}/task")) / 0.87)):
        near = found(watcher, "task-limit-near", f"The cgroup of raylet (pid {raylet.pid}) on w1 has ", "(pids.max)")
        assert near["level"] == "warning"
    over(watcher, "task-limit-near")

    raylet.kill()  # the next test gets a complete Ray
