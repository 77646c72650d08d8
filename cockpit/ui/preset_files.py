"""A preset's file: copied for its owner, edited in the user's editor; and what is looked at before a job becomes one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from textual.app import App

from cockpit.check.preset_list import PresetEntry
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.presets import copy_preset
from cockpit.presets.folder import READY_MADE

SAVE_PATIENCE_S: Final = 15.0
"""Seconds in which every host is looked at for a preset; what has not been seen by then is named in it as unknown."""


def own_copy(entry: PresetEntry) -> Path:
    """Its file; of a ready-made preset a copy that its user may edit."""
    path = Path(entry.path)
    return copy_preset(entry.name) if path.parent == READY_MADE else path


def edit_file(app: App[Any], path: Path) -> None:
    """Have it edited in the terminal, which the screen leaves meanwhile. Raises `OSError`, `ValueError`, `SuspendNotSupported`."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "") or ["vi"]
    with _ignore_sigint(), app.suspend():
        subprocess.run([*editor, str(path)], check=False)
    app.refresh()


async def look_at_all_hosts(monitor: ClusterMonitor) -> Snapshot:
    """What is known once a probe has looked at every host: while Ray is well, workers are not probed."""
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


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """ctrl+c in the editor is meant for the editor. A handler, unlike `SIG_IGN`, is not inherited."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
