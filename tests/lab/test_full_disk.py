"""A real Ray whose temp dir lies on a small disk: a job that fills it with its log is named; the log can be emptied while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Lab
from tests.lab.incidents import found, over, watching
from tests.lab.observe import action, once, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

MIB = 1 << 20
DRIVER = """
import pathlib, sys, time, ray
ray.init(address="auto", log_to_driver=False)
line = "step 1 reward 0.1 " * 57
for _ in range(int(sys.argv[1])):
    for _ in range(1024):
        print(line)
    sys.stdout.flush()
while True:
    if pathlib.Path("/tmp/say").exists():
        print("one line more", flush=True)
    time.sleep(0.2)
"""
"""Prints this many MiB, as a driver that logs each step; later a line now and then, when a file asks for it."""


class SmallDisk(Cluster):
    """Its temp dir is a disk of 400 MiB, also after a repeated start."""

    def _start(self) -> None:
        self.head.ssh("mountpoint -q /tmp/ray || { mkdir -p /tmp/ray && mount -t tmpfs -o size=400m tmpfs /tmp/ray; }")
        super()._start()


@pytest.fixture
def small() -> Iterator[Cluster]:
    """A Ray of one host, its temp dir on a disk of 400 MiB."""
    if (reason := hosts.why_not() or (None if RAY.exists() else NO_RAY)) is not None:
        pytest.skip(reason)
    lab = Lab(f"d{os.getpid() % 100000}", ["head"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        cluster = SmallDisk(lab, ["head"], RAY)
        cluster.start()
        write_config(lab)
        yield cluster
    finally:
        lab.close()


def test_a_driver_that_fills_the_disk_is_named_and_its_job_is_stopped(small: Cluster):
    head = small.head
    (head.tmp / "driver.py").write_text(DRIVER)
    used = int(head.ssh("df --output=used -B1 /tmp/ray | tail -1"))
    small.submit("chatty", f"python /tmp/driver.py {(int(400 * MIB * 0.92) - used) // (1026 * 1024)}")
    watcher = watching(small)
    try:
        full = found(watcher, "disk-filling", "The disk under /tmp/ray on head is 9", "; largest: driver log of job chatty (3")
        log = head.ssh("ls /tmp/ray/session_2*/logs/job-driver-chatty.log").strip()
        assert full["remedy"]["text"] == (
            f"`cockpit stop-job chatty` ends the job; or empty the log {log} on head (also while it is written, for Ray appends to it), "
            "but see first that no folder of that path is a link: others can put one there; then let the job print less"
        )
        assert [line for line in full["evidence"] if line.startswith(f"du -sh {log} on head: 3") and "of root" in line]
        (node,) = watcher.now["nodes"]
        (disk,) = [one for one in node["filled"] if one["path"] == "/tmp/ray"]
        assert (disk["fillers"][0]["kind"], disk["fillers"][0]["job"]) == ("driver_log", "chatty")
        head.ssh(f"truncate -s 0 {log}")
        (head.tmp / "say").touch()
        eventually(lambda: "one line more" in head.ssh(f"tail -c 100 {log}"), within=120)
        assert int(head.ssh(f"stat -c %s {log}")) < MIB, "it begins again and has no hole"
        assert small.job("chatty") == "RUNNING"
        over(watcher, "disk-filling")
        code, _, stderr = action(head, f"{full['remedy']['text'].split('`')[1].removeprefix('cockpit ')} --yes")
        assert code == 0, stderr
        assert small.job("chatty") == "STOPPED"
    finally:
        watcher.end()


def test_a_machine_has_one_name_and_is_counted_once(small: Cluster):
    _, facts, _ = once(small.head)
    assert [node["host"] for node in facts["nodes"]] == ["head"]
    assert "1 of 1 host probed" in small.head.ssh("cockpit status; true")
