"""The screen, run until it is quit: who listens to what it shows, and what keeps its keys quick."""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cockpit.cli.line import attach_line_writer
from cockpit.cli.notify import attach_notifier
from cockpit.cli.record import attach_past, attach_recorder
from cockpit.config.settings import Config
from cockpit.sources.probes.spawn import spawn_local

if TYPE_CHECKING:
    from subprocess import Popen

    from cockpit.acts.executor import ActionExecutor
    from cockpit.monitor.monitor import ClusterMonitor
    from cockpit.ui.app import Cockpit

LOOP_TURNS: Final = 5
"""Turns of the loop between two steps of an import: an answer has reached whoever waits for it, and the next question is out."""
HANGUP_CHECK_INTERVAL_S: Final = 1.0
"""Seconds after which the terminal is looked at again: not every kind of terminal wakes whoever waits for nothing but its end."""
SLOW_STEP_S: Final = 0.2
"""Seconds after which a step is slow, as from a cold disk, and as many for which answers are read then: else they would come too late."""


def why_no_screen() -> str | None:
    """Why no screen can be drawn here; `None`: it can."""
    for stream, name in ((sys.stdin, "stdin"), (sys.stdout, "stdout")):
        if not (stream and stream.isatty()):
            return f"{name} is not a terminal"
    return "TERM=dumb is a terminal that can't draw" if os.environ.get("TERM") == "dumb" else None


def show(config: Config, *, greeting: str | None = None) -> int:
    """Run the screen until it is quit; its exit code. The probe starts first: it works while everything else is still being imported.

    `greeting`: a sentence that the screen begins with.
    """
    early = spawn_local(config.interval)
    gc.disable()  # modules that are being imported are no garbage: to look for some took a tenth of the start
    import asyncio

    return asyncio.run(_show(config, early, greeting))


async def _show(config: Config, early: Popen[bytes], greeting: str | None) -> int:
    """Ray is asked before Textual is imported: its first answers come meanwhile."""
    from cockpit.monitor.monitor import ClusterMonitor

    monitor = ClusterMonitor(config, lambda _: None, early=early)
    monitor.start()
    for number in (signal.SIGTERM, signal.SIGHUP):  # until the screen takes them over
        signal.signal(number, partial(_leave, monitor))
    try:
        return await _run_until_quit(_make_screen(config, monitor, await _import_screen(monitor), greeting))
    finally:
        monitor.close()


def _make_screen(config: Config, monitor: ClusterMonitor, screen: type[Cockpit], greeting: str | None) -> Cockpit:
    tune_interpreter()
    app = screen(
        config,
        monitor.publish_to,
        make_executor=None if config.readonly else _make_executor,
        runbook=partial(_begin_recovery, config),
    )
    monitor.poller.prepare_with(app.look_up)
    app.greeting = greeting
    app.after_first_frame = partial(_attach_writers, app, config)
    attach_notifier(config, monitor)
    attach_past(app)
    return app


async def _import_screen(monitor: ClusterMonitor) -> type[Cockpit]:
    """Step by step, and what has come is read in between.

    A thread that imports and a loop that reads answers keep each other waiting for Python's lock, and where there are two for a core:
    the first frame came 20 to 35 ms later, of 320 to 335.
    """
    import asyncio

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, partial(_leave, monitor))  # a step can't be cancelled: ctrl+c ends all of it
    began = time.monotonic()
    for step in importlib.import_module("cockpit.ui").IMPORT_STEPS:
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)
        if time.monotonic() - began > SLOW_STEP_S:
            await asyncio.sleep(SLOW_STEP_S)
        began = time.monotonic()
        importlib.import_module(step)
    signal.signal(signal.SIGINT, before)
    from cockpit.ui.app import Cockpit

    return Cockpit


def run_screen(app: Cockpit) -> int:
    """Run one that is there already; its exit code."""
    import asyncio

    try:
        return asyncio.run(_run_until_quit(app))
    finally:
        app.monitor.close()


async def _run_until_quit(app: Cockpit) -> int:
    signal.signal(signal.SIGHUP, partial(_hang_up, app))
    threading.Thread(target=_wait_for_hangup, name="terminal", daemon=True).start()
    await app.run_async()
    return app.return_code or 0


def _attach_writers(app: Cockpit, config: Config) -> None:
    """From the first frame on: what is seen is recorded, and left as a line."""
    app.recorder = attach_recorder(config, app.monitor)
    attach_line_writer(config, app.monitor)


def _make_executor(monitor: ClusterMonitor) -> ActionExecutor:
    """The way to change something: the one place at which `--readonly` leaves it out."""
    from cockpit.acts.executor import ActionExecutor

    return ActionExecutor(monitor)


def _begin_recovery(config: Config, preset: Any, **how: Any) -> Any:
    """A runbook, made from what is imported only then."""
    from cockpit.acts.recover.runbook import begin_recovery

    return begin_recovery(config, preset, os.environ, **how)


def tune_interpreter() -> None:
    """A thread that builds values keeps the loop waiting for a tenth of a millisecond at a time instead of 5 ms."""
    gc.enable()
    sys.setswitchinterval(0.0001)


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
