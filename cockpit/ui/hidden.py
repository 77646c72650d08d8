"""Findings that the user has hidden until they clear, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

from textual.driver import Driver

from cockpit.model import Finding
from cockpit.text import plural
from cockpit.ui.pages.details import DetailPage
from cockpit.ui.pages.page import Page
from cockpit.ui.preset_files import PresetApp
from cockpit.ui.view import Index


class HiddenFindings:
    """Keys of findings. Nothing goes out of sight without a word: what hides or shows returns a sentence for the user."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._last: set[str] = set()

    def toggle(self, findings: Sequence[Finding]) -> str:
        """Hide these; of those that are hidden: show them again, which needs no words."""
        hiding = [finding for finding in findings if finding.key not in self.keys]
        self.keys ^= {finding.key for finding in findings}
        if not hiding:
            return ""
        self._last = {finding.key for finding in hiding}
        if len(hiding) > 1:
            return f"Hidden until they clear: {plural(len(hiding), 'finding')}. z shows them again; page 6 lists what is hidden"
        return f"Hidden until it clears: {hiding[0].level}, {hiding[0].subject}. z shows it again; page 6 lists what is hidden"

    def undo(self) -> str:
        """Show again what was hidden last."""
        back = self._last & self.keys
        self.keys -= back
        return f"{plural(len(back), 'finding')} shown again" if back else "Nothing was hidden just now; page 6 lists what is hidden"

    def forget_cleared(self, findings: Sequence[Finding]) -> None:
        """What has cleared and comes again is new."""
        self.keys &= {finding.key for finding in findings}


class HidingApp(PresetApp):
    """The part of the application that hides findings and shows them again."""

    pages: list[Page]

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__(driver_class=driver_class)
        self.hidden = HiddenFindings()

    def _open(self, pages: list[Page]) -> None:
        """Show the last of these; Esc leads back through the others."""
        raise NotImplementedError

    def action_hide(self) -> None:
        """Hide a finding until it clears; on a hidden one: show it again."""
        found = self.chosen_of(Finding)
        self.table.untag({row.key for row in self.table.chosen})
        self._update(self.hidden.toggle(found))
        if isinstance(self.page, DetailPage) and self.page.thing in found:
            self._open(self.pages[:-1])

    def action_unhide(self) -> None:
        """Show again the findings that were hidden last."""
        self._update(self.hidden.undo())

    def _update(self, sentence: str) -> None:
        self._index = Index(self.drawn_snapshot, self._index, self.hidden.keys)
        self.draw()
        if sentence:
            self.say(sentence)
