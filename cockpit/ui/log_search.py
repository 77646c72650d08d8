"""Finds the lines of a log that contain a text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.secrets import HIDDEN
from cockpit.ui.log_lines import LogLines

MAX_QUOTED_CHARS: Final = 20
"""Characters of a searched text that the status repeats."""
_LEFT_OUT: Final = re.compile(f"{HIDDEN}|\N{REPLACEMENT CHARACTER}|…$")
"""Signs in a quote that stand for something else in its line."""


class LineSearch:
    """Finds the numbers of the lines that contain one of some texts, ignoring case; inverted: lines that contain none.

    Without texts it finds nothing.
    """

    def __init__(self, texts: Iterable[str] = (), *, invert: bool = False) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text))
        self.invert = invert
        self._folded = tuple(text.casefold() for text in self.texts)
        self.pattern = re.compile(f"(?:{'|'.join(map(re.escape, self.texts))})+", re.IGNORECASE) if self.texts and not invert else None
        """Matches in a drawn line; `None` for an inverted search."""
        self.found: list[int] = []
        self.seen = 0
        """Number of the first line that has not been searched yet."""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def update(self, lines: LogLines, among: Sequence[int]) -> None:
        """Search the new lines `among` these numbers, and drop found lines that were cut."""
        del self.found[: bisect_left(self.found, lines.cut)]
        if self.texts:
            new = among[bisect_left(among, self.seen) :]
            self.found += [number for number in new if self.has(lines.searched(number))]
        self.seen = lines.end

    def has(self, searched: str) -> bool:
        """Whether the search finds a line; `searched`: the line from `LogLines.searched`."""
        return any(text in searched for text in self._folded) is not self.invert

    def position(self, number: int) -> int | None:
        """Position of a line among the found lines, from 1."""
        place = bisect_left(self.found, number)
        return place + 1 if self.found[place : place + 1] == [number] else None

    def next(self, number: int) -> int | None:
        """The first found line from this number on."""
        place = bisect_left(self.found, number)
        return self.found[place] if place < len(self.found) else None

    def previous(self, number: int) -> int | None:
        """The last found line up to this number."""
        place = bisect_right(self.found, number)
        return self.found[place - 1] if place else None


class QuoteSearch(LineSearch):
    """Finds the lines that a failure quotes: its text has single spaces, no secrets, and may be cut at its end."""

    def __init__(self, quotes: Iterable[str] = ()) -> None:
        self._given = tuple(quotes)
        # What was hidden, replaced or cut separates the parts of a quote that its line must contain, one after the other.
        parts = [[part.strip() for part in re.split(_LEFT_OUT, " ".join(quote.split()))] for quote in self._given]
        self._quotes = [[part.casefold() for part in quote if part] for quote in parts]
        super().__init__(max(quote, key=len) for quote in parts)
        self._words = [max(max(quote, key=len).split(), key=len) if quote else "" for quote in self._quotes]
        """Of each quote a word, which is looked for first, since that is quick."""

    def has(self, searched: str) -> bool:
        return any(
            bool(word) and word in searched and _contains(" ".join(searched.split()), quote)
            for word, quote in zip(self._words, self._quotes, strict=True)
        )

    def restarted(self) -> QuoteSearch:
        """The same search, from the first line again."""
        return QuoteSearch(self._given)


def _contains(line: str, parts: Sequence[str]) -> bool:
    at = 0
    for part in parts:
        found = line.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


class LogSearches:
    """Filter, search and marks of one log. Search and marks only search the lines that pass the filter."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.filter, self.search, self.marks = LineSearch(), LineSearch(), QuoteSearch()

    def set_filter(self, text: str, *, invert: bool) -> None:
        """Replace the filter, and restart search and marks."""
        self.filter = LineSearch([text], invert=invert)
        self.restart()

    def set_search(self, text: str) -> None:
        """Replace the text to highlight."""
        self.search = LineSearch([text])

    def set_marks(self, texts: Iterable[str]) -> None:
        """Replace the quoted texts whose lines are marked. Each line of a text is searched by itself."""
        self.marks = QuoteSearch(line for text in texts for line in text.splitlines())

    def restart(self) -> None:
        """Forget all found lines, and search from the first line again."""
        self.filter = LineSearch(self.filter.texts, invert=self.filter.invert)
        self.search, self.marks = LineSearch(self.search.texts), self.marks.restarted()

    def update(self) -> None:
        """Search the new lines."""
        self.filter.update(self._lines, range(self._lines.cut, self._lines.end))
        self.search.update(self._lines, self.rows)
        self.marks.update(self._lines, self.rows)

    @property
    def rows(self) -> Sequence[int]:
        """Numbers of the lines that pass the filter."""
        return self.filter.found if self.filter else range(self._lines.cut, self._lines.end)

    @property
    def stops(self) -> LineSearch:
        """The search whose lines `n` and `N` go to."""
        return self.search or self.marks

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """The pattern to highlight."""
        return self.search.pattern or self.filter.pattern

    def filter_in_words(self) -> str:
        """`2 of 4 lines with "error"`."""
        count = len(self._lines)
        lines = f"{count:,} {'line' if count == 1 else 'lines'}"
        if not self.filter:
            return lines
        return f"{len(self.filter.found):,} of {lines} {'without' if self.filter.invert else 'with'} {_quote(self.filter.texts[0])}"

    def stops_in_words(self, current: int | None, note: str) -> str:
        """`match 3 of 41`, `marked line 2 of 3`. `note` is about the last step, such as `, from the top`."""
        if not self.stops:
            return note
        count = len(self.stops.found)
        one, many = ("match", "matches") if self.search else ("marked line", "marked lines")
        if current is not None and (place := self.stops.position(current)) is not None:
            return f"{one} {place:,} of {count:,}{note}"
        if count:
            return f"{count:,} {one if count == 1 else many}"
        return f"no match of {_quote(self.search.texts[0])}" if self.search else ""

    def missing_in_words(self) -> str:
        """That no line is marked, though one should be; empty: one is, or none should be, or no line was read yet."""
        if not self.marks or self.marks.found or not self.marks.seen:
            return ""
        return f"The line of the error is not among the {len(self._lines):,} lines here{' that pass the filter' if self.filter else ''}"


def _quote(text: str) -> str:
    return f'"{text}"' if len(text) <= MAX_QUOTED_CHARS else f'"{text[:MAX_QUOTED_CHARS]}..."'
