"""What several cockpits on one head cost Ray, beside what one does: requests, bytes, and how busy the dashboard is."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench import big, process, screen
from bench.row import Row, unmeasured
from bench.settled import settle
from bench.terminal import NothingDrawnError
from cockpit.demo import DemoError, demo_cluster

MANY = 10
SETTLE_S, SETTLE_BIG_S = 15.0, 75.0
"""Seconds until all have started; at 1,000 nodes each must have had some answers to learn from how dear they are."""
SMALL = ("--nodes", "2", "--gpus", "8", "--actors", "24", "--pending", "4")
LARGE = ("--nodes", str(big.NODES), "--gpus", str(big.GPUS), "--actors", str(big.ACTORS), "--pending", str(big.PENDING))
LINES = (
    ("one cockpit, 2 nodes: requests a minute", 90.0, ""),
    (f"{MANY} cockpits, 2 nodes: requests a minute / one cockpit's", 10.5, ""),
    (f"{MANY} cockpits, 2 nodes: CPU of a real Ray's dashboard and GCS beyond what they take unasked, of a core", 50.0, "%"),
    (f"one cockpit, {big.NODES:,} nodes: the busiest part of the dashboard, of its time", 20.0, "%"),
    (f"{MANY} cockpits, {big.NODES:,} nodes: the busiest part of the dashboard, of its time", 70.0, "%"),
)


@dataclass(frozen=True)
class Load:
    """What a dashboard was asked over a while."""

    requests: float
    """A minute."""
    megabytes: float
    """A minute."""
    nodes_gap: float
    """Seconds between two questions of one cockpit for all nodes."""
    busy: float
    """Of its time, the part of a real Ray's dashboard that would have worked most."""

    def __str__(self) -> str:
        return f"{self.requests:.0f} requests and {self.megabytes:.1f} MB a minute, all nodes every {self.nodes_gap:.0f} s"


def measure(env: Mapping[str, str], seconds: float) -> list[Row]:
    """First of a dashboard that only pretends, which counts; then the CPU of a real one."""
    try:
        one, many = (_load(env, SMALL, number, SETTLE_S, seconds) for number in (1, MANY))
        large_one, large_many = (_load(env, LARGE, number, SETTLE_BIG_S, 3 * seconds) for number in (1, MANY))
        idle, real_one, real_many = _real(env, seconds)
    except (DemoError, NothingDrawnError) as error:
        return unmeasured(LINES, str(error))
    spent = f"{100 * idle:.1f} % with none, {100 * real_one:.1f} % with one, {100 * real_many:.1f} % with {MANY}"
    values = (
        (one.requests, str(one)),
        (many.requests / one.requests, str(many)),
        (100 * (real_many - idle), spent),
        (100 * large_one.busy, str(large_one)),
        (100 * large_many.busy, str(large_many)),
    )
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(LINES, values, strict=True)]


@contextlib.contextmanager
def _cockpits(address: str, env: Mapping[str, str], number: int) -> Iterator[None]:
    """So many, without a screen: they ask Ray the same, and this machine has room for them."""
    command = [str(screen.BIN / "cockpit"), "--address", address, "--readonly", "status", "--watch"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            for _ in range(number)
        ]
        try:
            yield
        finally:
            for one in started:
                one.terminate()


def _load(env: Mapping[str, str], shape: tuple[str, ...], number: int, settle: float, seconds: float) -> Load:
    with big.dashboard(*shape) as address, _cockpits(address, env, number):
        time.sleep(settle)
        before, start = big.counts(address), time.monotonic()
        time.sleep(seconds)
        after, took = big.counts(address), time.monotonic() - start

    def more(what: str, path: str) -> float:
        return float(after["endpoints"][path][what] - before["endpoints"].get(path, {what: 0})[what])

    requests, sent = (sum(more(what, path) for path in after["endpoints"]) for what in ("requests", "bytes"))
    busy = max(seconds - before["busy"].get(part, 0.0) for part, seconds in after["busy"].items())
    return Load(60 * requests / took, 60 * sent / took / 1e6, number * took / max(1.0, more("requests", "/nodes")), busy / took)


def _real(env: Mapping[str, str], seconds: float) -> list[float]:
    """Shares of a core that the dashboard and the GCS of a real Ray take while none, one and many ask."""
    shares = []
    with demo_cluster() as demo:
        settle(demo)
        for number in (0, 1, MANY):
            with _cockpits(demo.address, {**env, **demo.env}, number):
                time.sleep(SETTLE_S)
                before, start = _cpu_seconds(demo.session), time.monotonic()
                time.sleep(seconds)
                shares.append((_cpu_seconds(demo.session) - before) / (time.monotonic() - start))
    return shares


def _cpu_seconds(session: Path) -> float:
    """Of the dashboard of this session, with what it has started, and of its GCS."""
    asked = [one.info["pid"] for one in psutil.process_iter(["pid", "cmdline"]) if _is_asked(" ".join(one.info["cmdline"] or ()), session)]
    return sum(process.cpu_seconds(pid) for pid in asked)


def _is_asked(command: str, session: Path) -> bool:
    return str(session.name) in command and ("/dashboard/dashboard.py" in command or "/gcs/gcs_server" in command)
