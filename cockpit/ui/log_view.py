"""Shows a log in a widget, which keeps the newest lines, draws the visible ones, and follows the end or stays at its place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from time import monotonic
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from cockpit.ui.log_lines import LogLines
from cockpit.ui.log_search import LogSearches
from cockpit.ui.log_strips import LineDrawing, find_matches, shift_to_see

REDRAW_INTERVAL_S: Final = 1 / 15
"""Seconds between two updates with new lines; faster changes can't be read."""
OPENING_S: Final = 3.0
"""Seconds from the first lines on in which the view goes to marked lines. It ignores marked lines that arrive later."""
TARGET_DIVISOR: Final = 3
"""A line that the view goes to is drawn this fraction of the screen below the top, with context above it."""
SHIFT_CELLS: Final = 16
"""Cells by which one key press moves the lines sideways."""
_Place = tuple[int, int]
"""Content of a screen line: the number of a log line, and the number of its part if it is wrapped."""


class LogView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows the newest lines of a log. While it follows, the end stays visible; else the same lines do, until they are cut."""

    ALLOW_SELECT = False  # a selection would not move with the lines
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--match", "log--current", "log--mark", "log--more"}
    DEFAULT_CSS = """
    LogView {
        height: 1fr;
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .log--match { color: $text-warning; text-style: bold reverse; }
        & > .log--current { color: $text-accent; text-style: bold reverse underline; }
        & > .log--mark { color: $text-error; background: $error-muted; text-style: bold; }
        & > .log--more { color: $text-accent; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home,g", "top", "Oldest", show=False),
        Binding("n", "next", "Next"),
        Binding("N", "previous", "Previous", show=False),
        Binding("w", "wrap", "Wrap"),
        Binding("f,F,G,end", "end", "Follow"),
        Binding("left", "shift(-1)", "Left", show=False),
        Binding("right", "shift(1)", "Right", show=False),
    ]

    class Changed(Message):
        """`status` may have changed."""

        def can_replace(self, message: Message) -> bool:
            """Only the newest message matters."""
            return isinstance(message, LogView.Changed)

    def __init__(self, *, ascii: bool = False, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.ascii = ascii
        self.lines = LogLines()
        self.follow = True
        self.left = 0
        self.wrap = False
        self._clock = clock
        self._searches = LogSearches(self.lines)
        self._style = cache(self._find_style)
        self._drawing = LineDrawing(self.lines, self._searches, self._style, ascii=ascii)
        self._rows: Sequence[int] = range(0)
        """The numbers of the lines that can be scrolled to."""
        self._anchor = 0
        """Number of the topmost line that the user scrolled to."""
        self._current: int | None = None
        """Number of the line with a match or a mark that the view went to last."""
        self._own_shift = 0
        """Cells by which only that line is moved sideways, so that its match is visible. All other lines are moved by `left`."""
        self._note = ""
        """Note on the last step from match to match."""
        self._opening_ends: float | None = None
        """Time until which the view goes to marked lines; infinite before the first lines, `None` if it no longer goes there."""
        self._is_moving = self._update_due = False
        self._layout: tuple[object, list[_Place]] = (None, [])
        self._drawn_places: list[_Place] | None = None
        self._strips: LRUCache[tuple[int, int | None, int, bool], list[Strip]] = LRUCache(1024)

    # Lines and searches

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends."""
        if lines:
            self.lines.extend(lines)
            if not self._update_due and self.is_mounted:
                self._update_due = True
                self.set_timer(REDRAW_INTERVAL_S, self._update)

    def clear(self) -> None:
        """Remove all lines and follow the end. Filter, search and marks stay."""
        self.lines.clear()
        self._searches.restart()
        self._anchor, self._current, self.follow = 0, None, True
        self._restart()

    def filter(self, text: str, *, invert: bool = False) -> None:
        """Show only lines that contain a text, ignoring case; inverted: lines without it. An empty text shows all lines."""
        self._searches.set_filter(text, invert=invert)
        self._restart()

    def search(self, text: str) -> None:
        """Highlight all matches of a text, ignoring case. An empty text highlights nothing."""
        self._searches.set_search(text)
        self._current = self._opening_ends = None
        self._restart()

    def mark(self, texts: Sequence[str]) -> None:
        """Mark each line that contains one of these texts. At the beginning, go to the last marked line."""
        self._searches.set_marks(texts)
        self._opening_ends = float("inf") if self._searches.marks else None
        self._restart()

    def _restart(self) -> None:
        self._note, self._own_shift = "", 0
        self._redraw()
        if self.is_mounted:
            self._update()

    def _redraw(self) -> None:
        self._strips.clear()
        self._drawn_places, self._layout = None, (None, [])

    # The visible part

    @property
    def status(self) -> str:
        """A text with the number of lines and matches, whether the view follows the end, and how many lines were cut."""
        current = self._current if self._current is not None and self._is_in_sight(self._current) else None
        parts = [self._searches.filter_in_words(), self._searches.stops_in_words(current, self._note)]
        parts.append("following" if self.follow else f"paused at line {max(self._anchor, self.lines.cut) + 1:,}")
        parts.append(f"shifted by {self.left}: Left moves back" if self.left else "")
        parts.append(self.lines.cut_in_words())
        return (" - " if self.ascii else " · ").join(filter(None, parts))

    @property
    def note(self) -> str:
        """A sentence if the line that should be marked is not among those that are kept; else empty."""
        return self._searches.missing_in_words()

    def _update(self) -> None:
        """Search the new lines and draw the changes."""
        self._update_due = False
        self._searches.update()
        self._rows = self._searches.rows
        self._open_at_mark()
        last = self._first_fitting(len(self._rows), self.size.height)
        self.virtual_size = Size(1, last + self.size.height)
        self._is_moving = True  # this scroll is not the user's wish
        self.scroll_to(y=last if self.follow else bisect_left(self._rows, self._anchor), animate=False, force=True)
        self._is_moving = False
        self.post_message(self.Changed())
        if self._places() != self._drawn_places:
            self._drawn_places = self._places()
            self.refresh()

    # From match to match

    def action_next(self) -> None:
        """Go to the next match; without a search, to the next marked line."""
        self._step(1)

    def action_previous(self) -> None:
        """Go to the previous match or marked line."""
        self._step(-1)

    def _step(self, by: int) -> None:
        """Go to the next match or marked line in this direction, from the last one to the first."""
        self._opening_ends, self._note = None, ""
        self._update()
        stops = self._searches.stops
        if not stops:
            self._note = "no match to go to: press / to search"
        elif stops.found:
            numbers = [number for number, _ in self._places()] or [self._anchor]
            at = self._current + by if self._current in numbers else numbers[0 if by > 0 else -1]
            target = stops.next(at) if by > 0 else stops.previous(at)
            if target is None:
                target = stops.found[0 if by > 0 else -1]
                self._note = ", from the top" if by > 0 else ", from the end"
            self._go_to(target)
        self._update()

    def _open_at_mark(self) -> None:
        """Go to the last marked line, until `OPENING_S` after the first lines."""
        if self._opening_ends is None or not len(self.lines):
            return
        now = self._clock()
        self._opening_ends = min(self._opening_ends, now + OPENING_S)
        if now >= self._opening_ends:
            self._opening_ends = None
        elif (last := self._searches.marks.previous(self.lines.end - 1)) is not None:
            self._go_to(last, is_opening=True)

    def _go_to(self, number: int, *, is_opening: bool = False) -> None:
        """Scroll to a line, with some lines above it, and stop following. A line in sight moves only when the log is opened."""
        row, top = bisect_left(self._rows, number), self.scroll_offset.y
        if is_opening:
            fitting = self._first_fitting(row + 1, max(1, self.size.height // TARGET_DIVISOR))
            top = min(fitting, self._first_fitting(len(self._rows), self.size.height))
        elif row < top or not self._is_in_sight(number):
            top = self._first_fitting(row + 1, max(1, self.size.height // TARGET_DIVISOR))
        self._anchor = self._rows[top]
        self.follow, self._current = False, number
        # Move only this line sideways if its match is beyond the edge: the other lines may be short, and would look empty there.
        self.left = self._own_shift = 0
        whole, pattern = self._drawing.draw_whole(number), self._searches.stops.pattern
        if not self.wrap and pattern and (found := find_matches(whole, pattern)):
            # A marked line is read from its begin: its whole text is the match.
            is_seen = self._searches.stops is self._searches.marks and found[0][0] < self._width // 2
            self._own_shift = 0 if is_seen else shift_to_see(*found[0], whole.cell_length, self._width)
        self._redraw()

    def _is_in_sight(self, number: int) -> bool:
        return any(shown == number for shown, _ in self._places())

    # Moving

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the user scrolls up, by key, wheel or scroll bar; follow again when they reach the end."""
        super().watch_scroll_y(old_value, new_value)
        row = round(new_value)
        if not self._is_moving and row < len(self._rows):
            self.follow = new_value >= self.max_scroll_y
            self._opening_ends = None
            self._anchor = self._rows[row]
            self.post_message(self.Changed())

    def action_move(self, by: int) -> None:
        """Scroll by a line."""
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, force=True)

    def action_page(self, by: int) -> None:
        """Scroll by the lines of the screen less one."""
        top, height = self.scroll_offset.y, self.size.height
        down = max(1, len({number for number, _ in self._places()}) - 1)
        up = max(1, top - self._first_fitting(top, height - 1))
        self.action_move(down if by > 0 else -up)

    def action_top(self) -> None:
        """Go to the oldest line that is kept."""
        self.scroll_to(y=0, animate=False, force=True)

    def action_end(self) -> None:
        """Go to the newest line and follow the end."""
        self.follow, self._opening_ends = True, None
        self._update()
        self.post_message(self.Changed())

    def action_shift(self, by: int) -> None:
        """Move sideways, up to the end of the longest visible line."""
        if self.wrap:
            return
        widest = max((self._drawing.draw_whole(number).cell_length for number, _ in self._places()), default=0)
        furthest = max(0, widest - self._width)
        left = (self._own_shift or self.left) + by * SHIFT_CELLS
        self.left, self._own_shift = max(0, min(left, -(-furthest // SHIFT_CELLS) * SHIFT_CELLS)), 0
        self.post_message(self.Changed())
        self.refresh()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them off at the edge of the screen."""
        self.wrap, self.left, self._own_shift = not self.wrap, 0, 0
        self._update()

    def on_mount(self) -> None:
        """Show the lines that arrived before the widget was mounted."""
        self._update()

    def on_resize(self) -> None:
        """Scroll to the end for the new height."""
        self._update()

    # Drawing

    @property
    def _width(self) -> int:
        """Cells for the text of a line, without the scroll bar, which `size` includes, and without the column of marks."""
        return max(1, self.scrollable_content_region.width - bool(self._searches.marks))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._style.cache_clear()
        self._strips.clear()

    def _find_style(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}", partial=True) if name else self.rich_style

    def render_line(self, y: int) -> Strip:
        shown = self._places()
        if y >= len(shown):
            return Strip.blank(self.scrollable_content_region.width, self._style(""))
        number, part = shown[y]
        return self._parts(number)[part]

    def _places(self) -> list[_Place]:
        """The content of each screen line."""
        now = (self.scroll_offset.y, self.follow, self.wrap, self._width, self.size.height, len(self._rows), self._rows[:1])
        if self._layout[0] != now:
            self._layout = now, self._lay_out()
        return self._layout[1]

    def _lay_out(self) -> list[_Place]:
        top, height = self.scroll_offset.y, self.size.height
        if not self.wrap:
            return [(number, 0) for number in self._rows[top : top + height]]
        if not self.follow:
            parts = ((number, part) for number in self._rows[top : top + height] for part in range(len(self._parts(number))))
            return list(islice(parts, height))
        found: list[_Place] = []
        for number in reversed(self._rows[-height:]):
            found[:0] = [(number, part) for part in range(len(self._parts(number)))]
            if len(found) >= height:
                break
        return found[-height:]

    def _first_fitting(self, end: int, room: int) -> int:
        """The first of the rows before `end` that fit together into `room` screen lines; at least one row."""
        if not self.wrap:
            return max(0, end - room)
        row = end
        while row > 0 and (room := room - len(self._parts(self._rows[row - 1]))) >= 0:
            row -= 1
        return max(0, min(row, end - 1))

    def _parts(self, number: int) -> list[Strip]:
        """Draw a line: one strip, or several if it is wrapped; a blank one if the line has been cut."""
        if not self.lines.cut <= number < self.lines.end:
            return [Strip.blank(self.scrollable_content_region.width, self._style(""))]
        left = None if self.wrap else self._own_shift if self._own_shift and number == self._current else self.left
        is_apart = left is not None and left != self.left
        key = (number, left, self._width, is_apart)
        if key not in self._strips:
            self._strips[key] = self._drawing.draw_parts(number, left, self._width, is_current=number == self._current, is_apart=is_apart)
        return self._strips[key]
