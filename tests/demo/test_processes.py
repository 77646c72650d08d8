"""Marked processes are found and ended; no other is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cockpit.demo import processes

pytestmark = pytest.mark.process

CHAIN = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=-3, stderr=-3)
print(child.pid, flush=True)
"""


def marked(value: object) -> dict[str, str]:
    return {**os.environ, processes.MARK: str(value)}


def test_a_process_that_outlived_its_parent_is_ended_too(tmp_path: Path):
    parent = subprocess.run([sys.executable, "-c", CHAIN], env=marked(tmp_path), capture_output=True, text=True, check=True)
    assert [process.pid for process in processes.find_marked(str(tmp_path))] == [int(parent.stdout)]
    assert processes.end_marked(str(tmp_path)) == []
    assert processes.find_marked(str(tmp_path)) == []


def test_a_process_with_another_mark_lives_on(tmp_path: Path):
    with subprocess.Popen(["sleep", "60"], env=marked(tmp_path / "other")) as other:
        processes.end_marked(str(tmp_path))
        assert other.poll() is None
        other.kill()


def test_a_process_with_a_reused_pid_is_not_killed(monkeypatch: pytest.MonkeyPatch):
    with subprocess.Popen(["sleep", "60"]) as innocent:
        former = psutil.Process(innocent.pid)
        former._ident = (innocent.pid, 1.0)
        monkeypatch.setattr(processes, "find_marked", lambda _: [former])
        assert processes.end_marked("any", within=0.2) == [innocent.pid]
        assert innocent.poll() is None
        innocent.kill()


def test_a_process_whose_pid_belonged_to_another_before_is_found(tmp_path: Path):
    with subprocess.Popen(["sleep", "60"], env=marked(tmp_path)) as child:
        seen_before = next(process for process in psutil.process_iter() if process.pid == child.pid)
        seen_before._ident = (child.pid, 1.0)
        found = processes.find_marked(str(tmp_path))
        child.kill()
    assert [process.pid for process in found] == [child.pid]


def test_it_does_not_find_itself(tmp_path: Path):
    code = f"from cockpit.demo import processes; print(processes.find_marked({str(tmp_path)!r}))"
    assert subprocess.run([sys.executable, "-c", code], env=marked(tmp_path), capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_child_whose_mark_is_overwritten_is_ended_with_its_parent(tmp_path: Path):
    bare = CHAIN.replace("start_new_session=True", "env={}, start_new_session=True").replace('"sleep"', '"/bin/sleep"') + "child.wait()\n"
    with subprocess.Popen([sys.executable, "-c", bare], env=marked(tmp_path), stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert processes.end_marked(str(tmp_path)) == []
    assert not Path(f"/proc/{child}").exists() or Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
