"""Copies and edits preset files, and samples all hosts before a job is saved as a preset."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from textual.app import App

from cockpit.check.preset_list import PresetEntry
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import copy_preset
from cockpit.presets.folder import READY_MADE

SAVE_PATIENCE_S: Final = 15.0
"""Seconds for sampling all hosts. The preset names facts of hosts that did not answer as unknown."""


def own_copy(entry: PresetEntry) -> Path:
    """The file of a preset; for a ready-made preset a copy that the user may edit."""
    path = Path(entry.path)
    return copy_preset(entry.name) if path.parent == READY_MADE else path


def edit_file(app: App[Any], path: Path) -> None:
    """Suspend the screen and edit a file in the user's editor. Raises `OSError`, `ValueError`, `SuspendNotSupported`."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "") or ["vi"]
    # Ctrl+c in the editor is meant for the editor. The editor inherits `SIG_IGN`, but not a handler.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with app.suspend():
            subprocess.run([*editor, str(path)], check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    app.refresh()


async def sample_all_hosts(monitor: ClusterMonitor) -> Snapshot:
    """Sample every host, workers too, which are not probed while Ray is well. Returns the snapshot after that."""
    end = time.monotonic() + SAVE_PATIENCE_S
    usual, monitor.selection.everywhere = monitor.selection.everywhere, True
    try:
        await monitor.coverage.wait_for_hosts(SAVE_PATIENCE_S)
        while time.monotonic() < end and any("rays" in host.unanswered for host in monitor.poller.parts.hosts.values()):
            await monitor.poller.change(end - time.monotonic())
    finally:
        monitor.selection.everywhere = usual
    monitor.poller.rejoin()
    return monitor.poller.snapshot
