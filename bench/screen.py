"""The screen in a terminal: how it is started, what it costs, how soon it answers a key."""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import process
from bench.terminal import Looks, Terminal

BIN = Path(sys.executable).parent
SLOWEST = 2.0
"""Seconds after which a key counts as not answered; it is counted with these."""


@dataclass(frozen=True)
class Cost:
    """What a program and all below it took over a while."""

    cpu: float
    """Of one core, 0-1."""
    screen: float
    """MiB at most, of the program itself."""
    probe: float
    """MiB at most, of the largest of its children."""


@contextmanager
def quiet_environment() -> Iterator[dict[str, str]]:
    """No configuration, no state and no address of whoever runs this."""
    with tempfile.TemporaryDirectory(prefix="cockpit-bench-") as folder:
        for name in [name for name in os.environ if name.startswith(("RAY_", "COCKPIT_", "TEXTUAL_"))]:
            del os.environ[name]
        yield dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), folder)


def cockpit(address: str, env: Mapping[str, str]) -> Terminal:
    """The screen on a cluster."""
    return Terminal([str(BIN / "cockpit"), "--address", address], env)


def cost(terminal: Terminal, seconds: float) -> Cost:
    """Over the next so many seconds."""
    before, start = process.cpu_seconds(terminal.pid), time.monotonic()
    time.sleep(seconds)
    spent = process.cpu_seconds(terminal.pid) - before
    children = process.descendants(terminal.pid)[1:]
    memory = max((process.peak(child) for child in children), default=0.0)
    return Cost(spent / (time.monotonic() - start), process.peak(terminal.pid), memory)


def key_latencies(terminal: Terminal, names: str, seconds: float) -> list[float]:
    """Seconds from a key that moves the cursor to the drawing in which a row's name looks different, at any moment of the data's coming."""
    looks, count, latencies = Looks(names), 0, []
    when = random.Random(7)
    end = time.monotonic() + seconds
    down = True
    while time.monotonic() < end:
        for _, data in terminal.drawn(count, when.uniform(0.05, 0.25)):
            count += 1
            looks.changed(data)
        time.sleep(when.uniform(0.02, 0.12))
        sent = terminal.press("j" if down else "k")
        down = not down
        moment, count = _change(terminal, looks, count, sent)
        latencies.append(moment - sent)
    return latencies


def _change(terminal: Terminal, looks: Looks, count: int, sent: float) -> tuple[float, int]:
    while (left := sent + SLOWEST - time.monotonic()) > 0:
        changed = None
        for moment, data in terminal.drawn(count, left):
            count += 1
            if looks.changed(data) and moment >= sent:
                changed = moment
        if changed is not None:
            return changed, count
    return sent + SLOWEST, count


def p99(values: list[float]) -> float:
    """Of a hundred, the second slowest."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]
