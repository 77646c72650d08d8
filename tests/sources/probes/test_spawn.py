"""A program in a container ends with cockpit, although the container's engine keeps reading its output."""

from __future__ import annotations

import asyncio
import shlex
import stat
import sys

import pytest

from cockpit.sources.probes.payload import program_parts
from cockpit.sources.probes.process import Child
from cockpit.sources.probes.spawn import find_executor, replace_dash, spawn


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
    "command",
    [
        "ssh -J gate -p 22 -o BatchMode=yes ann@w1 python3 -",
        "/usr/bin/ssh w1 ~/conda/bin/python -",
        "srun --jobid=7 -w n1 python3 -",
        "podman exec -i train python3 -",
    ],
)
def test_a_program_is_read_whole_if_its_way_is_known(command):
    *words, last = replace_dash(shlex.split(command))
    assert words == [*shlex.split(command)[:-1], "-c"]
    assert shlex.split(last)[0].startswith("import"), "quoted for no more than one shell"


@pytest.mark.parametrize(
    "command",
    [
        "ssh gate ssh w1 python3 -",
        "ssh gate 'ssh w1 python3' -",
        "srun -w n1 ssh n2 python3 -",
        "ssh",
        "ssh w1 /opt/wrapper -",
        "ssh w1 sudo -n python3 -",
        "ssh -Z w1 python3 -",
        "ssh w1 python3 --version",
        "pdsh w1 python3 -",
    ],
)
def test_other_commands_stay_unchanged(command):
    assert replace_dash(shlex.split(command)) == shlex.split(command)


@pytest.mark.process
async def test_a_probe_in_a_container_sends_samples_and_ends_when_its_stdin_closes(tmp_path, monkeypatch):
    engine = tmp_path / "podman"
    engine.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    engine.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    heard: list[bytes] = []
    command = replace_dash(["podman", "exec", "-i", "train", sys.executable, "-"])
    child = Child(
        spawn(command),
        heard.extend,
        lambda: None,
        program_parts(["--interval", "0.5", "--no-lifeline"]),
    )
    while len(heard) < 3:
        assert child.poll_exit() is None, child.last_words
        await asyncio.sleep(0.01)
    child.release()
    assert child.process.stdin
    child.process.stdin.close()
    assert child.process.wait(60) == 0
    child.end()
