"""Draws the time line: a stretch of a recording, its events and gaps, and the moment on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cockpit.model import LEVELS
from cockpit.times.moments import format_time
from cockpit.ui import cells
from cockpit.ui.marks import Piece, Tone
from cockpit.ui.styles import draw_pieces

if TYPE_CHECKING:
    from cockpit.recording.events import Event

SPANS_S: Final = (900.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)
"""Seconds that the line can cover: from a quarter of an hour to a week."""
MARKS: Final[Mapping[tuple[str, str], tuple[str, str, Tone]]] = {
    ("finding", "end"): ("◇", "~", "dim"),
    ("fault", "begin"): ("✖", "x", "bad"),
    ("fault", "end"): ("◇", "~", "dim"),
    ("act", "begin"): ("»", ">", "accent"),
    ("act", "end"): ("»", ">", "accent"),
    ("job", "begin"): ("●", "o", "ok"),
    ("job", "end"): ("○", "c", "dim"),
}
"""Sign, ASCII sign and tone, by kind and phase of an event. The begin of a finding has the sign of its level."""
OTHER_MARK: Final = ("•", "*", "dim")
TONES: Final[Mapping[str | None, Tone]] = {"critical": "bad", "warning": "warn", "info": "accent"}
RECORDED, GAP, OUTSIDE, HERE = ("─", "-"), ("·", "."), (" ", " "), ("┃", "|")


class Stretch(msgspec.Struct, frozen=True):
    """The data of the line: a stretch of time and its events."""

    begin: float
    end: float
    recorded: tuple[float, float]
    """Begin and end of the recording."""
    gaps: Sequence[tuple[float, float]] = ()
    events: Sequence[Event] = ()


def stretch_around(moment: float, span: float) -> tuple[float, float]:
    """`span` seconds around a moment. They stay the same while the moment is in their middle half, so that the line does not slide."""
    begin = moment // (span / 2) * (span / 2) - span / 4
    return begin, begin + span


def draw_line(shown: Stretch, moment: float, now: float, width: int, *, ascii: bool) -> tuple[list[Piece], int, int]:
    """The pieces of the line, the first cell of the track between its labels, and the number of its cells."""
    begin, end = (f" {format_time(edge, now, seconds=False)} " for edge in (shown.begin, shown.end))
    count = max(1, width - len(begin) - len(end))
    marks: dict[int, Piece] = {}
    for event in sorted(shown.events, key=_severity):  # so that the worst event in a cell is drawn last
        if shown.begin <= event.at < shown.end:
            marks[cell_of(shown, event.at, count)] = event_mark(event, ascii=ascii)
    line = [marks.get(cell) or (_track(shown, cell, count)[ascii], "faint") for cell in range(count)]
    if 0 <= (here := cell_of(shown, moment, count)) < count:
        line[here] = (line[here][0] if here in marks else HERE[ascii], "cursor")
    return [(begin, "dim"), *line, (end, "dim")], len(begin), count


def cell_of(shown: Stretch, moment: float, count: int) -> int:
    """The cell of a moment, on a track of `count` cells."""
    return int((moment - shown.begin) / (shown.end - shown.begin) * count // 1)


def moment_of(shown: Stretch, cell: int, count: int) -> float:
    """The moment of a click on a cell: its last event, else its middle."""
    happened = [event.at for event in shown.events if cell_of(shown, event.at, count) == cell]
    return max(happened) if happened else shown.begin + (cell + 0.5) / count * (shown.end - shown.begin)


def _severity(event: Event) -> int:
    """Sort key: events that are over come first, the worst come last."""
    return -len(LEVELS) - 1 if _is_over(event) else -len(LEVELS) if event.level is None else -LEVELS.index(event.level)


def event_mark(event: Event, *, ascii: bool) -> Piece:
    """The sign of an event, which shows its kind and level."""
    if event.kind == "finding" and event.phase != "end" and event.level is not None:
        return cells.level_mark(event.level, ascii=ascii)
    sign, plain, tone = MARKS.get((event.kind, event.phase), OTHER_MARK)
    return (plain if ascii else sign, tone if tone == "dim" and event.kind != "job" else TONES.get(event.level, tone))


def event_text(event: Event) -> str:
    """The event as a sentence."""
    if event.phase == "worse":
        return f"now {event.level}: {event.text}"
    return f"cleared: {event.text}" if _is_over(event) else event.text


def _is_over(event: Event) -> bool:
    return event.phase == "end" and event.kind in ("finding", "fault")


def _track(shown: Stretch, cell: int, count: int) -> tuple[str, str]:
    """The signs of a cell without an event: recorded, gap, or outside the recording."""
    each = (shown.end - shown.begin) / count
    begin = shown.begin + cell * each
    if begin + each <= shown.recorded[0] or begin > shown.recorded[1]:
        return OUTSIDE
    return GAP if any(since <= begin + each / 2 < until for since, until in shown.gaps) else RECORDED


class TimeLine(Widget):
    """The line above the footer while the past is shown. A click goes to that moment."""

    DEFAULT_CSS = "TimeLine { height: 1; display: none; background: $panel; color: $foreground; }"

    @dataclass
    class Clicked(Message):
        """The user has clicked on another moment."""

        moment: float

    def __init__(self) -> None:
        super().__init__()
        self._shown = Stretch(0.0, 1.0, (0.0, 0.0))
        self._moment = self._now = 0.0
        self._ascii = False

    def show(self, shown: Stretch, moment: float, now: float, *, ascii: bool) -> None:
        """Show a stretch and a moment in it."""
        self._shown, self._moment, self._now, self._ascii = shown, moment, now, ascii
        self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 there is one
        pieces, _, _ = draw_line(self._shown, self._moment, self._now, self.size.width, ascii=self._ascii)
        return draw_pieces(self, pieces)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        _, first, count = draw_line(self._shown, self._moment, self._now, self.size.width, ascii=self._ascii)
        if first <= event.x < first + count:
            self.post_message(self.Clicked(moment_of(self._shown, event.x - first, count)))
