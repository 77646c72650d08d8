"""The screen's dealings with presets: they are read, edited in the user's editor, and made of jobs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from textual import work
from textual.app import SuspendNotSupported

from cockpit.disk import in_time
from cockpit.document import InputError, shown
from cockpit.model import Job
from cockpit.presets import copy_preset, presets_folder, read_preset, write_preset
from cockpit.presets.folder import READY_MADE
from cockpit.presets.save import preset_of
from cockpit.shelf import Entry, shelf
from cockpit.sources.source import SourceError
from cockpit.ui.acts import chosen
from cockpit.ui.naming import Naming
from cockpit.ui.pages.details import Detail
from cockpit.ui.pages.presets import Presets
from cockpit.ui.reading import Reading

READ_AGAIN = 20.0
"""Seconds after which presets that are shown are read and checked again."""


class Shelving(Reading):
    """The part of the program that knows where presets lie."""

    shelf: tuple[Entry, ...] | None = None
    _shelf_read = 0.0

    def draw(self, *, fresh: bool = False) -> None:
        """Show what is known now."""
        raise NotImplementedError

    def keep_shelf(self, *, now: bool = False) -> None:
        """Read presets when they are shown and have not been read for a while."""
        about_presets = isinstance(self.page, Presets) or (isinstance(self.page, Detail) and isinstance(self.page.thing, Entry))
        if now or (about_presets and self.clock() - self._shelf_read > READ_AGAIN):
            self._shelf_read = self.clock()
            self._read_shelf()

    @work(group="shelf", exclusive=True)
    async def _read_shelf(self) -> None:
        """Beside the screen: a home folder may lie on a disk that hangs."""
        try:
            self.shelf = await in_time(partial(shelf, self.shown, dict(os.environ), self.config.limits), presets_folder(), READ_AGAIN)
        except SourceError as error:
            self.say(str(error), "warning")
        self.draw()

    def chosen_of(self, kind: type[Any]) -> Sequence[Any]:
        """What is chosen, or open, of one kind."""
        return [thing for thing in chosen(self.page, self.table) if isinstance(thing, kind)] if self.screen_stack else []

    def action_edit(self) -> None:
        """The preset under the cursor, in $EDITOR; of a ready-made one a copy in your own folder."""
        entries = self.chosen_of(Entry)
        if len(entries) != 1:
            self.say("Edit one preset at a time: put the cursor on it")
            return
        try:
            path = self._own(entries[0])
            self._edit(path)
            read_preset(path)
        except InputError as error:
            self.say(str(error), "warning")
        except (OSError, ValueError, SuspendNotSupported) as error:  # an EDITOR may open a quote that it never closes
            self.say(f"No editor could be started: {error}. Set EDITOR", "warning")
        self.keep_shelf(now=True)

    def _own(self, entry: Entry) -> Path:
        path = Path(entry.path)
        if path.parent != READY_MADE:
            return path
        own = copy_preset(entry.name)
        self.say(f"A copy of your own: {shown(own)}")
        return own

    def _edit(self, path: Path) -> None:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "") or ["vi"]
        with _ours_alone(), self.suspend():
            subprocess.run([*editor, str(path)], check=False)
        self.refresh()

    @work(group="naming", exclusive=True)
    async def action_save(self) -> None:
        """Make a preset of the job under the cursor: its command, its environment, its metadata, as Ray tells them."""
        jobs = self.chosen_of(Job)
        if len(jobs) != 1:
            self.say("Save one job at a time: put the cursor on it")
            return
        try:
            text = preset_of(jobs[0], self.shown.actors or ())
            name = await self.push_screen_wait(
                Naming(f"Save {jobs[0].id} as a preset named", jobs[0].preset or jobs[0].id, ascii=self.config.ascii)
            )
            if name is not None:
                self.say(f"Written: {shown(write_preset(text, name))}. e on the Presets page edits it")
        except InputError as error:
            self.say(str(error), "warning")
        self.keep_shelf(now=True)


@contextmanager
def _ours_alone() -> Iterator[None]:
    """ctrl+c in the editor is meant for the editor. A handler, unlike `SIG_IGN`, is not inherited."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
