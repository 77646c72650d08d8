"""Presets on the screen: they are read, edited in the user's editor, and made from jobs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from textual import work
from textual.app import SuspendNotSupported

from cockpit.check.preset_list import PresetEntry, check_presets
from cockpit.config.document import InputError, abbreviate_home
from cockpit.model import Job, Snapshot
from cockpit.presets import copy_preset, presets_folder, read_preset, write_preset
from cockpit.presets.folder import READY_MADE, demo_env
from cockpit.presets.save import preset_of
from cockpit.sources.source import run_in_thread
from cockpit.ui.acts import find_chosen
from cockpit.ui.inspection import InspectionApp
from cockpit.ui.pages.presets import PresetsPage

SAVE_PATIENCE_S = 15.0
"""Seconds in which every host is looked at for a preset; what has not been seen by then is named in it as unknown."""
READ_INTERVAL_S = 20.0
"""Seconds after which presets that are shown are read and checked again."""


class PresetApp(InspectionApp):
    """The part of the application that reads and writes presets."""

    _presets_read_at = 0.0

    def refresh_presets(self, *, now: bool = False) -> None:
        """Read presets when they are shown and have not been read for a while; those of now were not those of then."""
        if self.is_past:
            return
        about_presets = isinstance(self.page, PresetsPage) or isinstance(getattr(self.page, "thing", None), PresetEntry)
        if now or (about_presets and self.clock() - self._presets_read_at > READ_INTERVAL_S):
            self._presets_read_at = self.clock()
            self._read_presets()

    @work(group="shelf", exclusive=True)
    async def _read_presets(self) -> None:
        """Beside the screen: a home folder may lie on a disk that hangs."""
        with self.telling_failures():
            check = partial(check_presets, self.drawn_snapshot, dict(os.environ), self.config)
            self.preset_entries = await run_in_thread(check, presets_folder(), READ_INTERVAL_S)
        self.draw()

    def chosen_of(self, kind: type[Any]) -> Sequence[Any]:
        """What is chosen, or open, of one kind."""
        return [thing for thing in find_chosen(self.page, self.table) if isinstance(thing, kind)] if self.screen_stack else []

    def action_edit(self) -> None:
        """Edit the preset in $EDITOR; for a ready-made one, your own copy."""
        entries = self.chosen_of(PresetEntry)
        if len(entries) != 1:
            self.say("Edit one preset at a time: put the cursor on it")
            return
        try:
            path = self._own_copy(entries[0])
            self._edit(path)
            read_preset(path)
        except InputError as error:
            self.say(str(error), "warning")
        except (OSError, ValueError, SuspendNotSupported) as error:  # an EDITOR may open a quote that it never closes
            self.say(f"Can't start an editor: {error}. Set EDITOR", "warning")
        self.refresh_presets(now=True)

    def _own_copy(self, entry: PresetEntry) -> Path:
        path = Path(entry.path)
        if path.parent != READY_MADE:
            return path
        own = copy_preset(entry.name)
        self.say(f"Copied to {abbreviate_home(own)}")
        return own

    def _edit(self, path: Path) -> None:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "") or ["vi"]
        with _ignore_sigint(), self.suspend():
            subprocess.run([*editor, str(path)], check=False)
        self.refresh()

    @work(group="naming", exclusive=True)
    async def action_save(self) -> None:
        """Save the job under the cursor as a preset: command, environment, metadata, and how its Ray was started."""
        jobs = self.chosen_of(Job)
        if len(jobs) != 1:
            self.say("Save one job at a time: put the cursor on it")
            return
        try:
            snapshot = await self._await_aloud(self._look_at_all_hosts(), "Looking on each host how Ray was started …")
            text = preset_of(jobs[0], snapshot, demo_env())
            question = f"Save job {jobs[0].id} as a preset. Name:"
            from cockpit.ui.dialogs import NameDialog

            name = await self.push_screen_wait(NameDialog(question, jobs[0].preset or jobs[0].id))
            if name is not None:
                self.say(f"Preset written: {abbreviate_home(write_preset(text, name))}. To edit it: e on the page Presets (7)")
        except InputError as error:
            self.say(str(error), "warning")
        self.refresh_presets(now=True)

    async def _look_at_all_hosts(self) -> Snapshot:
        """What is known once a probe has looked at every host: while Ray is well, workers are not probed."""
        monitor, end = self.monitor, time.monotonic() + SAVE_PATIENCE_S
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
