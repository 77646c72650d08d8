"""Draws the pane below the table: on a large terminal it shows the page that Enter would open for the row under the cursor."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec.structs import replace
from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.timer import Timer

from cockpit.text import plural
from cockpit.ui.block import MIN_PANE_LINES
from cockpit.ui.pages.details import detail_of
from cockpit.ui.table import Table
from cockpit.ui.view import View

PANE_SCREEN: Final = (140, 36)
"""A terminal with so many columns and lines has a pane."""
PANE_DELAY_S: Final = 0.05
"""The pane follows when the cursor has not moved for so long: longer than a held key takes to repeat."""
SHARE_OF_LONG_TABLE: Final = 3
"""The pane takes one line in so many from a table that must be scrolled anyway."""


def is_large(screen: Size) -> bool:
    """Whether a terminal of this size has a pane."""
    return screen.width >= PANE_SCREEN[0] and screen.height >= PANE_SCREEN[1]


def pane_height(lines: int, room: int, *, may_cover: bool) -> int:
    """The lines of the pane below a table with so many `lines`. It never pushes rows off the screen that would fit on it."""
    if lines > room:
        return room // SHARE_OF_LONG_TABLE if may_cover else 0
    return room - lines if room - lines >= MIN_PANE_LINES else 0


class Part(Table, can_focus=False):
    """Sections without a cursor, keys or scrolling."""

    DEFAULT_CSS = "Part { width: 1fr; height: 100%; overflow: hidden hidden; scrollbar-size: 0 0; }"
    BINDINGS: ClassVar[list[BindingType]] = []
    start = -1

    def _repaint(self, scroll: int | None) -> None:  # noqa: ARG002 it is not scrolled
        """Draw changed lines only: from one row to the next most headings, names and blanks stay."""
        self._refresh_changed()

    def on_click(self, event: events.Click) -> None:
        """Ignore clicks: there is nothing to choose."""
        event.prevent_default()


class Pane(Horizontal):
    """The page of a thing: its facts at the left, the other sections at the right."""

    DEFAULT_CSS = """
    Pane { height: 0; display: none; border-top: solid $faint; border-title-color: $text-muted; border-title-align: left; }
    Pane.plain { border-top: ascii $faint; }
    """

    def __init__(self) -> None:
        self._left, self._right = Part(), Part()
        super().__init__(self._left, self._right)

    def show(self, row: Any, lines: int, view: View) -> None:
        """Show the page of this row in so many lines; 0 hides the pane."""
        page = detail_of(row) if lines and row is not None else None
        self.set_class(view.ascii, "plain")
        self.styles.height = lines
        self.display = page is not None
        if page is None:
            return
        half = replace(view, width=view.width // 2, height=lines - 1)
        left, *right = page.sections(half)
        if not right:
            left = page.sections(replace(half, width=view.width))[0]
        self._right.display = bool(right)
        self._left.show([left], half, row.key)
        self._right.show(right, half, row.key)
        beyond = max(part.lines for part in (self._left, self._right)) - lines + 1
        more = f", {plural(beyond, 'more line')}" if beyond > 0 else ""
        title = f"Enter: opens the row{more}  v: hides this"
        if title != self.border_title:
            self.border_title = title


class Body(Vertical):
    """The table and the pane below it. The pane follows the cursor a moment later, so that no key waits for it."""

    DEFAULT_CSS = "Body { height: 1fr; }"

    def __init__(self, table: Table) -> None:
        self._table, self._pane = table, Pane()
        super().__init__(self._table, self._pane)
        self.is_wanted = True
        self._lends = self._may_cover = False
        self._timer: Timer | None = None

    def show(self, *, lends: bool, may_cover: bool) -> None:
        """Update the pane after the table.

        `lends`: every row can be opened, so the pane gets blank lines before cut texts do.
        `may_cover`: it may also take lines from a long table.
        """
        self._lends, self._may_cover = lends, may_cover
        has_pane = self.is_wanted and is_large(self.app.size)
        if self._table.lends != (lends and has_pane):
            self._table.lends = lends and has_pane
            self._table.lay_out_again()
        self._pane.show(self._table.selected, self._lines(), self._table.view)

    @property
    def row(self) -> Any:
        """The row that the pane shows, or will show in a moment; `None` without a pane."""
        return self._table.selected if self._lines() else None

    def toggle(self) -> bool:
        """Hide the pane or show it again. Returns false if there is no room to show it."""
        self.is_wanted = not self.is_wanted
        self.show(lends=self._lends, may_cover=self._may_cover)
        return self._pane.display is self.is_wanted

    def on_resize(self) -> None:
        """Show the pane: its room is known only now."""
        self._follow_table()

    def on_table_moved(self) -> None:
        """Follow the cursor, but not to the rows that a held key passes."""
        if self._timer is None:
            self._timer = self.set_timer(PANE_DELAY_S, self._follow_table)
        else:
            self._timer.reset()

    def _follow_table(self) -> None:
        self._timer = None
        self._pane.show(self._table.selected, self._lines(), self._table.view)

    def _lines(self) -> int:
        if not self.is_wanted or not is_large(self.app.size):
            return 0
        return pane_height(self._table.lines, self._table.room, may_cover=self._may_cover)
