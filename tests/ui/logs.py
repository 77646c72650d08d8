"""A log view on a screen of its own, and what a test reads there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from cockpit.ui.log_view import LogView


def texts(view: LogView) -> list[str]:
    """What each line of the screen shows, blank ends taken off."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


class Shown(App[None]):
    def __init__(self, max_lines: int | None = None, **options: Any) -> None:
        super().__init__()
        self.view = LogView(**options)
        self.view.lines.max_lines = max_lines or self.view.lines.max_lines

    def compose(self) -> ComposeResult:
        yield self.view


@asynccontextmanager
async def shown(lines: Sequence[str] = (), size: tuple[int, int] = (40, 10), **options: Any) -> AsyncIterator[tuple[LogView, Pilot[None]]]:
    """A view that shows the last of these lines."""
    app = Shown(**options)
    async with app.run_test(size=size) as pilot:
        app.view.focus()
        app.view.extend(lines)
        await until(lambda: len(app.view._rows) == len(app.view.lines))
        await pilot.pause()
        yield app.view, pilot


async def until(fact: Callable[[], object], seconds: float = 60) -> None:
    end = perf_counter() + seconds
    while not fact():
        assert perf_counter() < end, "it did not come true in time"
        await asyncio.sleep(0.002)


def numbered(count: int, begin: int = 0) -> list[str]:
    return [f"line {number}" for number in range(begin, begin + count)]
