"""One sample of the probe on a busy host, 8 simulated GPUs and 500 processes, beside one of nvitop."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import process, screen
from bench.row import Row, unmeasured
from cockpit.config.settings import Config
from cockpit.demo import nvml
from cockpit.sources.probes.spawn import local_command, watch_words

GPUS, PROCESSES, HOLDERS = 8, 500, 16
SAMPLES = 15
PEER_RUNS = 3
LINES = ((f"one probe sample, {GPUS} GPUs and {PROCESSES} processes / `nvitop -1`, CPU", 0.3, ""),)


def measure() -> list[Row]:
    """CPU of the probe over some samples at the usual pace; the first ones, which learn what stays, are left out."""
    try:
        with tempfile.TemporaryDirectory(prefix="cockpit-bench-") as folder, _crowd() as crowd:
            environment = nvml.environment(nvml.build(Path(folder)), _gpus(Path(folder) / "state", crowd[:HOLDERS]))
            ours, seen = _cost(environment)
            theirs = _peer_cost(environment)
    except nvml.CompilerError as error:
        return unmeasured(LINES, str(error))
    words = f"{1000 * ours:.0f} ms / {1000 * theirs:.0f} ms; {SAMPLES} samples, {seen}"
    return [Row(what, limit, ours / theirs, unit, words) for what, limit, unit in LINES]


@contextmanager
def _crowd() -> Iterator[list[int]]:
    """Processes that do nothing, until the host has as many as it should."""
    missing = max(HOLDERS, PROCESSES - sum(entry.name.isdigit() for entry in Path("/proc").iterdir()))
    crowd = [subprocess.Popen(["sleep", "600"]) for _ in range(missing)]
    try:
        yield [one.pid for one in crowd]
    finally:
        for one in crowd:
            one.kill()
        for one in crowd:
            one.wait()


def _gpus(state: Path, holders: list[int]) -> Path:
    state.write_text("".join(line + "\n" for line in nvml.gpus(GPUS)))
    for number, pid in enumerate(holders):
        nvml.hold(state, pid, [number % GPUS], 30 * nvml.GIB, busy=45)
    return state


def _cost(environment: dict[str, str]) -> tuple[float, str]:
    command = local_command(watch_words(Config().interval))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", **environment}) as probe:
        assert probe.stdout is not None
        for _ in range(3):
            probe.stdout.readline()
        before = process.cpu_seconds(probe.pid)
        lines = [probe.stdout.readline() for _ in range(SAMPLES)]
        spent = process.cpu_seconds(probe.pid) - before
        last = json.loads(lines[-1])
        probe.kill()
    return spent / SAMPLES, f"{len(last['gpus'] or ())} GPUs, {len(last['processes'])} processes told of"


def _peer_cost(environment: dict[str, str]) -> float:
    """CPU seconds of one look, its start with it: that is how it is used."""
    command = [str(screen.BIN / "nvitop"), "-1"]
    before = process.children_cpu_seconds()
    for _ in range(PEER_RUNS):
        subprocess.run(command, capture_output=True, check=True, env={"PATH": "/usr/bin:/bin", "TERM": "xterm", **environment})
    return (process.children_cpu_seconds() - before) / PEER_RUNS
