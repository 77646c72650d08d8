"""Measures cockpit beside its peers, in one run on this machine, and prints one table: `make bench`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from bench import big, judged, process, real, sample, screen, several
from bench.row import Row, table

PARTS = ("real", "probe", "big", "judged", "several")
QUIET_SHARE = 0.1
"""Of a core, used by what was not started from here."""


def machine() -> str:
    """What it was measured on."""
    models = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("ray", "textual", "nvitop"))
    cpu = f"{os.cpu_count()} x {models[0] if models else platform.machine()}, {memory:.0f} GiB"
    return f"{cpu}, Linux {platform.release()}, Python {platform.python_version()}, {packages}; load {os.getloadavg()[0]:.1f}"


def _measure(part: str, measure: Callable[[], list[Row]]) -> list[Row]:
    """A part, and a warning where others used this machine meanwhile: then a ratio may be of two different moments."""
    others, start = process.others_cpu_seconds(), time.monotonic()
    rows = measure()
    share = (process.others_cpu_seconds() - others) / (time.monotonic() - start)
    if share > QUIET_SHARE and part != "real":  # there the demo's Ray, which nobody here is the parent of, takes half a core
        print(f"NOT QUIET while `{part}` was measured: others used {100 * share:.0f} % of a core", flush=True)
    return rows


def main() -> int:
    """1 when anything is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each cost is measured")
    parser.add_argument("--only", choices=PARTS, action="append", help="some of it")
    options = parser.parse_args()
    chosen = options.only or PARTS
    print(time.strftime("%Y-%m-%d %H:%M"), machine(), sep="\n", flush=True)
    rows: list[Row] = []
    with screen.quiet_environment() as env:
        measures = {
            "real": lambda: real.measure(env, options.seconds),
            "probe": sample.measure,
            "big": lambda: big.measure(env, options.seconds),
            "judged": judged.measure,
            "several": lambda: several.measure(env, options.seconds),
        }
        for part in chosen:
            found = _measure(part, measures[part])
            print(*(f"{row.verdict}: {row.what}: {row.note}" for row in found), sep="\n", flush=True)
            rows += found
    print(table(rows))
    return int(any(row.verdict == "OVER" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
