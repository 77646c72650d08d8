"""Stacks of real processes by py-spy, and the errors if it can't read them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.probe.sample import stacks
from cockpit.probe.sample.processes import read_stat
from cockpit.probe.sample.stacks import stack

pytestmark = pytest.mark.process

SLEEPER = "import time\ndef waits_for_the_others():\n    print(flush=True)\n    time.sleep(600)\nwaits_for_the_others()"
Run = Callable[..., int]


@pytest.fixture
def run() -> Iterator[Run]:
    started = []

    def start(*command: str) -> int:
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.append(child)
        if command[0] == sys.executable:
            assert child.stdout.readline()
        return child.pid

    yield start
    for child in started:
        child.kill()
        child.communicate()


def ticks(pid: int) -> int:
    return read_stat(pid).ticks


def test_the_first_frame_is_the_innermost_call_and_another_process_with_this_pid_is_not_read(run: Run):
    pid = run(sys.executable, "-c", SLEEPER)
    seen = stack(pid, ticks(pid))
    assert (seen["pid"], seen["ticks"]) == (pid, ticks(pid))
    assert [frame["name"] for frame in seen["threads"][0]["frames"]] == ["waits_for_the_others", "<module>"]
    assert stack(pid, ticks(pid) + 1) == {"error": f"Process {pid} has ended; that pid is free or another process's now."}
    assert stack(pid, 0)["ticks"] == ticks(pid)


def test_a_process_without_python_is_reported_as_such_and_without_py_spy_the_error_explains_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    pid = run("sleep", "60")
    assert stack(pid, ticks(pid)) == {"error": f"process {pid} runs no Python that py-spy knows"}
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(stacks, "read_environ", lambda pid: {"PATH": "/nowhere"})
    assert "pip install py-spy" in stack(pid, ticks(pid))["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others run what is on their PATH")
def test_a_py_spy_that_others_may_write_is_not_run_as_root(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran = tmp_path / "ran"
    own = tmp_path / "py-spy"
    own.write_text(f"#!/bin/sh\ntouch {ran}\n")
    own.chmod(0o777)
    pid = run("sleep", "60")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/python")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(stacks, "read_environ", lambda pid: {"PATH": str(tmp_path)})
    error = stack(pid, ticks(pid))["error"]
    assert f"{own} is not run as root" in error
    assert "can be written by everybody" in error
    assert not ran.exists()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
            "py-spy is not allowed to read",
        ),
        ("Error: Operation not permitted (os error 1)", "py-spy can't read process 7: Error: Operation not permitted"),
        ("Error: Failed to find python version from target process", "runs no Python"),
        ("", "no output"),
    ],
)
def test_an_error_of_py_spy_becomes_a_sentence(output: str, expected: str):
    assert expected in stacks._explain(output, 7)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
def test_a_denied_py_spy_is_explained_by_the_kernels_rule(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = os.getpid()
    monkeypatch.setattr(stacks, "PTRACE_SCOPE", str(tmp_path / "ptrace_scope"))
    assert "run cockpit as root (in a container" in stacks._explain("Permission denied", own)
    (tmp_path / "ptrace_scope").write_text("1\n")
    assert "kernel.yama.ptrace_scope is 1 on this host: run cockpit as root" in stacks._explain("Permission denied", own)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "it is another user's: run cockpit as root or as its user" in stacks._explain("Permission denied", own)


def test_invalid_output_is_an_error():
    assert "can't be read" in stacks._parse_threads(b"[{}]")["error"]
    assert "can't be read" in stacks._parse_threads(b"half a")["error"]
