"""The view of a log while 10,000 lines a second come in: what it costs, and how soon it answers a key."""

from __future__ import annotations

import asyncio
import time

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from bench.row import Row, unmeasured
from bench.screen import p99
from cockpit.ui.log_view import LogView

RATE, AT_ONCE, KEPT = 10_000, 500, 20_000
"""Lines: a second, in one answer, kept."""
SECONDS = 5.0
LINE = "\x1b[36m(WorkerDict pid=%d, ip=10.0.0.1)\x1b[0m step:%d - actor/loss:0.123 - reward/mean:1.25 - timing/gen:12.1s"
LINES = [LINE % (number, number) for number in range(AT_ONCE)]
TITLE = f"a log of {RATE:,} lines a second"
FIGURES = ((f"{TITLE}: CPU for each second of it", 800.0, "ms"), (f"{TITLE}: CPU from key to change, p99", 150.0, "ms"))


class _Shown(App[None]):
    def compose(self) -> ComposeResult:
        self.view = LogView(max_lines=KEPT)
        yield self.view


def measure() -> list[Row]:
    """In this process, without a terminal: the times are of its own CPU."""
    return asyncio.run(_measured())


async def _measured() -> list[Row]:
    app = _Shown()
    async with app.run_test(size=(160, 50)) as pilot:
        app.view.focus()
        began, fed = time.process_time(), asyncio.ensure_future(_feed(app.view))
        latencies = await _press_keys(app.view, pilot, fed)
        cost = (time.process_time() - began) / (await fed / RATE)
    if len(latencies) < 2:
        return unmeasured(FIGURES, "no key was answered while lines came in")
    note = f"{len(latencies)} keys, worst {1000 * max(latencies):.0f} ms"
    values = ((1000 * cost, f"{KEPT:,} lines are kept"), (1000 * p99(latencies), note))
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(FIGURES, values, strict=True)]


async def _feed(view: LogView) -> int:
    """How many lines it was given."""
    begin = due = time.perf_counter()
    fed = 0
    while due - begin < SECONDS:
        view.extend(LINES)
        fed, due = fed + AT_ONCE, due + AT_ONCE / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return fed


async def _press_keys(view: LogView, pilot: Pilot[None], fed: asyncio.Future[int]) -> list[float]:
    """CPU seconds from each key until the log follows, or no longer does."""
    latencies = []
    while view.scroll_offset.y < AT_ONCE and not fed.done():
        await asyncio.sleep(0.02)  # before there is something to scroll, `k` changes nothing
    while not fed.done():
        following, pressed = view.follow, time.process_time()
        pilot.app.simulate_key("k" if following else "G")
        while view.follow is following and not fed.done():
            await asyncio.sleep(0.002)
        latencies.append(time.process_time() - pressed)
        await asyncio.sleep(0.02)
    return latencies[:-1]  # the last may have been cut short
