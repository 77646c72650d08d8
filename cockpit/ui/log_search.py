"""Which lines of a log have a text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.ui.log_lines import LogLines

MAX_QUOTED_CHARS: Final = 20
"""Characters of a text that is looked for that are repeated in words."""


class LineSearch:
    """The numbers of the lines that have one of some texts, in any case; inverted, of those that have none.

    Without texts it finds nothing.
    """

    def __init__(self, texts: Iterable[str] = (), *, invert: bool = False) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text))
        self.invert = invert
        self._folded = tuple(text.casefold() for text in self.texts)
        self.pattern = re.compile(f"(?:{'|'.join(map(re.escape, self.texts))})+", re.IGNORECASE) if self.texts and not invert else None
        """What it finds in a drawn line; an inverted search finds nothing there."""
        self.found: list[int] = []
        self.seen = 0
        """The number of the first line that it hasn't looked at."""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def look(self, lines: LogLines, among: Sequence[int]) -> None:
        """Look at those of the lines `among` these numbers that are new, and forget those that were cut."""
        del self.found[: bisect_left(self.found, lines.cut)]
        if self.texts:
            new = among[bisect_left(among, self.seen) :]
            self.found += [number for number in new if self.has(lines.searched(number))]
        self.seen = lines.end

    def has(self, searched: str) -> bool:
        """Whether it finds a line, given as it is searched."""
        return any(text in searched for text in self._folded) is not self.invert

    def position(self, number: int) -> int | None:
        """The line's place among those found, from 1."""
        place = bisect_left(self.found, number)
        return place + 1 if self.found[place : place + 1] == [number] else None

    def next(self, number: int) -> int | None:
        """The first line found from this one on."""
        place = bisect_left(self.found, number)
        return self.found[place] if place < len(self.found) else None

    def previous(self, number: int) -> int | None:
        """The last line found up to this one."""
        place = bisect_right(self.found, number)
        return self.found[place - 1] if place else None


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
        self.search = LineSearch([text])

    def set_marks(self, texts: Iterable[str]) -> None:
        """Other texts whose lines are marked; of a text of several lines each counts."""
        self.marks = LineSearch(line.strip() for text in texts for line in text.splitlines())

    def begin_anew(self) -> None:
        """The same, in a log that begins anew."""
        self.filter = LineSearch(self.filter.texts, invert=self.filter.invert)
        self.search, self.marks = LineSearch(self.search.texts), LineSearch(self.marks.texts)

    def look(self) -> None:
        """Look at the lines that are new."""
        self.filter.look(self._lines, range(self._lines.cut, self._lines.end))
        self.search.look(self._lines, self.rows)
        self.marks.look(self._lines, self.rows)

    @property
    def rows(self) -> Sequence[int]:
        """The numbers of the lines that can be scrolled to."""
        return self.filter.found if self.filter else range(self._lines.cut, self._lines.end)

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
        count = len(self._lines)
        lines = f"{count:,} {'line' if count == 1 else 'lines'}"
        if not self.filter:
            return lines
        return f"{len(self.filter.found):,} of {lines} {'without' if self.filter.invert else 'with'} {_quote(self.filter.texts[0])}"

    def stops_in_words(self, current: int | None, note: str) -> str:
        """`match 3 of 41`, `marked line 2 of 3`; the note is about the way there."""
        if not self.stops:
            return note
        count = len(self.stops.found)
        one, many = ("match", "matches") if self.search else ("marked line", "marked lines")
        if current is not None and (place := self.stops.position(current)) is not None:
            return f"{one} {place:,} of {count:,}{note}"
        if count:
            return f"{count:,} {one if count == 1 else many}"
        if self.search:
            return f"no match of {_quote(self.search.texts[0])}"
        return "the finding's lines are not among those read" if self.marks.seen else ""


def _quote(text: str) -> str:
    return f'"{text}"' if len(text) <= MAX_QUOTED_CHARS else f'"{text[:MAX_QUOTED_CHARS]}..."'
