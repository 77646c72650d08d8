"""The command `ray stop` as a child of this program: it ends in time, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cockpit.probe.actions.ray import NoWayError
from cockpit.probe.actions.stop import everything
from cockpit.probe.actions.stop.everything import RayCommand, run
from cockpit.probe.sample.processes import lives, read_stat

pytestmark = pytest.mark.process

PARENT = """
import sys, time
from cockpit.probe.actions.stop.everything import _start
print(_start([sys.argv[1], "stop"], None).pid, flush=True)
time.sleep(60)
"""


def stand_in(folder: Path, script: str) -> RayCommand:
    """A stand-in for Ray's command."""
    path = folder / "ray"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return RayCommand(str(path), None)


def test_its_output_is_reported_line_by_line_and_its_summary_is_kept(tmp_path: Path):
    progress: list[str] = []
    command = stand_in(tmp_path, 'echo "$@"; echo Stopped all 3 Ray processes.; echo some advice')
    assert run(command, {"grace": 0}, progress.append) == "Stopped all 3 Ray processes. (`ray stop` ended with exit code 0)"
    assert "stop --grace-period 1" in progress


@pytest.mark.parametrize("script", ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"])
def test_a_command_that_does_not_end_is_killed_and_this_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str):
    monkeypatch.setattr(everything, "EXTRA_TIMEOUT_S", 0.0)
    monkeypatch.setattr(everything, "STILL_RUNNING_AFTER_S", 0.2)
    progress: list[str] = []
    assert run(stand_in(tmp_path, script), {"grace": 1}, progress.append).endswith("(`ray stop` did not end in time)")
    assert ("`ray stop` is still running" in progress) == (script == "exec sleep 1000")


def test_a_command_that_cannot_be_started_is_one_sentence(tmp_path: Path):
    with pytest.raises(NoWayError, match="can't be started"):
        run(RayCommand(str(tmp_path / "ray"), None), {}, lambda *_: None)


def test_it_ends_with_the_program_that_started_it(tmp_path: Path):
    command = stand_in(tmp_path, "exec sleep 60")
    with subprocess.Popen([sys.executable, "-c", PARENT, command.path], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        found = read_stat(pid)
        assert found
        parent.kill()
    until = time.monotonic() + 60
    try:
        while lives(pid, found.ticks) and time.monotonic() < until:
            time.sleep(0.01)
        assert not lives(pid, found.ticks)
    finally:
        if lives(pid, found.ticks):
            os.kill(pid, signal.SIGKILL)
