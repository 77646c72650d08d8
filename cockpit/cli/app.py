"""Makes the App, for the screen and for a replay. It imports Textual, a third of a second, so no command imports it at its top."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from cockpit.actions.executor import ActionExecutor
from cockpit.config.settings import Config
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.recording.folder import recordings_path
from cockpit.ui.app import Cockpit
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.services import Services

if TYPE_CHECKING:
    from cockpit.recording.recording import Recording


def make_app(config: Config, monitor: ClusterMonitor, greeting: str | None) -> Cockpit:
    """The App that shows the monitor's snapshots. `greeting`: a sentence that the screen begins with."""
    app = Cockpit(
        config,
        monitor.publish_to,
        make_executor=None if config.readonly else ActionExecutor,  # the one place at which `--readonly` leaves it out
        runbook=partial(_begin_recovery, config),
    )
    app.greeting = greeting
    app.after_first_frame = partial(_attach, app, config)
    app.services.recorded = RecordedPast(partial(_open_recording, app.services), recordings_path())
    monitor.poller.prepare_with(app.services.look_up)
    return app


def make_replay(config: Config, recording: Recording, begins_at: float | None) -> Cockpit:
    """The App that shows a recording. Its monitor is never run."""
    replayed = RecordedPast(lambda: recording, recording.path)
    return Cockpit(config, partial(ClusterMonitor, config), replayed=replayed, begins_at=begins_at)


# Imported when they are called, as the first frame needs none of it: docs/decisions/0005-start-of-the-screen.md


def _attach(app: Cockpit, config: Config) -> None:
    from cockpit.cli.writers import attach_writers, listen_for_agents

    attach_writers(app.services, config)
    if not config.readonly:
        listen_for_agents(app)


def _open_recording(services: Services) -> Recording:
    from cockpit.cli.writers import open_recording

    return open_recording(services)


def _begin_recovery(config: Config, preset: Any, **how: Any) -> Any:
    from cockpit.actions.recover.runbook import begin_recovery

    return begin_recovery(config, preset, os.environ, **how)
