"""What `make soak` measures with: it must see growth where there is some, and none where there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from bench.screen import quiet_environment
from bench.terminal import Terminal
from cockpit.monitor import poller
from cockpit.ui.pages import PAGES
from tests.lab.simulated import PAUSES, WORKERS, Clock, ClusterMonitor, job_id
from tests.lab.soak import Run, dashboard
from tests.lab.usage import Usage, judge, usage

pytestmark = pytest.mark.process

HOUR = 3600.0


def seen(memory=0.0, files=0.0, cpu=0.0, hours=1.0, noise=0.3):
    """A look a minute; each grows by so much an hour, and memory goes up and down besides."""
    looks = []
    spent = 0.0
    for minute in range(int(60 * hours) + 1):
        hour = minute / 60
        spent += 60 * (0.05 + cpu / 100 * hour)
        up = noise * (1 if minute % 2 else -1)
        looks.append(Usage(60.0 * minute, 50 + memory * hour + up, 13.0, spent, int(12 + files * hour), 3, 2))
    return looks


@pytest.mark.parametrize(
    ("growth", "said"),
    [
        ({}, ()),
        ({"memory": 1.5}, ("memory grows",)),
        ({"memory": 120.0}, ("memory grows",)),
        ({"files": 6.0}, ("open files grow",)),
        ({"cpu": 5.0}, ("CPU grows",)),
    ],
)
def test_what_grows_is_said_and_too_short_a_run_is_not_called_level(growth, said):
    assert judge(seen(**growth), 600.0).wrong == said
    assert judge(seen(hours=0.2, **growth), 600.0).wrong


def test_what_comes_while_it_warms_up_does_not_count():
    warm = [look._replace(memory=look.memory + 20.0) if look.at >= 540 else look for look in seen()]
    assert judge(warm, 600.0).wrong == ()
    assert judge(warm, 0.0).wrong == ("memory grows",)


def test_in_a_simulated_hour_all_but_cpu_counts_by_its_own_clock():
    hurried = [look._replace(at=100 * look.at, memory=50 + look.at / HOUR * 50, cpu=look.cpu) for look in seen()]
    verdict = judge(hurried, 600.0, pace=100.0)
    assert verdict.wrong == ()
    assert "screen +0.50 MB an hour" in verdict.text


def test_a_program_and_its_children_are_measured():
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0); print(1, flush=True); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        now = usage(psutil.Process(program.pid), 0.0)
        program.kill()
    assert now.memory > 1
    assert now.processes == 2
    assert now.files >= 3


def test_pages_jobs_and_looks_fall_due_in_a_run():
    run, turned, begun = Run(HOUR / 2, 60.0, pace=1800.0), [], []
    run.follow(psutil.Process(), turned.append, begun.append)
    assert len(turned) == pytest.approx(HOUR / 2 / 180, abs=2)
    assert begun[:3] == [0, 1, 2]
    assert run.seen
    assert run.warm_up == 60.0
    assert len(PAGES) > 1


async def test_in_the_simulated_cluster_jobs_come_and_go(monkeypatch):
    for name in PAUSES:
        monkeypatch.setattr(poller, name, getattr(poller, name) / 100)
    clock = Clock(time.time(), 100.0)
    words = [sys.executable, "-m", "tests.lab.simulated", "dashboard", str(clock.begun), "100"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as dashboard:
        try:
            assert dashboard.stdout is not None
            address = dashboard.stdout.readline().strip().removeprefix("address=")
            actors, processes = set(), set()
            enough = asyncio.Event()

            def take(snapshot):
                actors.update(actor.job for actor in snapshot.actors or ())
                processes.update(process.key for process in snapshot.processes or () if process.ticks)
                if len(actors) >= 3 and len(processes) > 3 * WORKERS:
                    enough.set()

            watching = asyncio.create_task(ClusterMonitor(take, clock, address).run())
            await asyncio.wait_for(enough.wait(), 60)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        finally:
            dashboard.kill()
    assert actors <= {job_id(run) for run in range(1000)}


def test_the_screen_of_the_simulated_cluster_draws_it():
    begun = str(time.time())
    with quiet_environment() as env, dashboard(begun) as address:
        terminal = Terminal([sys.executable, "-m", "tests.lab.simulated", "screen", begun, "100", address], env)
        try:
            terminal.wait_for("nodes 2/2")
        finally:
            terminal.close()
