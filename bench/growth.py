"""How the cost of the screen grows with the cluster: `python -m bench.growth` prints a table for 2 to 3,000 nodes and draws the curves."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from bench import big, screen
from bench.terminal import NothingDrawnError

SIZES = (2, 10, 100, 300, 1000, 3000)
ACTORS_PER_NODE, WAITING_SHARE = 10, 0.2
MAX_ACTORS = 10_000
"""That Ray's state API lists, however many there are."""
DRAWING = Path(__file__).parents[1] / "screenshots" / "growth.svg"
TITLES = ("nodes", "CPU, % of a core", "memory, MB", "key p99, ms", "requests a minute", "MB a minute")
COLOURS = ("#3987e5", "#0ca30c", "#c98500", "#9085e9", "#d03b3b")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 380, 60, 30, 40


@dataclass(frozen=True)
class Cost:
    """Of the screen and its probe on a cluster of so many nodes with 8 GPUs each."""

    nodes: int
    cpu: float
    memory: float
    key_p99: float
    requests: float
    megabytes: float


def measure(nodes: int, env: Mapping[str, str], seconds: float) -> Cost:
    """Raises `NothingDrawnError`."""
    actors = min(MAX_ACTORS, nodes * ACTORS_PER_NODE)
    options = {"nodes": nodes, "gpus": 8, "actors": actors, "pending": int(actors * WAITING_SHARE)}
    with big.dashboard(*(word for name, value in options.items() for word in (f"--{name}", str(value)))) as address:
        terminal = screen.cockpit(address, env)
        try:
            terminal.press("2")
            terminal.wait_for(r"gpu-\d{4}", 90)
            time.sleep(10)  # every source has answered once
            before, begin = big.counts(address), time.monotonic()
            cost = screen.cost(terminal, seconds)
            asked, minutes = big.counts(address), (time.monotonic() - begin) / 60
            keys = screen.key_latencies(terminal, r"gpu-\d{4}", seconds)
        finally:
            terminal.close()
    requests, sent = (_total(asked, what) - _total(before, what) for what in ("requests", "bytes"))
    return Cost(nodes, 100 * cost.cpu, cost.screen + cost.probe, 1000 * screen.p99(keys), requests / minutes, sent / 1e6 / minutes)


def _total(counts: Mapping[str, Mapping[str, Mapping[str, float]]], what: str) -> float:
    return sum(tally[what] for tally in counts["endpoints"].values())


def table(costs: Sequence[Cost]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(TITLES) + " |", "|" + " ---: |" * len(TITLES)]
    lines += ["| " + " | ".join(f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in astuple(cost)) + " |" for cost in costs]
    return "\n".join(lines)


def draw(costs: Sequence[Cost]) -> str:
    """Each cost as a multiple of what it is on the smallest cluster, both axes logarithmic: what grows with the nodes is the grey line."""
    return "\n".join(_svg(costs)) + "\n"


def _svg(costs: Sequence[Cost]) -> Iterator[str]:
    first, last = costs[0], costs[-1]
    top = last.nodes / first.nodes
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    yield f'<text x="{LEFT}" y="18" font-size="14">Cost by nodes, as a multiple of {first.nodes} nodes</text>'
    for cost in costs:
        x = _x(cost.nodes, first.nodes, last.nodes)
        yield f'<line x1="{x:.0f}" y1="{TOP}" x2="{x:.0f}" y2="{HEIGHT - BOTTOM}" stroke="#eeeeee"/>'
        yield f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{cost.nodes:,}</text>'
    for power in range(int(math.log10(top)) + 1):
        y = _y(10**power, top)
        yield f'<line x1="{LEFT}" y1="{y:.0f}" x2="{WIDTH - 180}" y2="{y:.0f}" stroke="#eeeeee"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{10**power:,}×</text>'
    curves = [("nodes", "#bbbbbb", [cost.nodes / first.nodes for cost in costs])]
    for column, (title, colour) in enumerate(zip(TITLES[1:], COLOURS, strict=True), start=1):
        curves.append((title, colour, [astuple(cost)[column] / astuple(first)[column] for cost in costs]))
    for number, (title, colour, values) in enumerate(curves):
        places = [f"{_x(cost.nodes, first.nodes, last.nodes):.0f},{_y(value, top):.0f}" for cost, value in zip(costs, values, strict=True)]
        yield f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield f'<rect x="{WIDTH - 165}" y="{TOP + 20 * number}" width="14" height="4" fill="{colour}"/>'
        yield f'<text x="{WIDTH - 145}" y="{TOP + 6 + 20 * number}">{title}</text>'
    yield "</svg>"


def _x(nodes: float, least: float, most: float) -> float:
    return LEFT + (WIDTH - 180 - LEFT) * math.log(nodes / least) / math.log(most / least)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * max(-0.05, math.log(max(value, 1e-3)) / math.log(top))


def main() -> int:
    """1 where a size could not be measured, or where something grew faster than the number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each cost is measured")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of nodes")
    options = parser.parse_args()
    try:
        with screen.quiet_environment() as env:
            costs = [measure(size, env, options.seconds) for size in options.sizes]
    except NothingDrawnError as error:
        print(error, file=sys.stderr)
        return 1
    print(table(costs))
    DRAWING.write_text(draw(costs))
    first = astuple(costs[0])
    return int(any(value / first[column] > cost.nodes / first[0] for cost in costs for column, value in enumerate(astuple(cost)) if column))


if __name__ == "__main__":
    sys.exit(main())
