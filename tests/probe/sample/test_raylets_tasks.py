"""The number of processes and threads, and the kernel's limits of them."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from cockpit.probe.sample import raylets as tasks
from cockpit.probe.sample.cgroups import cgroup_folders
from cockpit.probe.sample.processes import ProcessScanner
from cockpit.probe.sample.raylets import TaskLimit, task_limits
from tests.probe.process_tables import process, raylet, table

HERE = os.getpid()
NOBODYS = 64_123
"""A uid without any other process here."""
FULL = """
import sys, threading, time
try:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError:
    print(flush=True)
sys.stdin.read()
"""
"""Starts threads until the kernel refuses."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    """A host without limits of cgroups and of its own, and a raylet without the capability."""
    monkeypatch.setattr(tasks, "folders_above", lambda _pid, _controller: ())
    monkeypatch.setattr(tasks, "in_first_namespace", lambda: False)
    monkeypatch.setattr(tasks, "has_capability", lambda _pid, _bits: False)


def threads(pid, number, **more):
    return process(pid, **more)._replace(threads=number)


def test_only_the_threads_of_its_user_are_counted():
    one = raylet(HERE)._replace(threads=100)
    there = table(one, threads(HERE + 1, 30), threads(HERE + 2, 1000, uid=1001), init=False)
    assert task_limits(one, there, 4096) == (TaskLimit("user", 130, 4096),)


@pytest.mark.parametrize(
    ("one", "limit"),
    [(raylet(HERE, uid=0), 4096), (raylet(HERE, uid=None), 4096), (raylet(HERE), None), (raylet(4_000_000), 4096)],
    ids=["root", "an unknown user", "an unlimited or unknown limit", "an ended process"],
)
def test_a_limit_that_is_unknown_or_does_not_hold_is_not_reported(one, limit):
    assert task_limits(one, table(one), limit) == ()


@pytest.mark.parametrize(
    ("name", "answer"),
    [("has_capability", lambda _pid, bits: bits == tasks.EXEMPT), ("is_in_our_namespace", lambda pid, kind: (pid, kind) != (HERE, "user"))],
)
def test_with_the_capability_or_in_another_user_namespace_no_limit_is_reported(monkeypatch, name, answer):
    monkeypatch.setattr(tasks, name, answer)
    one = raylet(HERE)
    assert task_limits(one, table(one), 4096) == ()


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("0::/user.slice/ray\n", ["/c/user.slice/ray", "/c/user.slice", "/c"]),
        ("9:name=systemd:/x\n8:pids:/docker/4f\n0::/\n", ["/c/pids/docker/4f", "/c/pids/docker", "/c/pids", "/c"]),
        ("4:cpu,pids:/a:b\n", ["/c/pids/a:b", "/c/pids"]),
        ("0::/../../elsewhere\n", []),
        ("3:cpu:/a\n\nx\n", []),
    ],
)
def test_all_cgroups_above_it_are_read(text, folders):
    assert list(cgroup_folders(text, "pids", "/c")) == folders


def of_cgroups(monkeypatch, root: Path):
    monkeypatch.setattr(tasks, "folders_above", lambda _pid, name: cgroup_folders("0::/slice/unit\n", name, str(root)))
    one = raylet(HERE, uid=0)
    return task_limits(one, table(one), None)


def test_the_cgroup_that_is_nearest_to_its_limit_is_reported(monkeypatch, tmp_path):
    for folder, limit, used in (("slice/unit", "max", 90), ("slice", "100", 90), (".", "1000", 95)):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "pids.max").write_text(f"{limit}\n")
        (tmp_path / folder / "pids.current").write_text(f"{used}\n")
    assert of_cgroups(monkeypatch, tmp_path) == (TaskLimit("cgroup", 90, 100, f"{tmp_path}/slice/pids.max"),)


def test_a_cgroup_without_a_valid_limit_is_not_reported(monkeypatch, tmp_path):
    (tmp_path / "slice").mkdir()
    (tmp_path / "slice" / "pids.max").write_text("0\n")
    (tmp_path / "slice" / "pids.current").write_text("x\n")
    assert of_cgroups(monkeypatch, tmp_path) == ()


def test_the_limits_of_the_host_are_read_if_all_processes_are_seen(monkeypatch):
    monkeypatch.setattr(tasks, "in_first_namespace", lambda: True)
    told = {one.what: one for one in task_limits(raylet(HERE, uid=0), {}, None)}
    assert told["pids"].limit == int(Path("/proc/sys/kernel/pid_max").read_text())
    assert told["threads"].limit == int(Path("/proc/sys/kernel/threads-max").read_text())
    assert 0 < told["threads"].used <= told["threads"].limit


def _limit_nobody() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (40, 40))
    os.setgid(NOBODYS)
    os.setuid(NOBODYS)


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_they_are_counted_as_the_kernel_counts_them(monkeypatch):
    monkeypatch.undo()
    command = ["/usr/bin/env", "python3", "-c", FULL]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, preexec_fn=_limit_nobody, cwd="/", **pipes) as child:
        assert child.stdout.readline() == b"\n"
        there = ProcessScanner().scan()
        assert TaskLimit("user", 40, 40) in task_limits(there[child.pid], there, 40)
        child.communicate(b"")
