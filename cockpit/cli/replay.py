"""Opens the screen on a recording, without a cluster (`cockpit replay`)."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

import click

from cockpit.cli.options import BAD_USAGE, NO_ANSWER, command, print_error, screen_options, why_no_screen, with_config
from cockpit.cli.record import find_recording
from cockpit.cli.screen import run_until_quit
from cockpit.config.settings import Config
from cockpit.recording.recording import RecordingError
from cockpit.times.moments import parse_moment

if TYPE_CHECKING:
    from cockpit.ui.app import Cockpit


@command("replay", {0: "quit", 3: "no such recording, it can't be read, no terminal, or bad usage"})
@click.argument("recording", required=False, type=click.Path())
@click.option("-t", "time", metavar="TIME", help="Begin at 03:10, 11-22 03:10, or -20m before its end. Default: its end.")
@screen_options
@with_config
def replay(config: Config, recording: str | None, time: str | None) -> int:
    """Open the screen on a recording, without a cluster.

    RECORDING is a file, or the folder of a cluster; default: the latest. It needs no cluster and no Ray.
    """
    if (reason := why_no_screen()) is not None:
        return print_error(f"replay draws a screen, and {reason}; `cockpit status --at TIME` prints one moment", BAD_USAGE)
    try:
        found = find_recording(recording, None, config.address)
        begins_at = None if time is None else parse_moment(time, found.end, at_its_end=True)
    except (RecordingError, ValueError) as error:
        return print_error(str(error), NO_ANSWER if isinstance(error, RecordingError) else BAD_USAGE)
    app: Cockpit = import_module("cockpit.cli.app").make_replay(config, found, begins_at)
    try:
        return asyncio.run(run_until_quit(app))
    finally:
        app.monitor.close()
