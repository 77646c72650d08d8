"""Defines the input of the filter: the table shows only rows that contain its text."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from cockpit.ui.table import Table


class Filter(Input):
    """Filters the table at each typed character. Hidden while it has no focus."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "All rows", key_display="Esc")]

    class Closed(Message):
        """The field has been closed."""

    def __init__(self, table: Table) -> None:
        super().__init__(id="filter", placeholder="filter text; !text: rows without it; Esc clears", compact=True, select_on_focus=False)
        self._table = table

    def open(self) -> None:
        """Show the field with the current filter."""
        self.query_ancestor(FilterLine).display = True
        self.value = ("!" if self._table.inverted else "") + self._table.needle
        self.screen.set_focus(self)  # now, not after the next refresh: keys typed ahead belong to the field

    def close(self) -> None:
        """Keep the text and go back to the rows."""
        self.query_ancestor(FilterLine).display = False
        self.screen.set_focus(self._table)
        self.post_message(self.Closed())

    def on_input_changed(self, event: Input.Changed) -> None:
        self._table.filter_rows(event.value.removeprefix("!"), inverted=event.value.startswith("!"))

    def action_clear(self) -> None:
        """Show all rows again."""
        self.value = ""
        self.close()


class FilterLine(Horizontal):
    """The field with its key `/` before it, as in a log."""

    DEFAULT_CSS = """
    FilterLine { height: 1; dock: bottom; margin-bottom: 1; display: none; background: $panel; padding: 0 1; }
    FilterLine Label { width: 2; color: $text-accent; }
    FilterLine Input, FilterLine Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    """
