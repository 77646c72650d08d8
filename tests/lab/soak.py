"""`python -m tests.lab.soak --minutes 60`: whether the screen grows beside a Ray in which jobs come and go.

Two hosts, a real Ray, a real terminal; a job starts every two minutes and ends after 20 s, another page is opened every three minutes.
Prints the use of the screen and its probes once a minute. At the end it fits a straight line to the samples after a warm-up of ten
minutes, and exits with 1 if memory grows by 1 MB an hour or more, or if CPU or open files grow.

`--simulated`: a day on a synthetic cluster in a quarter of an hour; needs neither root nor Ray.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import psutil

from bench.screen import quiet_environment
from bench.terminal import Terminal
from cockpit.ui.pages import PAGES
from tests.lab import hosts
from tests.lab.cluster import Cluster
from tests.lab.healthy import RAY
from tests.lab.hosts import Lab
from tests.lab.observe import screen, write_config
from tests.lab.simulated import EVERY, LASTS
from tests.lab.usage import Usage, judge, usage

TURN = 180.0
"""Seconds for which a page stays open."""
WARM_UP = 600.0
PACE = 100.0
"""Simulated seconds in a real one."""
SIMULATED_WARM_UP = 4 * 3600.0
"""Simulated seconds. Python's allocator stops growing after two or three real minutes."""
JOB = """
import ray, sys, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=1)
class Rank:
    def work(self, seconds):
        time.sleep(seconds)
ranks = [Rank.options(name=f"rank-{sys.argv[2]}-{n}").remote() for n in range(4)]
ray.get([rank.work.remote(float(sys.argv[1])) for rank in ranks])
"""


class Run:
    """The seconds of a run, `pace` of them in a real one, and the events that are due in them."""

    def __init__(self, seconds: float, warm_up: float, pace: float = 1.0) -> None:
        self.seconds, self.pace = seconds, pace
        self.warm_up = min(warm_up, seconds / 3)
        self.seen: list[Usage] = []
        self._begun = time.monotonic()

    @property
    def now(self) -> float:
        return (time.monotonic() - self._begun) * self.pace

    def follow(self, program: psutil.Process, turn: Callable[[int], None], job: Callable[[int], None]) -> None:
        """Turns pages, starts jobs and samples, each when it is due, until the run is over."""
        due: list[tuple[float, Iterator[int], Callable[[int], None]]] = [
            (TURN, count(), turn),
            (EVERY, count(), job),
            (60.0 * max(1.0, self.pace / 10), count(), lambda _: self.look(program)),
        ]
        times = [0.0 for _ in due]
        while self.now < self.seconds:
            for number, (every, numbers, do) in enumerate(due):
                if self.now >= times[number]:
                    do(next(numbers))
                    times[number] += every
            time.sleep(max(0.0, (min(times) - self.now) / self.pace))

    def look(self, program: psutil.Process) -> None:
        """Prints a line with the current use. Raises `SystemExit` if the program has ended."""
        if program.status() == psutil.STATUS_ZOMBIE:
            sys.exit(f"the screen has ended after {self.now / 60:.0f} min")
        self.seen.append(now := usage(program, self.now))
        print(
            f"{now.at / 60:6.0f} min  screen {now.memory:6.1f} MB  probes {now.children:6.1f} MB  CPU {now.cpu:7.1f} s"
            f"  {now.files} files  {now.threads} threads  {now.processes} processes",
            flush=True,
        )

    def end(self) -> int:
        """Prints the verdict; returns the exit code."""
        verdict = judge(self.seen, self.warm_up, self.pace)
        print(f"{self.seconds / 3600:g} h, {self.warm_up / 60:.0f} min of them to warm up: {verdict.text}")
        print("; ".join(verdict.wrong) or "level")
        return bool(verdict.wrong)


def real(minutes: float) -> int:
    """Runs on the hosts of a lab."""
    hosts.sweep()
    lab = Lab(f"s{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        write_config(lab)
        _look_at(lab, "w1")
        cluster = Cluster(lab, ["head", "w1"], RAY)
        cluster.start()
        (cluster.head.tmp / "jobs" / "soak.py").write_text(JOB)
        with screen(cluster.head) as shown:
            shown.settled()
            for number in range(len(PAGES)):  # a page imports its modules when it is first opened
                shown.press(str(number + 1))
                shown.settled()
            run = Run(60 * minutes, WARM_UP)
            run.follow(
                shown.program.outer,
                lambda number: shown.press(str(number % len(PAGES) + 1)),
                lambda number: cluster.submit(f"soak-{number}", f"python soak.py {LASTS:g} {number}"),
            )
            return run.end()
    finally:
        lab.close()


def _look_at(lab: Lab, host: str) -> None:
    """Probes the host always, even if nothing on it needs an explanation."""
    config = lab["head"].folder / "run" / "lab" / "home" / ".config" / "cockpit" / "config.yaml"
    config.write_text(f"{config.read_text()}hosts: [{host}]\nprobe_hosts: always\n")


def simulated(hours: float) -> int:
    """Runs on a synthetic cluster whose day takes a quarter of an hour."""
    with ExitStack() as stack:
        env = stack.enter_context(quiet_environment())
        begun = str(time.time())
        address = stack.enter_context(dashboard(begun))
        words = [sys.executable, "-m", "tests.lab.simulated", "screen", begun, f"{PACE:g}", address]
        stack.callback((terminal := Terminal(words, env)).close)
        terminal.wait_for("nodes 2/2")
        run = Run(3600 * hours, SIMULATED_WARM_UP, PACE)
        run.follow(psutil.Process(terminal.pid), lambda number: _press(terminal, str(number % len(PAGES) + 1)), lambda _: None)
        return run.end()


def _press(terminal: Terminal, key: str) -> None:
    terminal.press(key)
    terminal.forget()


@contextmanager
def dashboard(begun: str) -> Iterator[str]:
    """The address of a synthetic dashboard."""
    words = [sys.executable, "-m", "tests.lab.simulated", "dashboard", begun, f"{PACE:g}"]
    with tempfile.TemporaryFile() as stderr, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().removeprefix("address=")
        finally:
            process.kill()


def main() -> None:
    """Exits with 1 if it grows."""
    flags = ArgumentParser(description=__doc__)
    flags.add_argument("--minutes", type=float, default=60.0)
    flags.add_argument("--simulated", action="store_true", help="a day at a hundredfold pace, on a synthetic cluster")
    flags.add_argument("--hours", type=float, default=24.0, help="of the simulated cluster's life")
    asked = flags.parse_args()
    if asked.simulated:
        sys.exit(simulated(asked.hours))
    if reason := hosts.why_not():
        sys.exit(reason)
    sys.exit(real(asked.minutes))


if __name__ == "__main__":
    main()
