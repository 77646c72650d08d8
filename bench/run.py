"""Measures cockpit beside its peers, in one run on this machine, and prints one table: `make bench`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from bench import big, judged, log, real, sample, screen
from bench.row import table

PARTS = ("real", "probe", "big", "judged", "log")


def machine() -> str:
    """What it was measured on."""
    models = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("ray", "textual", "nvitop"))
    cpu = f"{os.cpu_count()} x {models[0] if models else platform.machine()}, {memory:.0f} GiB"
    return f"{cpu}, Linux {platform.release()}, Python {platform.python_version()}, {packages}; load {os.getloadavg()[0]:.1f}"


def main() -> int:
    """1 when anything is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each cost is measured")
    parser.add_argument("--only", choices=PARTS, action="append", help="some of it")
    options = parser.parse_args()
    chosen = options.only or PARTS
    print(time.strftime("%Y-%m-%d %H:%M"), machine(), sep="\n", flush=True)
    rows = []
    with screen.quiet_environment() as env:
        if "real" in chosen:
            rows += real.measure(env, options.seconds)
        if "probe" in chosen:
            rows += sample.measure()
        if "big" in chosen:
            rows += big.measure(env, options.seconds)
        if "judged" in chosen:
            rows += judged.measure()
        if "log" in chosen:
            rows += log.measure()
    print(table(rows))
    return int(any(row.verdict == "OVER" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
