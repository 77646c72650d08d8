"""Which lines of a log have a text: found block by block, so that a million lines hold up no key."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cockpit.ui.log_colours import strip_controls, strip_sequences
from cockpit.ui.log_lines import LogLines

MAX_QUOTED_CHARS: Final = 20
"""Characters of a text that is looked for that are repeated in words."""


class LineSearch:
    """The numbers of the lines that have one of some texts, in any case; inverted, of those that have none. Without texts it finds nothing.

    `within`: only among the lines that this other search finds.
    """

    def __init__(self, texts: Iterable[str] = (), *, invert: bool = False, within: LineSearch | None = None) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text))
        self.invert, self._within = invert, within or None
        self._folded = tuple(text.casefold() for text in self.texts)
        self.pattern = re.compile(f"(?:{'|'.join(map(re.escape, self.texts))})+", re.IGNORECASE) if self.texts and not invert else None
        """What it finds in a drawn line; an inverted search finds nothing there."""
        self.found = array("Q")
        self.seen = 0
        """The number of the first line that it hasn't looked at."""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def look(self, lines: LogLines, is_over: Callable[[], bool]) -> bool:
        """Go on until all lines are looked at, or time is over; whether all are."""
        del self.found[: bisect_left(self.found, lines.dropped)]
        self.seen = max(self.seen, lines.dropped)
        while self.texts and self.seen < lines.end:
            self._look_at(lines.text(self.seen))
            if is_over():
                break
        return not self.texts or self.seen >= lines.end

    def _look_at(self, text: str) -> None:
        count = text.count("\n") + 1
        if self._may_have(text):
            self.found.extend(number for number, line in enumerate(text.split("\n"), self.seen) if self.has(line))
        elif self.invert:
            self.found.extend(range(self.seen, self.seen + count))
        self.seen += count

    def _may_have(self, text: str) -> bool:
        """Whether one of the lines may have it: most often none has, and one look at all of them says so."""
        flat = strip_controls(text)
        return "\x1b" in flat or self._is_in(flat.casefold())

    def has(self, line: str) -> bool:
        folded = strip_sequences(line).casefold()
        return self._finds(folded) and (self._within is None or self._within._finds(folded))

    def _finds(self, folded: str) -> bool:
        return self._is_in(folded) is not self.invert

    def _is_in(self, folded: str) -> bool:
        return self._folded[0] in folded if len(self._folded) == 1 else any(text in folded for text in self._folded)

    def position(self, number: int) -> int | None:
        """The line's place among those found, from 1."""
        place = bisect_left(self.found, number)
        return place + 1 if self.found[place : place + 1] == array("Q", [number]) else None

    def next(self, number: int) -> int | None:
        """The first line found from this one on."""
        place = bisect_left(self.found, max(0, number))
        return self.found[place] if place < len(self.found) else None

    def previous(self, number: int) -> int | None:
        """The last line found up to this one; `None` too while that isn't looked at."""
        place = bisect_right(self.found, number) if number >= 0 else 0
        return self.found[place - 1] if place and self.seen > number else None


class LogSearches:
    """What is looked for in one log: only the lines of the filter can be scrolled to, and search and marks look among them alone."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.filter, self.search, self.marks = LineSearch(), LineSearch(), LineSearch()

    def set_filter(self, text: str, *, invert: bool) -> None:
        """Another filter; search and marks begin anew."""
        self.filter = LineSearch([text], invert=invert)
        self.begin_anew()

    def set_search(self, text: str) -> None:
        """Another text to highlight."""
        self.search = LineSearch([text], within=self.filter)

    def set_marks(self, texts: Iterable[str]) -> None:
        """Other texts whose lines are marked; of a text of several lines each counts."""
        self.marks = LineSearch((line.strip() for text in texts for line in text.splitlines()), within=self.filter)

    def begin_anew(self) -> None:
        """The same, in a log that begins anew."""
        self.filter = LineSearch(self.filter.texts, invert=self.filter.invert)
        self.search = LineSearch(self.search.texts, within=self.filter)
        self.marks = LineSearch(self.marks.texts, within=self.filter)

    def look(self, is_over: Callable[[], bool]) -> bool:
        """Go on until all lines are looked at, or time is over; whether all are."""
        return all(search.look(self._lines, is_over) for search in (self.filter, self.search, self.marks))

    @property
    def rows(self) -> Sequence[int]:
        """The numbers of the lines that can be scrolled to."""
        return self.filter.found if self.filter else range(self._lines.dropped, self._lines.end)

    @property
    def stops(self) -> LineSearch:
        """What one goes through from line to line."""
        return self.search or self.marks

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """What is highlighted."""
        return self.search.pattern or self.filter.pattern

    def filter_in_words(self) -> str:
        """`2 of 4 lines with "error"`."""
        lines = _line_count(len(self._lines))
        if not self.filter:
            return lines
        text = f"{'without' if self.filter.invert else 'with'} {_quote(self.filter.texts[0])}"
        return f"{len(self.filter.found):,} of {lines} {text}{self._remaining_words(self.filter)}"

    def stops_in_words(self, current: int | None, note: str) -> str:
        """`match 3 of 41`, `marked line 2 of 3`; the note is about the way there."""
        if not self.stops:
            return note
        count, left = len(self.stops.found), self._remaining_words(self.stops)
        one, many = ("match", "matches") if self.search else ("marked line", "marked lines")
        if current is not None and (place := self.stops.position(current)) is not None:
            return f"{one} {place:,} of {count:,}{note}{left}"
        if count or left:
            return f"{count:,} {one if count == 1 else many}{left}"
        if self.search:
            return f"no match of {_quote(self.search.texts[0])}"
        return "the finding's lines are not among those read" if self._lines.end else ""

    def _remaining_words(self, search: LineSearch) -> str:
        left = self._lines.end - max(search.seen, self._lines.dropped)
        return f", {_line_count(left)} to search" if left > 0 else ""


def _line_count(lines: int) -> str:
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"


def _quote(text: str) -> str:
    return f'"{text}"' if len(text) <= MAX_QUOTED_CHARS else f'"{text[:MAX_QUOTED_CHARS]}..."'
