"""Lays sections out in lines, and cuts or pads cells to their columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from cockpit.text import UNKNOWN, clean
from cockpit.ui.folding import fold_text
from cockpit.ui.section import Cell, Column, Cut, Section, fit_columns
from cockpit.ui.view import View

GUTTER_CELLS: Final = 2
"""A cell for the mark of a finding, and one for the signs of cursor and tag, as a monochrome screen shows no colour."""
GAP_FROM_LINES: Final = 28
"""From this number of lines on, a blank line separates the sections."""
MIN_PANE_LINES: Final = 6
"""With fewer lines the pane below the table shows nothing that the row does not show."""
MEASURED_ROWS: Final = 100
"""The first rows of a section decide how wide its columns grow and how names are cut: measuring thousands takes longer than drawing."""
MAX_LENT_LINES: Final = 12
"""Lines that the pane gets at most: enough for the facts of most things."""


class Block(msgspec.Struct, frozen=True):
    """A section on the screen: its heading on line `top`, its rows below. `first`: its first row, counted over all sections."""

    section: Section[Any]
    rows: Sequence[Any]
    columns: tuple[tuple[Column[Any], int], ...]
    top: int
    first: int
    hidden: int
    starts: Sequence[int]
    """The first line of each row, counted from the line below the heading; and the line after the last row."""
    more: int = 0
    """The number of rows for which there is no room."""

    @property
    def end(self) -> int:
        """The line after its last line."""
        return self.top + 1 + self.starts[-1]

    @property
    def row_count(self) -> str:
        """The number of rows; `3/8` if only some of them are listed."""
        if self.section.fixed:
            return ""
        if self.section.rows is None:
            return UNKNOWN
        total = self.section.total or len(self.section.rows)
        return f"{len(self.rows)}/{total}" if self.hidden or len(self.rows) < total else str(total)

    def line_of(self, index: int) -> int:
        """The first line of a row."""
        return self.top + 1 + self.starts[index]

    def height_of(self, index: int) -> int:
        """The number of lines of a row."""
        return self.starts[index + 1] - self.starts[index]

    def row_at(self, line: int) -> int:
        """The row on this line of the table."""
        return bisect_right(self.starts, line - self.top - 1) - 1


def sort_rows(section: Section[Any], rows: Sequence[Any], title: str, view: View, *, reverse: bool) -> Sequence[Any]:
    """Sort the rows by the column with this title; unknown values go last."""
    column = next((column for column in section.columns if column.title == title and column.sort), None)
    if column is None or column.sort is None:
        return rows
    keyed = [(column.sort(row, view), row) for row in rows]
    known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=column.right is not reverse)
    return [row for _, row in known] + [row for value, row in keyed if value is None]


def lay_out(
    listed: Sequence[tuple[Section[Any], Sequence[Any], int]], width: int, height: int, view: View, *, lends: bool = False
) -> Iterator[Block]:
    """Lay sections out one below the other; `listed` has each section with its rows and the number of hidden rows.

    Blank lines go first to rows beyond `min_rows`, then to cut cells, from the top on. With `lends` some of them stay for the pane.
    """
    gap = 1 if height >= GAP_FROM_LINES else 0
    counts = [len(rows) if section.min_rows is None else min(len(rows), section.min_rows) for section, rows, _ in listed]
    blank = height + gap - sum(1 + count + gap for count in counts)
    room = width - (blank < 0) - GUTTER_CELLS + 1  # the blank after the last column may be cut
    for number, (_, rows, _) in enumerate(listed):
        more = max(0, min(blank, len(rows) - counts[number]))
        counts[number] += more
        blank -= more
    blank -= lent_lines(blank) if lends else 0
    top = first = 0
    for (section, rows, hidden), count in zip(listed, counts, strict=True):
        measured = rows[:MEASURED_ROWS]
        fitted = fit_columns(section.columns, room, partial(_longest_cell, measured, view))
        columns = tuple((_choose_cut(column, cells, measured, view), cells) for column, cells in fitted)
        starts = _row_starts(rows[:count], columns, blank, view)
        kept = rows if count == len(rows) else rows[len(rows) - count :] if section.newest_last else rows[:count]
        yield Block(section, kept, columns, top, first, hidden, starts, len(rows) - count)
        blank -= starts[-1] - count
        top += 1 + starts[-1] + gap
        first += count


def _longest_cell(rows: Sequence[Any], view: View, column: Column[Any]) -> int:
    return max((cell_width(column.cell(row, view)) for row in rows), default=0)


def _choose_cut(column: Column[Any], width: int, rows: Sequence[Any], view: View) -> Column[Any]:
    """The column with the cut at which most of its names still differ."""
    if not column.name:
        return column
    cells = {column.cell(row, view) for row in rows}
    if all(cell_width(cell) <= width for cell in cells):
        return column
    return replace(column, cut=max(CUTS, key=lambda cut: len({lay_out_cell(cell, width, column.right, cut) for cell in cells})))


def lent_lines(blank: int) -> int:
    """The number of blank lines that the pane gets; cut cells get the others."""
    return 0 if blank < MIN_PANE_LINES else min(MAX_LENT_LINES, max(MIN_PANE_LINES, blank // 2))


def _row_starts(rows: Sequence[Any], columns: Iterable[tuple[Column[Any], int]], blank: int, view: View) -> Sequence[int]:
    """The first line of each row, and the line after the last. Cut cells take the `blank` lines, from the top on."""
    folding = [(column, width) for column, width in columns if column.fold > 1]
    if blank <= 0 or not folding:
        return range(len(rows) + 1)
    starts = [0]
    for row in rows:
        wanted = max(len(fold_cell(column.cell(row, view), width, column.fold)) for column, width in folding)
        height = min(wanted, 1 + blank)
        blank -= height - 1
        starts.append(starts[-1] + height)
    return starts


@lru_cache(1024)
def fold_cell(cell: Cell, width: int, max_lines: int) -> tuple[Cell, ...]:
    """The cell in up to `max_lines` lines; a cell with several tones stays on one line."""
    cell = truncate_cell(cell)
    if isinstance(cell, str):
        return tuple(fold_text(clean(cell), width, max_lines=max_lines))
    if len(cell) != 1:
        return (cell,)
    [(text, tone)] = cell
    return tuple(((line, tone),) for line in fold_text(clean(text), width, max_lines=max_lines))


ARROWS = "▾▴v^"
"""Signs of the sorted column: the greatest first, the least first; then both in ASCII."""


def text_after(words: str, length: int) -> str:
    """The text from position `length` on. The rest of a word that is cut there is blanked, but the arrow of a heading stays."""
    rest = words[length:]
    cut = rest.split(" ", 1)[0] if words[length - 1 : length].strip() else ""
    return (cut[-1:] if cut[-1:] in ARROWS else "").rjust(len(cut)) + rest[len(cut) :]


MAX_CELL_CHARS = 2_000
"""Longer cells are cut: measuring a name of a million characters takes a second."""


def truncate_cell(cell: Cell) -> Cell:
    """The cell, cut to `MAX_CELL_CHARS`."""
    if isinstance(cell, str):
        return cell if len(cell) <= MAX_CELL_CHARS else cell[:MAX_CELL_CHARS] + "…"
    return cell if sum(len(text) for text, _ in cell) <= MAX_CELL_CHARS else tuple((text[:MAX_CELL_CHARS], name) for text, name in cell)


def text_width(text: str) -> int:
    """The cells of a clean text. Rich does not measure ASCII, as its cache would fill up with ages."""
    return len(text) if text.isascii() else cell_len(text)


def cell_width(cell: Cell) -> int:
    """The cells of a whole table cell."""
    cell = truncate_cell(cell)
    return text_width(clean(cell)) if isinstance(cell, str) else sum(text_width(clean(text)) for text, _ in cell)


def fit_text(text: str, width: int, *, right: bool = False, cut: Cut = "end") -> str:
    """The text in exactly `width` cells; an ellipsis stands where a part of it is missing."""
    length = text_width(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    if width <= 0:
        return ""

    # The cells of the text's end that stay.
    kept = width - 1 if cut == "front" else 0
    if cut == "middle":
        # The word after the last hyphen, as in a pod's name; half of the text if there is no short one, as in `node-17.cluster.example`.
        word = text[text.rfind("-") :] if "-" in text else ""
        is_short = 0 < text_width(word) <= MAX_TAIL_CELLS and " " not in word
        kept = max(0, min(text_width(word) if is_short else (width - 1) // 2, width - 2))
    begin = len(text)
    while begin > 0 and text_width(text[begin - 1 :]) <= kept:
        begin -= 1
    pad = " " * (kept - text_width(text[begin:]))  # where a wide character does not fit
    return f"{set_cell_size(text, width - 1 - kept)}…{pad}{text[begin:]}"


CUTS: Final[tuple[Cut, ...]] = ("middle", "end", "front")
"""The parts of a name that may be cut, in the order in which they are tried."""
MAX_TAIL_CELLS = 8
"""The end of a name that stays when its middle is cut: the hyphen and the five letters of a pod, or some digits."""


def fit_heading(title: str, arrow: str, width: int, *, right: bool) -> str:
    """A column's title with its arrow in exactly `width` cells; if there is no room for both, the title is cut."""
    return fit_text(fit_text(title, min(text_width(title), width - len(arrow))) + arrow, width, right=right)


@lru_cache(1024)
def lay_out_cell(cell: Cell, width: int, right: bool, cut: Cut = "end") -> tuple[tuple[str, str], ...]:
    """The pieces of a cell with the names of their styles, in exactly `width` cells and one blank. Most cells have been laid out before."""
    if isinstance(cell, str):
        return ((fit_text(clean(cell), width, right=right, cut=cut) + " ", ""),)
    pieces, left = [], width
    for raw, name in cell:
        text = clean(raw)
        length = text_width(text)
        pieces.append((text if length <= left else fit_text(text, left, cut=cut), str(name)))
        left -= min(length, left)
    pad = (" " * (left + (0 if right else 1)), "")
    return (pad, *pieces, (" ", "")) if right else (*pieces, pad)
