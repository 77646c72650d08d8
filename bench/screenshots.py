"""The pictures in screenshots/: every page of the real screen, and a walk through it, on the demo's real Ray cluster."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from bench.moving_picture import moving_picture
from bench.settled import settle
from cockpit.actions.audit import Audit
from cockpit.actions.executor import ActionExecutor
from cockpit.config.settings import Config
from cockpit.demo import demo_cluster
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.ui.app import Cockpit
from cockpit.ui.pages import PAGES
from cockpit.ui.screens.plan import ActionDialog

FOLDER = Path(__file__).parents[1] / "screenshots"
WIDE, PANE = (120, 40), (80, 24)
MEMORY = 200.0
"""Seconds of history before the first picture: sparks need a past, and the training job needs some steps of 40 seconds."""
PICTURES: tuple[tuple[str, tuple[int, int], str | None, tuple[str, ...]], ...] = (
    *((page.title.lower(), WIDE, None, (str(number),)) for number, page in enumerate(PAGES, 1)),
    ("node", WIDE, None, ("2", "enter")),
    ("job", WIDE, None, ("5", "j", "enter")),
    ("finding", WIDE, None, ("6", "enter")),
    ("memory", WIDE, None, ("2", "m")),
    ("preset", WIDE, None, ("7", "enter")),
    ("processes-tree", WIDE, None, ("4", "t")),
    ("overview-80x24", PANE, None, ("1",)),
    ("overview-light", WIDE, "daylight", ("1",)),
)
WALK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the cluster at a glance", ("1",)),
    ("6: what is wrong", ("6",)),
    ("Enter: with which evidence, and what to do", ("enter",)),
    ("2: nodes and their GPUs", ("2",)),
    ("m: host memory, and when Ray starts killing", ("m",)),
    ("3: what waits, and why", ("3",)),
    ("4: who holds GPU memory", ("4",)),
    ("K: the plan of an action; nothing is done before a yes", ("K",)),
    ("5: jobs", ("escape", "5")),
)
"""What the moving picture shows, and the keys that lead there from the last."""
MAX_MOVING_BYTES = 2_000_000


async def take(address: str) -> None:
    """One cockpit for all pictures, so that all of them have a past."""
    config = Config(address=address)
    log = Audit(Path(tempfile.mkdtemp()) / "acts.jsonl", time.time)
    app = Cockpit(config, lambda publish: ClusterMonitor(config, publish), make_executor=lambda monitor: ActionExecutor(monitor, log))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause(MEMORY)
        for name, size, theme, keys in PICTURES:
            await pilot.resize_terminal(*size)
            app.theme = theme or "midnight"
            await pilot.press("1", *keys)
            await pilot.pause(1.5)
            (FOLDER / f"{name}.svg").write_text(app.export_screenshot(title="cockpit"), encoding="utf-8")
            print(f"screenshots/{name}.svg")
        await record_walk(app, pilot)
        app.monitor.close()


async def record_walk(app: Cockpit, pilot: Pilot[Any]) -> None:
    """Screens one after the other, as one picture."""
    await pilot.resize_terminal(*WIDE)
    app.theme = "midnight"
    screens = []
    for title, keys in WALK:
        await pilot.press(*keys)
        await pilot.pause(2.5)
        if "K" in keys:
            await until_asked(app, pilot)
        screens.append(app.export_screenshot(title=f"cockpit – {title}"))
    picture = moving_picture(screens)
    assert len(picture) < MAX_MOVING_BYTES, len(picture)
    (FOLDER / "demo.svg").write_text(picture, encoding="utf-8")
    print("screenshots/demo.svg")


async def until_asked(app: Cockpit, pilot: Pilot[Any]) -> None:
    """Until the plan is there: hosts make it."""
    for _ in range(120):
        if isinstance(app.screen, ActionDialog):
            return
        await pilot.pause(0.5)
    raise TimeoutError("no plan was shown")


def main() -> int:
    """Starts the demo, takes the pictures, ends what it started."""
    FOLDER.mkdir(exist_ok=True)
    with demo_cluster() as demo:
        settle(demo)
        os.environ.update(demo.env)
        asyncio.run(take(demo.address))
    return 0


if __name__ == "__main__":
    sys.exit(main())
