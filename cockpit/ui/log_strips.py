"""A line of a log as strips: the signs at its edges, what is found in it, cut off at the side or wrapped."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate, islice
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from cockpit.secrets import LineRedactor
from cockpit.ui.log_colours import split_line, strip_sequences
from cockpit.ui.log_lines import LogLines
from cockpit.ui.log_search import LogSearches

MAX_HIGHLIGHTS: Final = 100
"""Places in one line that are highlighted: more can't be told apart, and each costs."""

MAX_KEY_LINES: Final = 128
"""Lines that a private key may have: one of RSA with 8,192 bits has 101."""


class LineDrawing:
    """Draws lines of a log by their number."""

    def __init__(self, lines: LogLines, searches: LogSearches, style: Callable[[str], Style], *, ascii: bool) -> None:
        """`style`: of `match`, `current`, `mark`, `more`, and of plain text, which has no name."""
        self._lines, self._searches, self._style, self._ascii = lines, searches, style, ascii

    def parts(self, number: int, left: int | None, width: int, *, is_current: bool, is_apart: bool = False) -> list[Strip]:
        """One strip, moved to the side by so many cells; without `left` as many as the line needs, wrapped. Signs stand before `width`.

        `is_apart`: the other lines are not moved so far, so that a sign says that this one begins further left.
        """
        base, whole = self._base(number), self.whole(number, is_current=is_current)
        more = Segment(">" if self._ascii else "›", base + self._style("more"))
        parts = _wrap(whole, width, base) if left is None else [_crop(whole, left, width, base, more)]
        if is_apart:
            parts = [Strip.join([Strip([Segment("<" if self._ascii else "‹", more.style)], 1), part.crop(1)]) for part in parts]
        if not self._searches.marks:
            return parts
        sign = Strip([Segment((">" if self._ascii else "▌") if self._is_marked(number) else " ", base)], 1)
        return [Strip.join([sign, part]) for part in parts]

    def whole(self, number: int, *, is_current: bool = False) -> Strip:
        """All of a line, what is found in it highlighted."""
        base, pattern = self._base(number), self._searches.pattern
        found = split_line(self._lines[number], cut="..." if self._ascii else "…", hide=self._redactor(number))
        strip = Strip([Segment(text, base + style) for text, style in found])
        return _highlight(strip, pattern, self._style("current" if is_current else "match")) if pattern else strip

    def _is_marked(self, number: int) -> bool:
        return bool(self._searches.marks) and self._searches.marks.has(self._lines.searched(number))

    def _base(self, number: int) -> Style:
        return self._style("") + self._style("mark") if self._is_marked(number) else self._style("")

    def _redactor(self, number: int) -> LineRedactor:
        """It knows what the lines before that one lead up to."""
        before = self._lines.slice(number - MAX_KEY_LINES, number)
        redactor = LineRedactor()
        for line in before if any("-----BEGIN" in line for line in before) else before[-1:]:
            redactor.skip(strip_sequences(line))
        return redactor


def find_places(strip: Strip, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where the pattern is found: the first cell of each place, and the one after its last."""
    text, found, at, cell = strip.text, [], 0, 0
    for match in islice(pattern.finditer(text), MAX_HIGHLIGHTS):
        begin = cell + cell_len(text[at : match.start()])
        at, cell = match.end(), begin + cell_len(match[0])
        found.append((begin, cell))
    return found


def shift_to_see(begin: int, end: int, length: int, width: int) -> int:
    """By how many cells a line of this length has to be moved to the side so that these cells are seen, with what stands around them.

    0 where they are seen beside the line's beginning; else a third of the width is left for what stands before them.
    """
    if end < width or length <= width:  # the last cell has the sign that the line goes on
        return 0
    return max(1, min(begin - width // 3, length - width, begin - 1))


def _highlight(strip: Strip, pattern: re.Pattern[str], style: Style) -> Strip:
    """The strip with the style wherever the pattern is found."""
    cuts = [cell for place in find_places(strip, pattern) for cell in place]
    parts = strip.divide([*cuts, strip.cell_length])
    return Strip.join(
        Strip([Segment(text, (own or Style.null()) + style) for text, own, _ in part]) if place % 2 else part
        for place, part in enumerate(parts)
    )


def _crop(strip: Strip, left: int, width: int, base: Style, more: Segment) -> Strip:
    """What is seen of a line that is moved to the side; `more` is the sign that it goes on."""
    if strip.cell_length <= left + width:
        return strip.crop_extend(left, left + width, base)
    return Strip.join([strip.crop(left, left + width - 1), Strip([more], 1)])


def _wrap(strip: Strip, width: int, base: Style) -> list[Strip]:
    """All of a line, on as many lines of the screen as it needs."""
    chunks = chop_cells(strip.text, max(2, width)) or [""]
    return [part.crop_extend(0, width, base) for part in strip.divide(list(accumulate(map(cell_len, chunks))))]
