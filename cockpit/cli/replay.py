"""`cockpit replay`: the screen on a recording, without a cluster; and where the screen on a cluster finds its past."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from cockpit.cli.options import BAD_USAGE, NO_ANSWER, command, refuse, screen_options, with_config
from cockpit.config.settings import Config

if TYPE_CHECKING:
    from cockpit.recording.recording import Recording
    from cockpit.ui.app import Cockpit


def attach_past(app: Cockpit) -> None:
    """Where this screen's keys of time find what was recorded of its cluster, by this cockpit or by another one."""
    from cockpit.recording.folder import recordings_path
    from cockpit.ui.recorded import RecordedPast

    app.recorded = RecordedPast(partial(_open_past, app), recordings_path())


def _open_past(app: Cockpit) -> Recording:
    """All sessions at its address: Ray may have been started anew since. Raises `SourceError`."""
    from cockpit.cli.record import folders_at
    from cockpit.recording.recording import Recording, RecordingError
    from cockpit.sources.source import SourceError

    own = app.recorder.state.path if app.recorder else None
    folders = list(folders_at(app.snapshot.cluster.address, socket.gethostname()))
    if own is not None:
        folders = [*(folder for folder in folders if folder != own.parent), own.parent]
    try:
        if folders:
            return Recording.open(*folders)
    except RecordingError as error:
        raise SourceError(str(error)) from None
    reason = app.recorder.state.reason if app.recorder else None
    raise SourceError(f"nothing is recorded of this cluster yet{f': {reason}' if reason else ''}")


@command("replay", {0: "quit", 3: "no such recording, it can't be read, no terminal, or bad usage"})
@click.argument("recording", required=False, type=click.Path())
@click.option("-t", "time", metavar="TIME", help="Begin at 03:10, 11-22 03:10, or -20m before its end. Default: its end.")
@screen_options
@with_config
def replay(config: Config, recording: str | None, time: str | None) -> None:
    """Open the screen on a recording, without a cluster.

    RECORDING is a file, or the folder of a cluster; default: the latest. It needs no cluster and no Ray.
    """
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        sys.exit(refuse("replay needs a terminal; `cockpit status --at TIME` prints one moment", BAD_USAGE))
    from cockpit.cli.screen import run_screen

    sys.exit(_replay(config, recording, time, run_screen))


def _replay(config: Config, path: str | None, time: str | None, show: Callable[[Cockpit], int]) -> int:
    from cockpit.cli.record import find_recording
    from cockpit.moment import parse_moment
    from cockpit.recording.recording import RecordingError

    try:
        recording = find_recording(path, None, config.address)
        begins_at = None if time is None else parse_moment(time, recording.end, at_its_end=True)
    except (RecordingError, ValueError) as error:
        return refuse(str(error), NO_ANSWER if isinstance(error, RecordingError) else BAD_USAGE)
    return show(_screen_on(config, recording, begins_at))


def _screen_on(config: Config, recording: Recording, begins_at: float | None) -> Cockpit:
    """Its monitor looks at nothing: it is never run."""
    from cockpit.monitor.monitor import ClusterMonitor
    from cockpit.ui.app import Cockpit
    from cockpit.ui.recorded import RecordedPast

    app = Cockpit(config, lambda publish: ClusterMonitor(config, publish))
    app.follows, app.begins_at = False, begins_at
    app.recorded = RecordedPast(lambda: recording, recording.path)
    return app
