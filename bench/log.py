"""The view of a log while 10,000 lines a second come in, beside Textual's own: what it costs, and how soon it answers a key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Log

from bench.row import Row, unmeasured
from bench.screen import p99
from cockpit.ui.log_view import LogView

RATE, AT_ONCE, KEPT = 10_000, 500, 20_000
"""Lines: a second, in one answer, kept."""
SECONDS = 5.0
LINE = "\x1b[36m(WorkerDict pid=%d, ip=10.0.0.1)\x1b[0m step:%d - actor/loss:0.123 - reward/mean:1.25 - timing/gen:12.1s"
LINES = [LINE % (number, number) for number in range(AT_ONCE)]
TITLE = f"a log of {RATE:,} lines a second"
FIGURES = ((f"{TITLE}: CPU / Textual's own Log", 2.5, ""), (f"{TITLE}: CPU from key to change, p99 / that Log at rest", 2.0, ""))
KEYS_AT_REST = 60


class _Shown(App[None]):
    def __init__(self, view: LogView | Log) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view


def measure() -> list[Row]:
    """In this process, without a terminal: the times are of its own CPU."""
    return asyncio.run(_measured())


async def _measured() -> list[Row]:
    cost, keys = await _ours()
    peer_cost, peer_keys = await _theirs()
    if len(keys) < 2:
        return unmeasured(FIGURES, "no key was answered while lines came in")
    ours, theirs = p99(keys), p99(peer_keys)
    note = f"{1000 * ours:.0f} ms of {len(keys)} keys, worst {1000 * max(keys):.0f} ms / {1000 * theirs:.0f} ms"
    made_of = f"{1000 * cost:.0f} ms for each second of it / {1000 * peer_cost:.0f} ms; {KEPT:,} lines are kept"
    values = ((cost / peer_cost, made_of), (ours / theirs, note))
    return [Row(what, limit, value, unit, note) for (what, limit, unit), (value, note) in zip(FIGURES, values, strict=True)]


async def _ours() -> tuple[float, list[float]]:
    """CPU seconds for each second of lines, and for each key while they come."""
    view = LogView()
    view.lines.max_lines = KEPT
    app = _Shown(view)
    async with app.run_test(size=(160, 50)) as pilot:
        view.focus()
        began, fed = time.process_time(), asyncio.ensure_future(_feed(view.extend))
        latencies = await _press_keys(view, pilot, fed)
        return (time.process_time() - began) / (await fed / RATE), latencies


async def _theirs() -> tuple[float, list[float]]:
    """The same of Textual's; the keys when no line comes any more."""
    view = Log(max_lines=KEPT)
    app, latencies = _Shown(view), []
    async with app.run_test(size=(160, 50)) as pilot:
        view.focus()
        began = time.process_time()
        seconds_of_lines = await _feed(view.write_lines) / RATE
        cost = (time.process_time() - began) / seconds_of_lines
        for number in range(KEYS_AT_REST):
            pressed, offset = time.process_time(), view.scroll_offset
            pilot.app.simulate_key("pagedown" if number % 2 else "pageup")
            while view.scroll_offset == offset:
                await asyncio.sleep(0.002)
            latencies.append(time.process_time() - pressed)
        return cost, latencies


async def _feed(extend: Callable[[list[str]], object]) -> int:
    """How many lines it was given."""
    begin = due = time.perf_counter()
    fed = 0
    while due - begin < SECONDS:
        extend(LINES)
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
