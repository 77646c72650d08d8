"""Makes the App, for the screen and for a replay. It imports Textual, a third of a second, so no command imports it at its top."""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import Any

from cockpit.acts.executor import ActionExecutor
from cockpit.cli.notify import attach_notifier
from cockpit.cli.record import attach_recorder, folders_at
from cockpit.cli.service import attach_line_writer
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.recording.folder import recordings_path
from cockpit.recording.recording import Recording, RecordingError
from cockpit.sources.source import SourceError
from cockpit.ui.app import Cockpit
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.services import Services


def make_app(config: Config, monitor: ClusterMonitor, greeting: str | None) -> Cockpit:
    """The App that shows what this monitor sees. `greeting`: a sentence that the screen begins with."""
    app = Cockpit(
        config,
        monitor.publish_to,
        make_executor=None if config.readonly else ActionExecutor,  # the one place at which `--readonly` leaves it out
        runbook=partial(_begin_recovery, config),
    )
    app.greeting = greeting
    app.after_first_frame = partial(_attach_writers, app, config)
    app.services.recorded = RecordedPast(partial(_open_past, app.services), recordings_path())
    monitor.poller.prepare_with(app.services.look_up)
    attach_notifier(config, monitor)
    return app


def make_replay(config: Config, recording: Recording, begins_at: float | None) -> Cockpit:
    """The App that shows a recording. Its monitor is never run."""
    replayed = RecordedPast(lambda: recording, recording.path)
    return Cockpit(config, partial(ClusterMonitor, config), replayed=replayed, begins_at=begins_at)


def _attach_writers(app: Cockpit, config: Config) -> None:
    """From the first frame on: what is seen is recorded, and left as a line."""
    app.services.recorder = attach_recorder(config, app.monitor)
    attach_line_writer(config, app.monitor)


def _begin_recovery(config: Config, preset: Any, **how: Any) -> Any:
    from cockpit.acts.recover.runbook import begin_recovery  # with it all that reads commands; few start a runbook from the screen

    return begin_recovery(config, preset, os.environ, **how)


def _open_past(services: Services) -> Recording:
    """What was recorded of its cluster, by this cockpit or by another one. Raises `SourceError`.

    All sessions at its address: Ray may have been started anew since.
    """
    own = services.recorder.state.path if services.recorder else None
    folders = list(folders_at(services.snapshot.cluster.address, socket.gethostname()))
    if own is not None:
        folders = [*(folder for folder in folders if folder != own.parent), own.parent]
    try:
        if folders:
            return Recording.open(*folders)
    except RecordingError as error:
        raise SourceError(str(error)) from None
    reason = services.recorder.state.reason if services.recorder else None
    raise SourceError(f"no recording of this cluster yet{f': {reason}' if reason else ''}")
