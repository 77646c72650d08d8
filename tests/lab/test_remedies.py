"""The command of a finding's remedy is typed as printed, in the state that the finding describes; then the finding ends."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, Part, eventually
from tests.lab.hosts import Host
from tests.lab.incidents import found, over, watching
from tests.lab.observe import COCKPIT, Facts, Watcher, action, node, screen
from tests.remedies.inventory import commands_in

pytestmark = [pytest.mark.lab, pytest.mark.remedy, pytest.mark.timeout(1500)]

OWN_FLAGS = "--num-cpus=16 --object-store-memory=100000000 --disable-usage-stats"
"""Flags of this operator's `ray start` beside those of the remedy."""
SOON = {"open_files_least": 15000, "agent_silent": 12, "gcs_silent": 2, "dashboard_silent": 3, "monitor_silent": 1}


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches both hosts all the time with short thresholds, and has seen the cluster complete."""
    made = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n", **SOON)
    made.until(lambda now: [each["state"] for each in now["nodes"]].count("ALIVE") == 2 and not now["faults"], within=300)
    yield made
    made.end()


def command_in(finding: Facts, start: str) -> str:
    """The only command of its remedy that begins with `start`."""
    [command] = [command for command in commands_in(finding["remedy"]["text"]) if command.startswith(start)]
    return command


def end_ray(cluster: Cluster, host: Host) -> None:
    """Stops Ray as people do."""
    cluster.command(host, "ray stop --force")


def join(cluster: Cluster, host: Host, flags: str = "", before: str = "") -> None:
    """Starts Ray on that host again: `before` precedes `ray start`, `flags` follow it."""
    end_ray(cluster, host)
    cluster.command(host, f"{before} ray start --address={cluster.gcs_address} {OWN_FLAGS} {flags}", timeout=300)


def restart_with_remedy(cluster: Cluster, host: Host, finding: Facts) -> None:
    """Restarts with everything that the remedy says about `ray start`."""
    commands = commands_in(finding["remedy"]["text"])
    flags = " ".join(command for command in commands if command.startswith("--"))
    assert flags, finding
    join(cluster, host, flags, " ".join(command for command in commands if command.startswith("CUDA_VISIBLE_DEVICES=")))


def status_text(host: Host, words: str = "") -> str:
    """The output of `cockpit status` there, with any exit code."""
    return host.ssh(f"XDG_CONFIG_HOME=/tmp/soon {COCKPIT} status {words} || true")


@pytest.mark.parametrize(
    ("part", "where", "code"),
    [("gcs", "head", "gcs-silent"), ("dashboard", "head", "dashboard-silent"), ("monitor", "head", "monitor-silent"),
     ("agent", "w1", "agent-silent")],
)  # fmt: skip
def test_a_stopped_part_of_ray_continues(cluster: Cluster, watcher: Watcher, part: Part, where: str, code: str):
    process = cluster.part(part, where)
    process.freeze()
    command = command_in(found(watcher, code, where if code == "agent-silent" else f"(pid {process.pid})"), "kill -CONT ")
    cluster.lab[where].ssh(command)
    over(watcher, code)


def test_gpus_withheld_from_a_raylet_or_missing(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    join(cluster, w1, "--num-gpus=2", "CUDA_VISIBLE_DEVICES=1,2,4,5")
    few = found(watcher, "gpu-unused", "Ray offers only 2 GPUs of the 4 usable on w1")
    given = [gpu["index"] for gpu in node(watcher.now, "w1")["gpus"] if gpu["given_to_ray"]]
    assert given == [1, 2]
    assert "GPUs not given to Ray: 6 on w1 (0, 3, 4, 5, 6, 7)" in status_text(cluster.head, "--hosts head,w1")
    restart_with_remedy(cluster, w1, few)
    over(watcher, "gpu-unused", "node-dead")
    eventually(lambda: [gpu["index"] for gpu in node(watcher.now, "w1")["gpus"] if gpu["given_to_ray"]] == [1, 2, 4, 5])

    join(cluster, w1, "--num-gpus=2", "CUDA_VISIBLE_DEVICES=0,9")
    restart_with_remedy(cluster, w1, found(watcher, "gpu-visible", "CUDA_VISIBLE_DEVICES names 9"))
    over(watcher, "gpu-visible", "node-dead")

    join(cluster, w1, "", """RAY_OVERRIDE_RESOURCES='{"GPU": 12}'""")
    restart_with_remedy(cluster, w1, found(watcher, "gpu-count", "Ray offers 12 GPUs on w1, but NVML sees 8"))
    over(watcher, "gpu-count", "node-dead")


def test_a_raylet_with_few_files_left_gets_more(cluster: Cluster, watcher: Watcher):
    w1, raylet = cluster.lab["w1"], cluster.part("raylet", "w1")
    limit = int(raylet.outer.num_fds() / 0.85)
    w1.ssh(f"prlimit --pid {raylet.pid} --nofile={limit}:")
    w1.ssh(command_in(found(watcher, "open-files", f"Raylet (pid {raylet.pid}) on w1"), "prlimit "))
    over(watcher, "open-files")


def test_a_dead_node_joins_again(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    cluster.part("raylet", "w1").kill()
    command = command_in(found(watcher, "node-dead", "w1 died"), "ray start ")
    assert command == f"ray start --address={cluster.gcs_address}"
    cluster.command(w1, command, timeout=300)
    over(watcher, "node-dead")
    end_ray(cluster, w1)  # its number of CPUs differs from the others': the next test gets a complete Ray


def test_a_wrong_dashboard_address_is_corrected(cluster: Cluster):
    [command] = re.findall(r"use `(cockpit --address \S+)`", status_text(cluster.head, "--address http://127.0.0.1:9999"))
    with screen(cluster.head, command.removeprefix("cockpit ")) as shown:
        shown.until("nodes 2/2", "Overview")


def test_a_node_is_drained_by_its_name(cluster: Cluster, watcher: Watcher):
    w1 = cluster.lab["w1"]
    nvml.add(w1.state, "set 3 remap 1")
    ill = found(watcher, "gpu-remap", "GPU 3 of w1")
    command = command_in(ill, "cockpit drain-node ")
    assert (command, command_in(ill, "nvidia-smi ")) == ("cockpit drain-node w1", "nvidia-smi -r -i 3")
    code, _, stderr = action(cluster.head, f"{shlex.join(shlex.split(command)[1:])} --yes")
    assert code == 0, stderr
    watcher.until(lambda now: node(now, "w1")["state"] != "ALIVE")
    nvml.remove(w1.state, "set 3 remap")  # the reset itself needs a real GPU
    over(watcher, "gpu-remap")


def test_commands_that_show_more_can_be_typed(cluster: Cluster):
    """Commands that change nothing: each command of Ray and Linux that a finding names as evidence."""
    cluster.submit("shown", "sleep 600")
    eventually(lambda: cluster.job("shown") == "RUNNING")
    raylet = cluster.part("raylet")
    for command in (
        "ray status", "ray status -v", "ray memory", "ray memory --stats-only", "ray list nodes", "ray list actors --detail",
        "ray list placement-groups --detail", "ray list tasks", "ray list tasks --filter state=PENDING_NODE_ASSIGNMENT",
        "ray list actors --filter state=PENDING_CREATION", "ray list workers --detail --filter exit_type=NODE_OUT_OF_MEMORY",
        "ray list workers --detail --filter exit_type=SYSTEM_ERROR", "ray job status shown", "ray job logs shown", "ray job stop shown",
        f"ps -fp {raylet.pid}", "ps -ef", "ps aux --sort=-rss | head", "free -b", "ls -lS /dev/shm", "ss -ltnp", "ss -ltnp sport = :8265",
        "du -xh --max-depth 2 /tmp/ray | sort -h", "ulimit -n 1024", "ulimit -u", "unset CUDA_VISIBLE_DEVICES",
    ):  # fmt: skip
        cluster.command(cluster.head, f"RAY_ADDRESS=http://127.0.0.1:8265 && set -o pipefail && {command}" if "job" in command else command)
