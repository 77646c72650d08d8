"""The one table of this program: sections of rows, of which only those on the screen are ever drawn."""

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
"""Pages of which it is remembered where the cursor was left: those left longest ago are forgotten first."""


class CursorPlace(msgspec.Struct, frozen=True):
    """Where a cursor lies, and how far its page is scrolled."""

    key: str | None = None
    """Of the row; `None`: nobody has moved the cursor."""
    at: int = 0
    """Counted over the rows of all sections, for when that row is gone."""
    scroll: int = 0
    """Lines above the screen."""


class Table(ScrollView, can_focus=True):
    """Shows sections. When they are replaced, a cursor that the user has moved stays on the same thing, not on the same line."""

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
    """The row on which the cursor is at first."""

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
        """The cursor is elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.blocks: tuple[Block, ...] = ()
        self.at = self.start
        """The cursor, counted over the rows of all sections."""
        self._has_moved = False
        self._page = ""
        self._places: dict[str, CursorPlace] = {}
        """Where the cursor of each page was left, for when somebody comes back."""
        self.lines = 0
        self.lends = False
        """Whether there is a pane below that takes lines which would stay blank."""
        self.tagged: set[str] = set()
        self.needle, self.inverted = "", False
        self.sorts: dict[str, tuple[str, bool]] = {}
        self._sections: tuple[Section[Any], ...] = ()
        self._expected_room = 0
        self._drawing = Drawing(self)
        self._on_screen: dict[int, Strip] = {}
        """Each line as it was drawn last."""
        self._drawn: dict[tuple[int, int], Strip] = {}
        """Lines that were drawn and wait to be painted, by their place and the scroll offset; empty once what they show has changed."""

    # What is shown

    @property
    def _place(self) -> CursorPlace:
        selected = self.selected if self._has_moved else None
        return CursorPlace(None if selected is None else selected.key, self.at, self.scroll_offset.y)

    def show(self, sections: Sequence[Section[Any]], view: View, page: str | None = None, *, expected_room: int = 0) -> None:
        """Replace everything. Another `page` than the last opens where its cursor was left, or at its top.

        `expected_room`: lines that it and the pane will have after the next layout, so that one frame looks as the next.
        """
        is_other = page not in (None, self._page)
        place = self._place
        if page is not None and is_other:
            self._places.pop(self._page, None)  # so that the one left last stands last
            self._places[self._page], self._page = place, page
            if len(self._places) > MAX_PLACES:
                del self._places[next(iter(self._places))]
            place = self._places.get(page, CursorPlace())
            self._has_moved = place.key is not None
        self._sections, self.view, self._expected_room = tuple(sections), view, expected_room or self._expected_room
        listed = [(section, *self._rows_of(section)) for section in self._sections]
        self.blocks = tuple(lay_out(listed, self.size.width or view.width, self.room, view, lends=self.lends))
        self.lines = self.blocks[-1].end if self.blocks else 0
        self.at = self._find(place) if self._has_moved else self.start
        self._repaint(place.scroll if is_other else None)

    def continue_from(self, other: Table) -> None:
        """Show the rows of another moment as another table did: in its order, with its filter, tags and cursors."""
        self.sorts, self.tagged, self.needle, self.inverted = other.sorts, other.tagged, other.needle, other.inverted
        self._places = {**other._places, other._page: other._place}
        self._page = ""  # the page is opened anew, where its cursor was left

    def go_to_top(self) -> None:
        """And stay there when other rows come."""
        self._go(0)
        self._has_moved = False

    def forget_place(self, page: str) -> None:
        """Have a page open at its top the next time."""
        self._places.pop(page, None)

    def filter_rows(self, needle: str, *, inverted: bool = False) -> None:
        """Show only rows in which the text is found, in any case; inverted: those without it."""
        self.needle, self.inverted = needle.casefold(), inverted
        self.show(self._sections, self.view)
        self.post_message(self.Moved())

    @property
    def room(self) -> int:
        """Lines that sections may take without being scrolled: its own, and those that a pane below it has been lent."""
        around = self.parent if isinstance(self.parent, Widget) else self
        return self._expected_room or around.size.height

    @property
    def count(self) -> int:
        """Rows over all sections."""
        return self.blocks[-1].first + len(self.blocks[-1].rows) if self.blocks else 0

    @property
    def block(self) -> Block | None:
        """The section that the cursor is in."""
        return self._block_of(self.at)

    @property
    def selected(self) -> Any:
        """The row under the cursor, or `None`."""
        return self._row(self.at)

    @property
    def chosen(self) -> list[Any]:
        """The tagged rows, or else the one under the cursor."""
        tagged = [row for block in self.blocks for row in block.rows if row.key in self.tagged] if self.tagged else []
        return tagged or ([self.selected] if self.selected is not None else [])

    def _rows_of(self, section: Section[Any]) -> tuple[Sequence[Any], int]:
        rows: Sequence[Any] = section.rows or ()
        if section.fixed:
            return rows, 0
        found = rows
        if self.needle:
            found = [row for row in rows if (self.needle in section.search(row).casefold()) is not self.inverted]
        title, reverse = self.sorts.get(section.key, ("", False))
        return sort_rows(section, found, title, self.view, reverse=reverse), len(rows) - len(found)

    def _find(self, place: CursorPlace) -> int:
        """Where the same thing is now; if it is gone, the same line, as near as can be."""
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
        self._drawn.clear()

    def render_line(self, y: int) -> Strip:
        place = (y, self.scroll_offset.y)
        strip = self._drawn.pop(place) if place in self._drawn else self._draw_line(*place, self.size.width)
        self._on_screen[y] = strip
        return strip

    def _refresh_changed(self) -> None:
        """Have those lines painted that look different now: from one snapshot to the next most stay."""
        self._drawn.clear()
        top, width = self.scroll_offset.y, self.size.width  # Textual works them out anew each time: a tenth of a line's time
        for y in range(self.size.height):
            before, strip = self._on_screen.get(y), self._draw_line(y, top, width)
            if strip is not before and strip != before:
                self._drawn[y, top] = strip
                self.refresh(Region(0, y, width, 1))

    def _draw_line(self, y: int, top: int, width: int) -> Strip:
        """A heading, a row, or nothing; `top`: lines that are scrolled off."""
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
        """The lines of a row, counted over all sections."""
        block = self._block_of(number)
        if block is None:
            return Region(0, 0, 1, 1)
        index = number - block.first
        return Region(0, block.line_of(index), self.size.width, block.height_of(index))

    def _repaint(self, scroll: int | None) -> None:
        """All of it; scrolled down by so many lines where another page is opened."""
        self.virtual_size = Size(self.size.width, self.lines)
        if scroll is not None:
            self.scroll_to(0, scroll, animate=False, force=True, immediate=True)
        self._keep_in_sight()
        self._refresh_changed()

    def _keep_in_sight(self) -> None:
        region = Region(0, 0, 1, 1) if self.at == 0 else self._region_of(self.at)
        self.scroll_to_region(region, animate=False, force=True, spacing=Spacing(top=1), x_axis=False, immediate=True)

    def _go(self, number: int) -> None:
        before, self.at, self._has_moved = self.at, max(0, min(number, self.count - 1)), True
        self._drawn.clear()
        offset = self.scroll_offset
        self._keep_in_sight()
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
            self._has_moved = True  # whoever comes back wants this row, wherever it is then
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
        self._drawn.clear()
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
        """A row: select it, twice: open it. A heading: sort by that column, again: reverse."""
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
        """Columns come and go with the room."""
        self.show(self._sections, self.view)
        self.post_message(self.Moved())
