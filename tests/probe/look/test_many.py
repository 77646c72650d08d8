"""A host with very many processes: it is looked at more slowly, not at its cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cockpit.probe.look.gpus import GpuReading
from cockpit.probe.look.proc import Users
from cockpit.probe.look.processes import Details, ProcessTable, ScannedProcess
from cockpit.probe.look.sample import Sampler
from cockpit.probe.look.sessions import Sessions

FORK = """
import os, sys
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
print("ready", flush=True)
os.read(0, 1)
"""


@pytest.fixture
def sampler():
    return Sampler(Users())


def forest(count):
    return {
        pid: ScannedProcess(pid, "python", "S", 1, pid, pid, 100 + pid, 1 << 20, details=Details(("python", "load.py"), {}, 0, (pid,)))
        for pid in range(2, count + 2)
    }


def test_of_a_hundred_thousand_processes_is_judged_once_for_each_look_at_them(sampler):
    many = forest(100_000)
    first = sampler._judge(many, GpuReading(), Sessions())
    assert sampler._judge(many, GpuReading(), Sessions()) is first
    assert sampler._judge(dict(many), GpuReading(), Sessions()) is not first


def test_as_soon_as_sessions_are_known_it_is_judged_by_them(sampler):
    many = forest(100_000)
    before = sampler._judge(many, GpuReading(), Sessions())
    sampler._sessions.facts = Sessions()
    assert sampler._judge(many, GpuReading(), Sessions()) is not before


def test_a_thousand_real_processes_are_all_seen():
    with subprocess.Popen([sys.executable, "-c", FORK, "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        parent.stdout.readline()
        table = ProcessTable()
        for _ in range(2):
            found = [process for process in table.scan().values() if process.parent == parent.pid]
            assert len(found) == 1000
            assert {process.details.uid for process in found} == {os.getuid()}
        parent.stdin.close()
