"""The screen on a cluster of 1,000 nodes, from a dashboard that only pretends."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import bare, screen
from bench.row import Row, unmeasured
from bench.terminal import NothingDrawnError, Terminal

NODES, GPUS, ACTORS, PENDING = 1000, 8, 10_000, 2_000
PACE = {"/nodes": 5.0, "/api/cluster_status": 5.0, "/events": 2.0, "/api/gcs_healthz": 1.0}
"""Seconds in which Ray has something new to say; lists of the state API and the jobs have no beat of their own."""
STARTS, REST_S = 5, 2.0
"""Seconds in which the dashboard gets through what the last one had asked for."""
OTHERWISE = 5.0
TITLE = f"{NODES:,} nodes x {GPUS} GPUs, {ACTORS:,} actors of which {PENDING:,} wait"
LINES = (
    (f"{TITLE}: CPU, of a core", 18.0, "%"),
    (f"{TITLE}: key to paint, p99", 50.0, "ms"),
    (f"{TITLE}: key to paint, worst", 120.0, "ms"),
    (f"{TITLE}: memory of screen and probe, peak", 240.0, "MB"),
    (f"{TITLE}: first nodes / Ray's own answer with them", 2.2, ""),
    (f"{TITLE}: from q to the end / the bare table", 2.0, ""),
    ("most requests in flight at one endpoint", 1.0, ""),
    ("endpoints asked faster than Ray refreshes them", 0.0, ""),
    ("requests that are dear to Ray (all actors, tasks, summaries)", 0.0, ""),
)


@contextmanager
def dashboard(*options: str) -> Iterator[str]:
    """The address of one that runs for as long as it is needed."""
    command = [sys.executable, "-m", "tests.fakes.dashboard", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("address=")
        process.terminate()


def counts(address: str) -> dict[str, Any]:
    """How that dashboard was asked."""
    with urllib.request.urlopen(f"{address}/_counts") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def measure(env: Mapping[str, str], seconds: float) -> list[Row]:
    """All of it in one go of the screen."""
    options = ("--nodes", str(NODES), "--gpus", str(GPUS), "--actors", str(ACTORS), "--pending", str(PENDING))
    try:
        peer = bare.measure(env, seconds)
        with dashboard(*options) as address:
            first = _first_nodes(env, address)
        with dashboard(*options) as address:
            values = _values(screen.cockpit(address, env), peer, address, first, seconds)
    except NothingDrawnError as error:
        return unmeasured(LINES, str(error))
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(LINES, values, strict=True)]


def _first_nodes(env: Mapping[str, str], address: str) -> tuple[float, str]:
    """Medians, taken by turns."""
    shown, answers = [], []
    for _ in range(STARTS):
        answers.append(_answer_time(address))
        terminal = screen.cockpit(address, env)
        try:
            shown.append(terminal.wait_for(r"gpu-\d{4}", 60) - terminal.started)
        finally:
            terminal.close()
        time.sleep(REST_S)
    first, answer = statistics.median(shown), statistics.median(answers)
    return first / answer, f"{first:.1f} s / {answer:.1f} s"


def _values(terminal: Terminal, peer: bare.Bare, address: str, first: tuple[float, str], seconds: float) -> list[tuple[float, str]]:
    try:
        terminal.wait_for(r"gpu-\d{4}", 60)
        time.sleep(10)  # every source has answered once, and the second answers have begun
        cost = screen.cost(terminal, seconds)
        terminal.press("2jjj")  # the page of all nodes, with the cursor between two of them
        keys = screen.key_latencies(terminal, r"gpu-\d{4}", seconds)
        end, asked = terminal.end_by("q"), counts(address)
    finally:
        terminal.close()
    return [
        (100 * cost.cpu, ""),
        (1000 * screen.p99(keys), f"{_latencies(keys)}; a bare Textual table of as many rows: {_latencies(peer.keys)}"),
        (1000 * max(keys), f"the bare table's worst {1000 * max(peer.keys):.0f} ms"),
        (cost.screen + cost.probe, f"screen {cost.screen:.0f} MB, probe {cost.probe:.0f} MB"),
        first,
        (end / peer.end, f"{1000 * end:.0f} ms / {1000 * peer.end:.0f} ms"),
        *_manners(asked),
    ]


def _latencies(keys: list[float]) -> str:
    middle = sorted(keys)[len(keys) // 2]
    return f"{1000 * screen.p99(keys):.0f} ms of {len(keys)} keys, median {1000 * middle:.0f} ms"


def _answer_time(address: str) -> float:
    """Seconds that Ray takes for the answer that names all nodes."""
    started = time.monotonic()
    with urllib.request.urlopen(f"{address}/nodes?view=summary") as answer:
        answer.read()
    return time.monotonic() - started


def _manners(asked: dict[str, Any]) -> Iterator[tuple[float, str]]:
    endpoints: dict[str, dict[str, Any]] = asked["endpoints"]
    total = sum(tally["requests"] for tally in endpoints.values())
    yield float(max(tally["most_at_once"] for tally in endpoints.values())), f"{total} requests to {len(endpoints)} endpoints"
    hasty = [f"{path} {tally['shortest_gap']} s" for path, tally in endpoints.items() if _hasty(path, tally)]
    yield float(len(hasty)), "; ".join(hasty) or f"/nodes every {endpoints['/nodes']['mean_gap']} s"
    yield float(sum(asked["dear"].values())), "; ".join(asked["dear"])


def _hasty(path: str, tally: dict[str, Any]) -> bool:
    least = PACE.get(re.split(r"[ /]ID| ", path)[0], OTHERWISE)
    return tally["shortest_gap"] is not None and tally["shortest_gap"] < 0.95 * least
