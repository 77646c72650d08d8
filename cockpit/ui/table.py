"""Defines the table widget, which shows sections of rows and draws only the lines on the screen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size, Spacing
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from cockpit.ui.block import GUTTER_CELLS, Block, lay_out, sort_rows
from cockpit.ui.drawing import Drawing
from cockpit.ui.section import Section
from cockpit.ui.view import View

MAX_PLACES = 100
"""Pages whose cursor place is kept; the place of the page left longest ago is dropped first."""


class CursorPlace(msgspec.Struct, frozen=True):
    """The place of the cursor on a page, and how far the page is scrolled."""

    key: str | None = None
    """Key of the row; `None`: the user has not moved the cursor."""
    at: int = 0
    """Number of the row over all sections, used if the row of that key is gone."""
    scroll: int = 0
    """Lines scrolled off at the top."""


class Table(ScrollView, can_focus=True):
    """Shows sections. When they are replaced, a cursor that the user has moved stays on the same row, not on the same line."""

    DEFAULT_CSS = "Table { height: 1fr; scrollbar-size: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
        Binding("tab", "jump(1)", "Next section", show=False),
        Binding("shift+tab", "jump(-1)", "Prev. section", show=False),
        Binding("enter", "open", "Open", key_display="Enter"),
        Binding("less_than_sign", "sort(-1)", "Sort back", show=False),
        Binding("greater_than_sign", "sort(1)", "Sort", key_display="<>"),
        Binding("space", "tag", "Tag", show=False),
        Binding("U", "untag", "Untag all", show=False),
    ]

    start: ClassVar[int] = 0
    """The row of the cursor at the beginning."""

    @dataclass
    class Opened(Message):
        """A row was opened."""

        row: Any

    class Tagged(Message):
        """Rows were tagged or untagged."""

    @dataclass
    class Refused(Message):
        """A key does nothing here."""

        reason: str

    class Moved(Message):
        """The cursor has moved, or other rows are shown."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.blocks: tuple[Block, ...] = ()
        self.at = self.start
        """The row under the cursor, counted over all sections."""
        self._has_moved = False
        self._page = ""
        self._places: dict[str, CursorPlace] = {}
        """The place where the cursor of each page was left."""
        self.lines = 0
        self.lends = False
        """Whether a pane below the table takes lines that would stay blank."""
        self.tagged: set[str] = set()
        self.needle, self.inverted = "", False
        self.sorts: dict[str, tuple[str, bool]] = {}
        self._sections: tuple[Section[Any], ...] = ()
        self._expected_room = 0
        self._drawing = Drawing(self)
        self._on_screen: dict[int, Strip] = {}
        """Each line as it was drawn last, by its number on the screen."""

    # Rows and cursor

    @property
    def _place(self) -> CursorPlace:
        selected = self.selected if self._has_moved else None
        return CursorPlace(None if selected is None else selected.key, self.at, self.scroll_offset.y)

    def show(self, sections: Sequence[Section[Any]], view: View, page: str | None = None, *, expected_room: int = 0) -> None:
        """Replace the sections. Another `page` than before opens where its cursor was left, else at its top.

        `expected_room`: lines of table and pane after the next layout, so that the frame before the layout looks the same.
        """
        is_other = page not in (None, self._page)
        place = self._place
        if page is not None and is_other:
            self._places.pop(self._page, None)  # so the page left last is at the end
            self._places[self._page], self._page = place, page
            if len(self._places) > MAX_PLACES:
                del self._places[next(iter(self._places))]
            place = self._places.get(page, CursorPlace())
            self._has_moved = place.key is not None
        self._sections, self.view, self._expected_room = tuple(sections), view, expected_room or self._expected_room
        listed: list[tuple[Section[Any], Sequence[Any], int]] = []  # with its rows, and the number of rows hidden by the filter
        for section in self._sections:
            rows: Sequence[Any] = section.rows or ()
            if section.fixed:
                listed.append((section, rows, 0))
                continue
            found = rows
            if self.needle:
                found = [row for row in rows if (self.needle in section.search(row).casefold()) is not self.inverted]
            title, reverse = self.sorts.get(section.key, ("", False))
            listed.append((section, sort_rows(section, found, title, view, reverse=reverse), len(rows) - len(found)))
        self.blocks = tuple(lay_out(listed, self.size.width or view.width, self.room, view, lends=self.lends))
        self.lines = self.blocks[-1].end if self.blocks else 0
        self.at = self._find(place) if self._has_moved else self.start
        self._repaint(place.scroll if is_other else None)

    def continue_from(self, other: Table) -> None:
        """Take over order, filter, tags and cursors of another table."""
        self.sorts, self.tagged, self.needle, self.inverted = other.sorts, other.tagged, other.needle, other.inverted
        self._places = {**other._places, other._page: other._place}
        self._page = ""  # so that `show` opens the page where its cursor was left

    def go_to_top(self) -> None:
        """Move the cursor to the top and keep it there when rows change."""
        self._go(0)
        self._has_moved = False

    def forget_place(self, page: str) -> None:
        """Let a page open at its top the next time."""
        self._places.pop(page, None)

    def filter_rows(self, needle: str, *, inverted: bool = False) -> None:
        """Show only rows that contain a text, ignoring case; inverted: rows without it."""
        self.needle, self.inverted = needle.casefold(), inverted
        self.show(self._sections, self.view)
        self.post_message(self.Moved())

    @property
    def room(self) -> int:
        """Lines for sections without scrolling: the lines of the table and of the pane below it."""
        around = self.parent if isinstance(self.parent, Widget) else self
        return self._expected_room or around.size.height

    @property
    def count(self) -> int:
        """Number of rows in all sections."""
        return self.blocks[-1].first + len(self.blocks[-1].rows) if self.blocks else 0

    @property
    def block(self) -> Block | None:
        """The section of the cursor."""
        return self._block_of(self.at)

    @property
    def selected(self) -> Any:
        """The row under the cursor, or `None`."""
        return self._row(self.at)

    @property
    def chosen(self) -> list[Any]:
        """The tagged rows, else the row under the cursor."""
        tagged = [row for block in self.blocks for row in block.rows if row.key in self.tagged] if self.tagged else []
        return tagged or ([self.selected] if self.selected is not None else [])

    def _find(self, place: CursorPlace) -> int:
        """The number of the row with the place's key; if that row is gone, the number nearest to the old one."""
        if place.key is not None:
            if (now := self._row(place.at)) is not None and now.key == place.key:
                return place.at
            for block in self.blocks:
                for number, candidate in enumerate(block.rows):
                    if candidate.key == place.key:
                        return block.first + number
        return max(0, min(place.at, self.count - 1))

    def _block_of(self, number: int) -> Block | None:
        return next((block for block in self.blocks if block.first <= number < block.first + len(block.rows)), None)

    def _row(self, number: int) -> Any:
        block = self._block_of(number)
        return None if block is None else block.rows[number - block.first]

    # Drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawing.forget_styles()

    def render_line(self, y: int) -> Strip:
        strip = self._on_screen[y] = self._draw_line(y, self.scroll_offset.y, self.size.width)
        return strip

    def _refresh_changed(self) -> None:
        """Let Textual draw only the lines that look different now: most lines are the same in the next snapshot."""
        top, width = self.scroll_offset.y, self.size.width
        for y in range(self.size.height):
            before, strip = self._on_screen.get(y), self._draw_line(y, top, width)
            if strip is not before and strip != before:
                self.refresh(Region(0, y, width, 1))

    def _draw_line(self, y: int, top: int, width: int) -> Strip:
        """Draw a heading, a row, or a blank line; `top`: lines scrolled off."""
        line = y + top
        number = bisect_right([block.top for block in self.blocks], line) - 1
        block = self.blocks[number] if number >= 0 else None
        if block is not None and (line == block.top or (y == 0 and line < block.end)):
            return self._drawing.draw_heading(block, self.view, self.sorts.get(block.section.key, ("", False)), width)
        if block is None or line >= block.end:
            return self._drawing.draw_blank(width)
        index = block.row_at(line)
        on_cursor, is_tagged = block.first + index == self.at, block.rows[index].key in self.tagged
        row_line = line - block.line_of(index)
        return self._drawing.draw_row(block, index, row_line, self.view, width, on_cursor=on_cursor, is_tagged=is_tagged)

    # Moving

    def _region_of(self, number: int) -> Region:
        """The lines of a row, whose number counts over all sections."""
        block = self._block_of(number)
        if block is None:
            return Region(0, 0, 1, 1)
        index = number - block.first
        return Region(0, block.line_of(index), self.size.width, block.height_of(index))

    def _repaint(self, scroll: int | None) -> None:
        """Draw the new sections; on another page than before, scrolled down by `scroll` lines. The pane overrides this."""
        self.virtual_size = Size(self.size.width, self.lines)
        if scroll is not None:
            self.scroll_to(0, scroll, animate=False, force=True, immediate=True)
        self._scroll_to_cursor()
        self._refresh_changed()

    def _scroll_to_cursor(self) -> None:
        region = Region(0, 0, 1, 1) if self.at == 0 else self._region_of(self.at)
        self.scroll_to_region(region, animate=False, force=True, spacing=Spacing(top=1), x_axis=False, immediate=True)

    def _go(self, number: int) -> None:
        before, self.at, self._has_moved = self.at, max(0, min(number, self.count - 1)), True
        offset = self.scroll_offset
        self._scroll_to_cursor()
        if self.scroll_offset == offset:
            for place in {before, self.at}:
                self.refresh(self._region_of(place).translate((0, -offset.y)))
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """Move the cursor by a row."""
        self._go(self.at + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a screen."""
        lines = by * max(1, self.size.height - 2)
        self.scroll_to(0, self.scroll_offset.y + lines, animate=False, force=True, immediate=True)
        self._go(self.at + lines)

    def action_jump(self, by: int) -> None:
        """Move the cursor to the next section that has rows."""
        full = [block for block in self.blocks if block.rows]
        if len(full) < 2:
            self.post_message(self.Refused("Next section: there is no other one with rows"))
        elif self.block in full:
            self._go(full[(full.index(self.block) + by) % len(full)].first)

    def action_open(self) -> None:
        """Open the details of the row."""
        if self.selected is None:
            self.post_message(self.Refused("Open: there is no row here"))
        else:
            self._has_moved = True  # on the way back the cursor is on this row again, wherever the row is then
            self.post_message(self.Opened(self.selected))

    def action_tag(self) -> None:
        """Tag or untag the row and move to the next; actions apply to all tagged rows."""
        if self.selected is None:
            self.post_message(self.Refused("Tag: there is no row here"))
        else:
            self.tagged ^= {self.selected.key}
            self._go(self.at + 1)
            self.refresh()
            self.post_message(self.Tagged())

    def action_untag(self) -> None:
        """Remove all tags."""
        if not self.tagged:
            self.post_message(self.Refused("Untag all: no row is tagged"))
        self.untag(set(self.tagged))

    def untag(self, keys: set[str]) -> None:
        self.tagged -= keys
        self.refresh()
        self.post_message(self.Moved())
        self.post_message(self.Tagged())

    def action_sort(self, by: int) -> None:
        """Step through the sort orders of the section under the cursor: none, each column, each column reversed."""
        block = self.block
        sortable = [] if block is None or block.section.fixed else [column for column, _ in block.columns if column.sort]
        if block is None or not sortable:
            self.post_message(self.Refused("Sort: the section under the cursor has one order; Tab leads to the next section"))
            return
        orders = [("", False), *((column.title, back) for column in sortable for back in (False, True))]
        now = self.sorts.get(block.section.key, ("", False))
        self.sorts[block.section.key] = orders[((orders.index(now) if now in orders else 0) + by) % len(orders)]
        self.show(self._sections, self.view)

    def on_click(self, event: events.Click) -> None:
        """Click on a row: select it; double-click: open it. Click on a heading: sort by that column; again: in reverse."""
        line = event.y + self.scroll_offset.y
        block = next((block for block in reversed(self.blocks) if block.top <= line), None)
        if block is None or line >= block.end:
            return
        if line == block.top or event.y == 0:
            self._sort_at(block, event.x)
            return
        self._go(block.first + block.row_at(line))
        if event.chain == 2:
            self.action_open()

    def _sort_at(self, block: Block, x: int) -> None:
        edge = GUTTER_CELLS
        for column, width in block.columns:
            edge += width + 1
            if x < edge:
                if column.sort:
                    title, reverse = self.sorts.get(block.section.key, ("", False))
                    self.sorts[block.section.key] = (column.title, title == column.title and not reverse)
                    self.show(self._sections, self.view)
                return

    def on_resize(self) -> None:
        self._expected_room = 0
        self.lay_out_again()

    def lay_out_again(self) -> None:
        """Lay out the sections for the current size."""
        self.show(self._sections, self.view)
        self.post_message(self.Moved())
