"""Runs the screen until it is quit or its terminal is gone."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import sys
import threading
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cockpit.cli.options import DONE, NO_ANSWER
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor

if TYPE_CHECKING:
    from cockpit.ui.app import Cockpit

HANGUP_CHECK_INTERVAL_S: Final = 1.0
"""Seconds after which the terminal is checked again: not every kind of terminal wakes a process that waits only for its end."""

FULL_COLLECTION_AFTER: Final = 100
"""Collections of the middle generation before a full one, which takes 50 ms at 1,000 nodes; Python's default is 10."""


def show(config: Config, *, greeting: str | None = None, seconds: float | None = None) -> int:
    """Run the screen until it is quit; its exit code. `greeting`: a sentence that the screen begins with.

    `seconds`: the screen quits by itself after that time; the exit code is then whether Ray answers.
    """
    return asyncio.run(_show(config, greeting, seconds))


async def _show(config: Config, greeting: str | None, seconds: float | None) -> int:
    """Ray and this host are asked first: their answers come while a thread imports Textual."""
    monitor = ClusterMonitor(config, lambda _: None)
    monitor.start()
    handlers = {number: signal.signal(number, partial(_leave, monitor)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        made_by = await asyncio.to_thread(import_module, "cockpit.cli.app")
        for number, handler in handlers.items():
            signal.signal(number, handler)
        app = made_by.make_app(config, monitor, greeting)
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, _quit, app)
        return await run_until_quit(app)
    finally:
        monitor.close()


async def run_until_quit(app: Cockpit) -> int:
    """The exit code."""
    gc.enable()
    gc.freeze()  # full collections are small and rare: docs/decisions/0008-keys-on-a-large-cluster.md
    gc.set_threshold(*gc.get_threshold()[:2], FULL_COLLECTION_AFTER)
    signal.signal(signal.SIGHUP, partial(_hang_up, app))
    threading.Thread(target=_wait_for_hangup, name="terminal", daemon=True).start()
    await app.run_async()
    return app.return_code or 0


def _quit(app: Cockpit) -> None:
    """The time of a screen that quits by itself is over."""
    app.exit(return_code=DONE if app.monitor.poller.snapshot.cluster.reachable else NO_ANSWER)


def _leave(monitor: ClusterMonitor, number: int, _: object) -> None:
    """There is nothing on the screen yet, but children run."""
    monitor.close()
    os._exit(128 + number)


def _wait_for_hangup() -> None:
    """Send SIGHUP to the main thread when the terminal is gone: below `setsid` or in a lost session the kernel sends none.

    Without it Textual's threads die or spin, and the main thread waits to write for ever.
    """
    poll = select.poll()
    poll.register(sys.stdin, 0)  # nothing but POLLHUP and POLLERR, which need not be asked for
    while not poll.poll(HANGUP_CHECK_INTERVAL_S * 1000):
        pass
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGHUP)


def _hang_up(app: Cockpit, *_: object) -> None:
    """The terminal is gone: nothing is left to draw on."""
    app.monitor.close()
    os._exit(129)
