"""Attaches the recorder, the notifier, the writer of the status line and the questions of agents to a screen, and opens the recording.

The screen imports this once its first frame is drawn: docs/decisions/0005-start-of-the-screen.md
"""

from __future__ import annotations

import socket

from cockpit.actions.agreement import AgreementListener, Asked
from cockpit.actions.table import find_action
from cockpit.cli.notify import attach_notifier
from cockpit.cli.record import attach_recorder, folders_at
from cockpit.cli.service import attach_line_writer
from cockpit.config.settings import Config
from cockpit.recording.recording import Recording, RecordingError
from cockpit.sources.source import SourceError
from cockpit.ui.app import Cockpit
from cockpit.ui.screens.agreement import AgreementScreen
from cockpit.ui.screens.plan import ActionDialog
from cockpit.ui.services import Services


def attach_writers(services: Services, config: Config) -> None:
    """From now on, record the monitor's snapshots, send notifications, and write the status line."""
    services.recorder = attach_recorder(config, services.monitor)
    attach_notifier(config, services.monitor)
    attach_line_writer(config, services.monitor)


def listen_for_agents(app: Cockpit) -> None:
    """From now on, show the plans for which a coding agent of this user needs an agreement."""

    def show(asked: Asked) -> str | None:
        if isinstance(app.screen, ActionDialog):
            return "another dialog of an action is open on the screen"
        app.push_screen(AgreementScreen(asked, find_action(asked.question.plan.action), app.services.clock))
        return None

    listener = AgreementListener(show)
    app.monitor.ending.append(listener.close)
    app.run_worker(listener.start(), name="agreements")


def open_recording(services: Services) -> Recording:
    """All that any cockpit has recorded at this cluster's address: Ray may have been started anew since. Raises `SourceError`."""
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
