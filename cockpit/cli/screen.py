"""The screen, run until it is quit: who listens to what it shows, and what keeps its keys quick."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
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
    monitor.poller.prepare_with(app.services.look_up)
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
    await app.run_async()
    return app.return_code or 0


def _attach_writers(app: Cockpit, config: Config) -> None:
    """From the first frame on: what is seen is recorded, and left as a line."""
    app.services.recorder = attach_recorder(config, app.monitor)
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
    """A whole collection took 40 ms at 1,000 nodes, and a thread that builds values kept the loop waiting 5 ms at a time.

    A tenth of a millisecond: the p99 of keys there is 10 to 13 ms, after 11 to 14 with three tenths or one millisecond; less isn't better.
    A collection of the second generation took up to 12 ms there after eight of 2,000 objects, and one came each second; after five of 700,
    Python's own number, nine of ten take less than a millisecond: p99 10 to 12 -> 9.6 to 10 ms in two series. The detectors, which took
    some 60 ms, take 1 to 8 more.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(700, 5, 3_600)
    sys.setswitchinterval(0.0001)


def _leave(monitor: ClusterMonitor, number: int, _: object) -> None:
    """There is nothing on the screen yet, but children run."""
    monitor.close()
    os._exit(128 + number)


def _hang_up(app: Cockpit, *_: object) -> None:
    """The terminal is gone: nothing is left to draw on."""
    app.monitor.close()
    os._exit(129)
