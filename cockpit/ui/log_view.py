"""A view of a log that never ends: it keeps the newest lines, draws only those on the screen, and stays where its reader is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from sys import getsizeof
from time import monotonic
from typing import ClassVar, Final

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from cockpit.secrets import LineRedactor
from cockpit.ui.log_colours import LONGEST, SLACK, last_written, pieces, visible

REDRAW_INTERVAL_S: Final = 1 / 15
"""Seconds between two looks at what has arrived: more often nobody can read."""
FILTER_SLICE_S: Final = 0.005
"""Seconds that the filter may take before keys have their turn."""
SHIFT_CELLS: Final = 16
"""Cells moved to the side by one key."""
MAX_KEY_LINES: Final = 128
"""Lines that a private key may have: one of RSA with 8,192 bits has 101."""


_Place = tuple[int, int]
"""What a line of the screen shows: the number of a line, and which part of it when it is wrapped."""


class LogView(ScrollView, can_focus=True, inherit_bindings=False):
    """The newest lines of a log. While it follows, the end stays in sight; else the same lines do, as long as they are kept.

    Lines are numbered from 0 since the last `clear`, and keep their number when older ones are dropped.
    """

    ALLOW_SELECT = False  # what is selected would be lines that have moved on
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--match", "log--more"}
    DEFAULT_CSS = """
    LogView {
        height: 1fr;
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .log--match { color: $text-warning; text-style: bold reverse; }
        & > .log--more { color: $text-accent; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "top", "Oldest", show=False),
        Binding("end,G", "end", "Follow", show=False),
        Binding("left", "shift(-1)", "Left", show=False),
        Binding("right", "shift(1)", "Right", show=False),
        Binding("w", "wrap", "Wrap lines", show=False),
    ]

    class Changed(Message):
        """`status` may say something else now."""

        def can_replace(self, message: Message) -> bool:
            """Only the newest matters."""
            return isinstance(message, LogView.Changed)

    def __init__(
        self,
        *,
        max_lines: int = 200_000,
        max_bytes: int = 64 << 20,
        ascii: bool = False,  # noqa: A002
        clock: Callable[[], float] = monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.max_lines, self.max_bytes, self.ascii = max_lines, max_bytes, ascii
        self.follow = True
        self.dropped = 0
        """How many of the oldest lines are no longer kept; also the number of the oldest that is."""
        self.left = 0
        self.wrap = False
        self._clock = clock
        self._lines: list[str] = []
        self._bytes = 0
        self._needle, self._inverted = "", False
        self._pattern: re.Pattern[str] | None = None
        self._matches: list[int] = []
        self._filtered_to = 0
        """The number of the first line that the filter has not seen."""
        self._rows: Sequence[int] = range(0)
        """The numbers of the lines that can be scrolled to."""
        self._anchor = 0
        """The number of the topmost line its reader scrolled to."""
        self._moving = self._update_due = False
        self._layout: tuple[object, list[_Place]] = (None, [])
        self._drawn_places: list[_Place] | None = None
        self._styles: dict[str, Style] = {}
        self._strips: LRUCache[tuple[int, int, int], list[Strip]] = LRUCache(1024)

    # What is kept

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends. Nothing is done for a line before it is drawn."""
        if not lines:
            return
        sizes = list(map(getsizeof, lines))
        if max(sizes) > LONGEST:
            lines = [line if len(line) <= LONGEST else last_written(line)[: LONGEST + SLACK] for line in lines]
            sizes = list(map(getsizeof, lines))
        self._lines += lines
        self._bytes += sum(sizes)
        self._drop()
        self._schedule_update(REDRAW_INTERVAL_S)

    def clear(self) -> None:
        """Begin anew, with the same filter, following."""
        self._lines.clear()
        self._bytes = self.dropped = self._anchor = 0
        self.follow = True
        self._begin_anew()

    def filter(self, text: str, *, invert: bool = False) -> None:
        """Show only lines in which the text is found, in any case; inverted: those without it. No text: all of them."""
        self._needle, self._inverted = text.casefold(), invert
        self._pattern = re.compile(re.escape(text), re.IGNORECASE) if text and not invert else None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._matches.clear()
        self._filtered_to = self.dropped
        self._strips.clear()
        self._drawn_places, self._layout = None, (None, [])
        if self.is_mounted:
            self._catch_up()

    def _drop(self) -> None:
        count = max(0, len(self._lines) - self.max_lines)
        freed = sum(map(getsizeof, islice(self._lines, count)))
        while self._bytes - freed > self.max_bytes and count < len(self._lines):
            freed += getsizeof(self._lines[count])
            count += 1
        if count:
            del self._lines[:count]
            self.dropped += count
            self._bytes -= freed

    # What is shown of it

    @property
    def status(self) -> str:
        """In words: how much there is, whether it follows, what is left out."""
        kept = len(self._lines)
        parts = [f"{len(self._matches):,} of {_line_count(kept)}" if self._needle else _line_count(kept)]
        if self._needle and (todo := self.dropped + kept - self._filtered_to) > 0:
            parts.append(f"filtering, {_line_count(todo)} left")
        parts.append("following" if self.follow else f"paused at line {max(self._anchor, self.dropped) + 1:,}")
        if self.dropped:
            parts.append(f"{self.dropped:,} older lines dropped")
        return (" - " if self.ascii else " · ").join(parts)

    def _schedule_update(self, delay: float) -> None:
        if not self._update_due and self.is_mounted:
            self._update_due = True
            self.set_timer(delay, self._catch_up)

    def _catch_up(self) -> None:
        """Show what has arrived since the last time."""
        self._update_due = False
        if not self._filter_slice():
            self._schedule_update(FILTER_SLICE_S)
        del self._matches[: bisect_left(self._matches, self.dropped)]
        self._rows = self._matches if self._needle else range(self.dropped, self.dropped + len(self._lines))
        last = self._first_fitting(len(self._rows), self.size.height)
        self.virtual_size = Size(1, last + self.size.height)
        self._move_to(last if self.follow else bisect_left(self._rows, self._anchor))
        self.post_message(self.Changed())
        if self._places() != self._drawn_places:
            self._drawn_places = self._places()
            self.refresh()

    def _filter_slice(self) -> bool:
        """Filter for one slice of time; whether all is done."""
        if not self._needle:
            return True
        end, until = self.dropped + len(self._lines), self._clock() + FILTER_SLICE_S
        self._filtered_to = max(self._filtered_to, self.dropped)
        while self._filtered_to < end:
            begin = self._filtered_to - self.dropped
            chunk = self._lines[begin : begin + 256]
            self._matches += [
                n for n, line in enumerate(chunk, self._filtered_to) if (self._needle in visible(line).casefold()) is not self._inverted
            ]
            self._filtered_to += len(chunk)
            if self._clock() >= until:
                break
        return self._filtered_to >= end

    # Moving

    def _move_to(self, row: float) -> None:
        """Scroll without taking it for the reader's wish."""
        self._moving = True
        self.scroll_to(y=row, animate=False, force=True)
        self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling up stops following, scrolling down to the end starts it again, whether by key, wheel or bar."""
        super().watch_scroll_y(old_value, new_value)
        row = round(new_value)
        if not self._moving and row < len(self._rows):
            self.follow = new_value >= self.max_scroll_y
            self._anchor = self._rows[row]
            self.post_message(self.Changed())

    def action_move(self, by: int) -> None:
        """Scroll by so many lines."""
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, force=True)

    def action_page(self, by: int) -> None:
        """Scroll by a screen, of which one line stays in sight."""
        top, height = self.scroll_offset.y, self.size.height
        down = max(1, len({number for number, _ in self._places()}) - 1)
        up = max(1, top - self._first_fitting(top, height - 1))
        self.action_move(down if by > 0 else -up)

    def action_top(self) -> None:
        """Go to the oldest line that is kept."""
        self.scroll_to(y=0, animate=False, force=True)

    def action_end(self) -> None:
        """Go to the newest line and stay with it."""
        self.follow = True
        self._catch_up()
        self.post_message(self.Changed())

    def action_shift(self, by: int) -> None:
        """Move sideways, as far as a line in sight reaches; a wrapped line is in sight whole."""
        if self.wrap:
            return
        widest = max((self._full_line(number).cell_length for number, _ in self._places()), default=0)
        furthest = max(0, widest - self._width)
        self.left = max(0, min(self.left + by * SHIFT_CELLS, -(-furthest // SHIFT_CELLS) * SHIFT_CELLS))
        self.refresh()

    def action_wrap(self) -> None:
        """Show long lines on several lines of the screen, or cut off at its side."""
        self.wrap, self.left = not self.wrap, 0
        self._catch_up()

    def on_mount(self) -> None:
        """Show what came before there was a screen."""
        self._catch_up()

    def on_resize(self, event: events.Resize) -> None:
        """Another height has another end."""
        del event
        self._catch_up()

    # Drawing

    @property
    def _width(self) -> int:
        """Cells beside the scroll bar; `size` counts the bar in."""
        return self.scrollable_content_region.width

    def notify_style_update(self) -> None:
        """Colours have changed."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self.get_component_rich_style(f"log--{name}", partial=True) if name else self.rich_style
        return self._styles[name]

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        places = self._places()
        if y >= len(places):
            return Strip.blank(self._width, self._style(""))
        number, part = places[y]
        return self._parts(number)[part]

    def _places(self) -> list[_Place]:
        """What each line of the screen shows."""
        now = (self.scroll_offset.y, self.follow, self.wrap, self._width, self.size.height, len(self._rows), self._rows[:1])
        if self._layout[0] != now:
            self._layout = now, self._lay_out()
        return self._layout[1]

    def _lay_out(self) -> list[_Place]:
        top, height = self.scroll_offset.y, self.size.height
        if not self.wrap:
            return [(number, 0) for number in self._rows[top : top + height]]
        if not self.follow:
            return list(
                islice(((number, part) for number in self._rows[top : top + height] for part in range(len(self._parts(number)))), height)
            )
        places: list[_Place] = []
        for number in reversed(self._rows[-height:]):
            places[:0] = [(number, part) for part in range(len(self._parts(number)))]
            if len(places) >= height:
                break
        return places[-height:]

    def _first_fitting(self, end: int, room: int) -> int:
        """The first of the rows before `end` that fit together into so many lines of the screen; at least one does."""
        if not self.wrap:
            return max(0, end - room)
        row = end
        while row > 0 and (room := room - len(self._parts(self._rows[row - 1]))) >= 0:
            row -= 1
        return max(0, min(row, end - 1))

    def _parts(self, number: int) -> list[Strip]:
        """A line as it is drawn: one strip, or several when it is wrapped; blank when it has been dropped in the meantime."""
        if not self.dropped <= number < self.dropped + len(self._lines):
            return [Strip.blank(self._width, self._style(""))]
        key = (number, -1 if self.wrap else self.left, self._width)
        if (parts := self._strips.get(key)) is None:
            whole = self._full_line(number)
            self._strips[key] = parts = self._wrap_line(whole) if self.wrap else [self._crop_line(whole)]
        return parts

    def _crop_line(self, strip: Strip) -> Strip:
        """What is seen of a line, and a sign that there is more of it."""
        right = self.left + self._width
        if strip.cell_length <= right:
            return strip.crop_extend(self.left, right, self._style(""))
        more = Strip([Segment(">" if self.ascii else "›", self._style("") + self._style("more"))], 1)
        return Strip.join([strip.crop(self.left, right - 1), more])

    def _wrap_line(self, strip: Strip) -> list[Strip]:
        chunks = chop_cells(strip.text, max(2, self._width)) or [""]
        parts = strip.divide(list(accumulate(map(cell_len, chunks))))
        return [part.crop_extend(0, self._width, self._style("")) for part in parts]

    def _full_line(self, number: int) -> Strip:
        base = self._style("")
        place = number - self.dropped
        found = pieces(self._lines[place], cut="..." if self.ascii else "…", hide=self._redactor(place))
        strip = Strip([Segment(text, base + style) for text, style in found])
        return self._highlight(strip) if self._pattern else strip

    def _redactor(self, place: int) -> LineRedactor:
        """It knows what the lines before that place lead up to."""
        before = self._lines[max(0, place - MAX_KEY_LINES) : place]
        redactor = LineRedactor()
        for line in before if any("-----BEGIN" in line for line in before) else before[-1:]:
            redactor.skip(visible(line))
        return redactor

    def _highlight(self, strip: Strip) -> Strip:
        text, cuts = strip.text, [0]
        for match in islice(self._pattern.finditer(text), 100) if self._pattern else ():
            cuts += [cell_len(text[: match.start()]), cell_len(text[: match.end()])]
        match_style = self._style("match")
        parts = strip.divide([*cuts[1:], strip.cell_length])
        return Strip.join(
            Strip([Segment(text, (style or Style.null()) + match_style) for text, style, _ in part]) if place % 2 else part
            for place, part in enumerate(parts)
        )


def _line_count(lines: int) -> str:
    """`1 line`, `12,345 lines`."""
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"
