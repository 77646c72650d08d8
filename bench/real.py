"""The screen beside its peers, on the demo's real Ray: two nodes with eight simulated GPUs each."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from bench import process, screen
from bench.row import Row, unmeasured
from bench.settled import settle
from bench.terminal import NothingDrawnError, Terminal
from cockpit.demo import DemoCluster, DemoError, demo_cluster

STARTS = 15
"""Of five the median was 0.31 to 0.42 s on one computer within an hour; the first of them come while the demo's Ray still settles."""
LINES = (
    ("start to first frame with live data / wall time of `ray status`", 0.75, ""),
    ("CPU of screen and probe, 2 nodes x 8 GPUs / `watch -n2 ray status`", 0.10, ""),
    ("CPU of screen and probe, 2 nodes x 8 GPUs / nvitop, 8 GPUs at 1 s", 1.3, ""),
    ("memory of screen and probe, 2 nodes x 8 GPUs, peak", 95.0, "MB"),
)
LIVE = r"GPU memory +\d+%"
ALL_NODES = r"w1 +[^\s–]"


class PeerError(Exception):
    """A peer does not work here, so nothing can be compared with it."""


@dataclass(frozen=True)
class Peers:
    """The demo cluster, and how others look at it."""

    demo: DemoCluster
    env: Mapping[str, str]

    def cockpit(self) -> Terminal:
        return screen.cockpit(self.demo.address, self.env)

    def nvitop(self) -> Terminal:
        return Terminal([str(screen.BIN / "nvitop"), "--monitor", "--interval", "1"], self.env)

    def ray_status(self) -> list[str]:
        return [str(screen.BIN / "ray"), "status", "--address", self._gcs()]

    def watch(self) -> Terminal:
        return Terminal(["watch", "-n2", *self.ray_status()], self.env)

    def _gcs(self) -> str:
        with urllib.request.urlopen(f"{self.demo.address}/nodes?view=summary") as answer:
            command = " ".join(json.load(answer)["data"]["summary"][0]["cmdline"])
        found = re.search(r"--gcs-address=(\S+)", command)
        if found is None:
            raise PeerError("the raylet's command line does not say where the GCS is")
        return found[1]


def measure(env: Mapping[str, str], seconds: float) -> list[Row]:
    """All of it on one demo cluster."""
    if shutil.which("watch") is None:
        return unmeasured(LINES, "there is no `watch` here (procps)")
    try:
        with demo_cluster() as demo:
            settle(demo)
            # As the demo's nodes have it: everything is on the loopback.
            peers = Peers(demo, {**env, **demo.env, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "disabled"})
            values = [_start(peers), *_running(peers, seconds)]
    except (DemoError, NothingDrawnError, PeerError) as error:
        return unmeasured(LINES, str(error))
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(LINES, values, strict=True)]


def _start(peers: Peers) -> tuple[float, str]:
    """Medians, taken by turns."""
    status, live, whole = [], [], []
    command = peers.ray_status()
    for _ in range(STARTS):
        status.append(_wall(command, peers.env))
        terminal = peers.cockpit()
        try:
            live.append(terminal.wait_for(LIVE) - terminal.started)
            whole.append(terminal.wait_for(ALL_NODES) - terminal.started)
        finally:
            terminal.close()
    ours, theirs = statistics.median(live), statistics.median(status)
    return ours / theirs, f"{ours:.2f} s / {theirs:.2f} s; every node of Ray's after {statistics.median(whole):.2f} s"


def _wall(command: list[str], env: Mapping[str, str]) -> float:
    start = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", **env})
    if result.returncode:
        raise PeerError(f"`ray status` failed: {result.stderr.strip()[-200:]}")
    return time.monotonic() - start


def _running(peers: Peers, seconds: float) -> list[tuple[float, str]]:
    """CPU and memory over the same while, side by side."""
    terminals = [peers.cockpit(), peers.watch(), peers.nvitop()]
    try:
        for terminal, sign in zip(terminals, (ALL_NODES, "GPU", "MiB"), strict=True):
            terminal.wait_for(sign)
        time.sleep(5)
        before, start = [process.cpu_seconds(terminal.pid) for terminal in terminals], time.monotonic()
        alone = process.cpu_seconds(terminals[0].pid, alone=True)
        ours = screen.cost(terminals[0], seconds)
        alone = process.cpu_seconds(terminals[0].pid, alone=True) - alone
        spent = [process.cpu_seconds(terminal.pid) - first for terminal, first in zip(terminals, before, strict=True)]
        took = time.monotonic() - start
    finally:
        for terminal in terminals:
            terminal.close()
    mine, watch, nvitop = (100 * cpu / took for cpu in spent)
    return [
        (mine / watch, f"{mine:.1f} % of a core / {watch:.1f} %, over {took:.0f} s"),
        (mine / nvitop, f"{mine:.1f} % / {nvitop:.1f} %; of ours the screen {100 * alone / took:.1f} %"),
        (ours.screen + ours.probe, f"screen {ours.screen:.0f} MB, probe {ours.probe:.0f} MB"),
    ]
