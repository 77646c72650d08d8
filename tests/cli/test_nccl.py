"""Tests `cockpit nccl`: which job, what is printed, and that an old NCCL is asked only with consent."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from cockpit.cli import nccl as module
from cockpit.cli.nccl import nccl
from cockpit.model import Communicator, CountGap, CountGroup, NcclRank, NcclReport
from cockpit.monitor.nccl_asker import OldNcclError
from tests.world import NOW, snapshot

GAP = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (NcclRank(rank=3, pid=4003),))))
REPORT = NcclReport(job="job:ppo-7b", asked=NOW, versions=("2.29.7",), number=1, communicators=(Communicator(hash="0x1", gaps=(GAP,)),))


class FakeMonitor:
    """A monitor of one snapshot whose NCCL answers."""

    def __init__(self, report: NcclReport, *, old: bool, **seen) -> None:
        self.poller, self.nccl, self.snapshot = self, self, snapshot(**seen)
        self.report, self.old, self.asked = report, old, []
        self.closed = 0

    async def ask(self, job, *, even_old=False):
        self.asked.append((job.id, even_old))
        if self.old and not even_old:
            raise OldNcclError("NCCL 2.27.5 runs on node1")
        return self.report

    def close(self):
        self.closed += 1


@pytest.fixture
def run(monkeypatch):
    def made(*words, report=REPORT, old=False, answer=None, terminal=False, **seen) -> tuple[Result, FakeMonitor]:
        monitor = FakeMonitor(report, old=old, **seen)

        async def sample(*_, **__):
            return monitor

        monkeypatch.setattr(module, "sample_once", sample)
        monkeypatch.setattr(module, "is_terminal", lambda: terminal)
        result = CliRunner().invoke(nccl, words, input=answer)
        assert monitor.closed
        return result, monitor

    return made


def test_the_report_of_a_job_is_printed(run):
    result, monitor = run("ppo-7b")
    assert (result.exit_code, monitor.asked) == (0, [("ppo-7b", False)])
    assert "  rank 3 (pid 4003) is 1 AllReduce behind the 7 others (411 launched, not 412)" in result.stdout.splitlines()


def test_as_json_it_is_the_same_value_as_in_status(run):
    found = json.loads(run("ppo-7b", "--json")[0].stdout)
    assert found["communicators"][0]["gaps"][0]["groups"][1]["ranks"][0]["rank"] == 3


@pytest.mark.parametrize(
    ("words", "seen", "expected"),
    [
        (("ppo-6b",), {}, "job ppo-6b does not run: it is FAILED"),
        (("ppo-7c",), {}, "there is no job ppo-7c in the Ray cluster at http://10.0.0.1:8265; did you mean ppo-7b?"),
        (("ppo-7b",), {"jobs": None}, "the jobs are unknown: Ray has not answered"),
    ],
)
def test_without_one_running_job_nothing_is_asked(run, words, seen, expected):
    result, monitor = run(*words, **seen)
    assert (result.exit_code, result.stderr.strip(), monitor.asked) == (3, f"cockpit: {expected}", [])


def test_an_old_nccl_is_asked_only_with_consent(run):
    result, monitor = run("ppo-7b", old=True)
    assert (result.exit_code, monitor.asked) == (1, [("ppo-7b", False)])
    assert "NCCL 2.27.5 runs on node1. When a rank has died, NCCL before 2.29.2 can read wrong memory" in result.stderr
    assert "add --yes" in result.stderr
    result, monitor = run("ppo-7b", "--yes", old=True)
    assert (result.exit_code, monitor.asked) == (0, [("ppo-7b", True)])
    result, monitor = run("ppo-7b", old=True, terminal=True, answer="n\n")
    assert (result.exit_code, monitor.asked) == (1, [("ppo-7b", False)])
    result, monitor = run("ppo-7b", old=True, terminal=True, answer="y\n")
    assert (result.exit_code, monitor.asked) == (0, [("ppo-7b", False), ("ppo-7b", True)])


def test_with_readonly_an_old_nccl_is_never_asked(run):
    result, monitor = run("ppo-7b", "--yes", "--readonly", old=True, terminal=True, answer="y\n")
    assert (result.exit_code, monitor.asked) == (1, [("ppo-7b", False)])
    assert "It was not asked: cockpit is read-only (--readonly)" in result.stderr


def test_without_any_report_the_reasons_are_printed_and_the_code_is_1(run):
    result, _ = run("ppo-7b", report=NcclReport(job="job:ppo-7b", asked=NOW, problems=("node1: switched off",)))
    assert result.exit_code == 1
    assert "  node1: switched off" in result.stdout.splitlines()
