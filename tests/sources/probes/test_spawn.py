"""A program in a container ends with cockpit, although the container's engine keeps reading its output."""

from __future__ import annotations

import asyncio
import shlex
import stat
import sys

import pytest

from cockpit.sources.probes.payload import program
from cockpit.sources.probes.process import Child
from cockpit.sources.probes.spawn import HELD_CODE, find_executor, hold_stdin, spawn


@pytest.mark.parametrize(
    ("command", "executor"),
    [
        ("podman exec -i train python3 -", "podman"),
        ("/usr/bin/podman --root /data/store exec -i train /opt/python -", "podman"),
        ("sudo -u ann docker exec -i train python3 -", "docker"),
        ("docker --host ssh://w1 exec -i train python3 -", "docker"),
        ("crictl exec -i 0123456789ab python3 -", "crictl"),
        ("kubectl exec -i -n ray pod -- python3 -", "kubectl"),
        ("ssh podman python3 -", None),
        ("podman run -i image python3 -", None),
        ("podman exec -i train python3 --version", None),
        ("", None),
    ],
)
def test_a_container_engine_is_found_in_the_command(command, executor):
    assert find_executor(shlex.split(command)) == executor


@pytest.mark.parametrize(
    ("command", "is_held"), [("podman exec -i train python3 -", True), ("ssh w1 podman exec -i train python3 -", False)]
)
def test_only_an_engine_of_this_host_gets_the_code_that_watches_stdin(command: str, is_held: bool):
    assert hold_stdin(shlex.split(command)) == [*shlex.split(command)[:-1], *(("-c", HELD_CODE) if is_held else "-")]


@pytest.mark.process
async def test_a_probe_in_a_container_sends_samples_and_ends_when_its_stdin_closes(tmp_path, monkeypatch):
    engine = tmp_path / "podman"
    engine.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    engine.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    lines: list[bytes] = []
    command = hold_stdin(["podman", "exec", "-i", "train", sys.executable, "-"])
    child = Child(
        spawn(command),
        lines.extend,
        lambda: None,
        program(["--interval", "0.5", "--no-lifeline"]),
    )
    while len(lines) < 3:
        assert child.poll_exit() is None, child.last_words
        await asyncio.sleep(0.01)
    child.release()
    assert child.process.stdin
    child.process.stdin.close()
    assert child.process.wait(60) == 0
    child.end()
