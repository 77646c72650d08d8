"""A host with very many processes is scanned more seldom, so that the CPU load stays low."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cockpit.probe.sample import host_sample
from cockpit.probe.sample.gpus import GpuReading
from cockpit.probe.sample.host_sample import Sampler
from cockpit.probe.sample.proc import Users
from cockpit.probe.sample.process_kinds import NO_SIGN
from cockpit.probe.sample.processes import MAX_WORDS, Details, ProcessScanner, ScannedProcess, read_argv, shown_command
from cockpit.probe.sample.sessions import Sessions
from cockpit.sources.probes.decode import Sample, read_line

pytestmark = pytest.mark.slow

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


def table(count):
    return {
        pid: ScannedProcess(pid, "python", "S", 1, pid, pid, 100 + pid, 1 << 20, details=Details(("python", "load.py"), {}, 0, (pid,)))
        for pid in range(2, count + 2)
    }


def test_processes_are_classified_again_once_sessions_are_known(sampler):
    many = table(10)
    before = sampler._judge(many, GpuReading(), Sessions())
    sampler._sessions.facts = Sessions()
    assert sampler._judge(many, GpuReading(), Sessions()) is not before


def test_a_thousand_real_processes_are_all_seen():
    with subprocess.Popen([sys.executable, "-c", FORK, "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        parent.stdout.readline()
        scanner = ProcessScanner()
        for _ in range(2):
            found = [process for process in scanner.scan().values() if process.parent == parent.pid]
            assert len(found) == 1000
            assert {process.details.uid for process in found} == {os.getuid()}
        parent.stdin.close()


def test_only_a_part_of_a_very_long_command_is_read():
    command = ["sh", "-c", "echo; read x", *["\xff"] * 5000]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert len(read_argv(child.pid)) == MAX_WORDS
        child.kill()


def test_commands_are_cut_so_that_the_line_of_a_sample_stays_readable():
    (long,) = table(1).values()
    for uid, lengths in ((4711, [4096, 4096, 1048, 120]), (0, [4096, 4096, 2097, 120])):
        one = long._replace(details=long.details._replace(argv=("x" * 10_000,), uid=uid))
        assert [len(shown_command(one, number)) for number in (1, 256, 1000, 100_000)] == lengths


def test_if_there_are_too_many_processes_those_of_root_and_ours_are_listed_first(sampler, monkeypatch):
    monkeypatch.setattr(host_sample, "MAX_PROCESSES", 3)
    many = {pid: one._replace(details=one.details._replace(uid=0 if pid > 9 else 4711)) for pid, one in table(10).items()}
    monkeypatch.setattr(sampler, "_judge", lambda *_: dict.fromkeys(many, NO_SIGN))
    sampler._processes.facts = many
    sample = sampler.sample()
    read = read_line(json.dumps(sample).encode(), Sample)
    assert {10, 11} < {process.pid for process in read.processes or ()}
    assert [fault.text.partition(" (")[0] for fault in read.faults if fault.source == "processes"] == ["7 processes are not listed"]
