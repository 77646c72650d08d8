"""Attaches the recorder, the notifier and the writer of the status line to a screen, and opens the recording.

The screen imports this once its first frame is drawn: docs/decisions/0005-start-of-the-screen.md
"""

from __future__ import annotations

import socket

from cockpit.cli.notify import attach_notifier
from cockpit.cli.record import attach_recorder, folders_at
from cockpit.cli.service import attach_line_writer
from cockpit.config.settings import Config
from cockpit.recording.recording import Recording, RecordingError
from cockpit.sources.source import SourceError
from cockpit.ui.services import Services


def attach_writers(services: Services, config: Config) -> None:
    """From now on, record the monitor's snapshots, send notifications, and write the status line."""
    services.recorder = attach_recorder(config, services.monitor)
    attach_notifier(config, services.monitor)
    attach_line_writer(config, services.monitor)


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
