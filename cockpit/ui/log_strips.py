"""Draws a line of a log as strips: with signs at the edges and highlighted matches, cropped or wrapped."""

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
"""Highlighted matches in one line. More are not readable, and each takes time."""
MAX_KEY_LINES: Final = 128
"""Most lines of a private key: an RSA key of 8,192 bits has 101."""


class LineDrawing:
    """Draws lines of a log by their number."""

    def __init__(self, lines: LogLines, searches: LogSearches, style: Callable[[str], Style], *, ascii: bool) -> None:
        """`style` returns the style of `match`, `current`, `mark`, `more`, and of plain text for the empty name."""
        self._lines, self._searches, self._style, self._ascii = lines, searches, style, ascii

    def draw_parts(self, number: int, left: int | None, width: int, *, is_current: bool, is_apart: bool = False) -> list[Strip]:
        """Draw a line `width` cells wide, after the column of marks: as one strip moved left by `left` cells; without `left`, wrapped.

        `is_apart`: only this line is moved left, which a sign at its beginning shows.
        """
        base, whole = self._base(number), self.draw_whole(number, is_current=is_current)
        more = Segment(">" if self._ascii else "›", base + self._style("more"))
        if left is None:
            chunks = chop_cells(whole.text, max(2, width)) or [""]
            parts = [part.crop_extend(0, width, base) for part in whole.divide(list(accumulate(map(cell_len, chunks))))]
        elif whole.cell_length <= left + width:
            parts = [whole.crop_extend(left, left + width, base)]
        else:
            parts = [Strip.join([whole.crop(left, left + width - 1), Strip([more], 1)])]
        if is_apart:
            parts = [Strip.join([Strip([Segment("<" if self._ascii else "‹", more.style)], 1), part.crop(1)]) for part in parts]
        if not self._searches.marks:
            return parts
        sign = Strip([Segment((">" if self._ascii else "▌") if self._is_marked(number) else " ", base)], 1)
        return [Strip.join([sign, part]) for part in parts]

    def draw_whole(self, number: int, *, is_current: bool = False) -> Strip:
        """Draw the whole line with highlighted matches and without secrets."""
        # A private key goes over several lines: let the redactor read the lines before this one.
        before = self._lines.slice(number - MAX_KEY_LINES, number)
        redactor = LineRedactor()
        for line in before if any("-----BEGIN" in line for line in before) else before[-1:]:
            redactor.skip(strip_sequences(line))
        base, pattern = self._base(number), self._searches.pattern
        pieces = split_line(self._lines[number], cut="..." if self._ascii else "…", hide=redactor)
        strip = Strip([Segment(text, base + style) for text, style in pieces])
        if pattern is None:
            return strip
        style = self._style("current" if is_current else "match")
        edges = [edge for match in find_matches(strip, pattern) for edge in match]
        parts = strip.divide([*edges, strip.cell_length])  # every second part is a match
        return Strip.join(
            Strip([Segment(text, (own or Style.null()) + style) for text, own, _ in part]) if place % 2 else part
            for place, part in enumerate(parts)
        )

    def _is_marked(self, number: int) -> bool:
        return bool(self._searches.marks) and self._searches.marks.has(self._lines.searched(number))

    def _base(self, number: int) -> Style:
        return self._style("") + self._style("mark") if self._is_marked(number) else self._style("")


def find_matches(strip: Strip, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """The matches of a pattern: the first cell of each, and the cell after its last."""
    text, found, at, cell = strip.text, [], 0, 0
    for match in islice(pattern.finditer(text), MAX_HIGHLIGHTS):
        begin = cell + cell_len(text[at : match.start()])
        at, cell = match.end(), begin + cell_len(match[0])
        found.append((begin, cell))
    return found


def shift_to_see(begin: int, end: int, length: int, width: int) -> int:
    """Cells by which a line must be moved left so that its cells from `begin` to `end` are visible with some context.

    0 if they are visible without moving; else a third of the width is left for the text before them.
    """
    if end < width or length <= width:  # not `<=`: the last cell has the sign that the line continues
        return 0
    return max(1, min(begin - width // 3, length - width, begin - 1))
