"""Layout of a section on the screen: its lines, and cells cut or padded to their columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, chop_cells, set_cell_size

from cockpit.text import UNKNOWN, clean
from cockpit.ui.section import Cell, Column, Cut, Section, fit_columns
from cockpit.ui.view import View

GUTTER_CELLS: Final = 2
"""A column for the mark of a finding, and one for those of cursor and tag: a colour alone says nothing on a monochrome screen."""
GAP_FROM_LINES: Final = 28
"""Lines from which on a blank one parts the sections."""

MIN_PANE_LINES: Final = 6
"""With fewer the pane below the table says nothing that the row doesn't say."""
MEASURED_ROWS: Final = 100
"""Rows of a section that decide how wide its columns grow, and how their names are cut: to measure thousands takes longer than to draw."""
MAX_LENT_LINES: Final = 12
"""Enough for the facts of most things."""


class Block(msgspec.Struct, frozen=True):
    """A section as it lies on the screen: its heading on line `top`, its rows below; `first` counts rows over all sections."""

    section: Section[Any]
    rows: Sequence[Any]
    columns: tuple[tuple[Column[Any], int], ...]
    top: int
    first: int
    hidden: int
    starts: Sequence[int]
    """For each row its first line, counted from the first below the heading; and the line after the last row."""
    more: int = 0
    """Rows that are not listed for want of room."""

    @property
    def end(self) -> int:
        """The line after its last."""
        return self.top + 1 + self.starts[-1]

    @property
    def row_count(self) -> str:
        """How many rows are listed, and of how many."""
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
        return self.starts[index + 1] - self.starts[index]

    def row_at(self, line: int) -> int:
        return bisect_right(self.starts, line - self.top - 1) - 1


def sort_rows(section: Section[Any], rows: Sequence[Any], title: str, view: View, *, reverse: bool) -> Sequence[Any]:
    """By the column of this title; what is unknown goes last."""
    column = next((column for column in section.columns if column.title == title and column.sort), None)
    if column is None or column.sort is None:
        return rows
    keyed = [(column.sort(row, view), row) for row in rows]
    known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=column.right is not reverse)
    return [row for _, row in known] + [row for value, row in keyed if value is None]


def lay_out(
    listed: Sequence[tuple[Section[Any], Sequence[Any], int]], width: int, height: int, view: View, *, lends: bool = False
) -> Iterator[Block]:
    """Sections, each with its rows and the number of those hidden, one below the other.

    Lines that would stay blank go first to rows beyond `least`, then to cells that are cut, from the top on; with `lends` not all of them.
    """
    gap = 1 if height >= GAP_FROM_LINES else 0
    counts = [len(rows) if section.least is None else min(len(rows), section.least) for section, rows, _ in listed]
    blank = height + gap - sum(1 + count + gap for count in counts)
    room = width - (blank < 0) - GUTTER_CELLS + 1  # the blank after the last column may be cut
    for number, (_, rows, _) in enumerate(listed):
        more = max(0, min(blank, len(rows) - counts[number]))
        counts[number] += more
        blank -= more
    blank -= lent_lines(blank) if lends else 0
    top = first = 0
    for (section, rows, hidden), count in zip(listed, counts, strict=True):
        longest = partial(_longest_cell, rows[:MEASURED_ROWS], view)
        columns = tuple(
            (_choose_cut(column, cells, rows[:MEASURED_ROWS], view), cells) for column, cells in fit_columns(section.columns, room, longest)
        )
        starts = _starts(rows, count, columns, blank, view)
        kept = rows if count == len(rows) else rows[len(rows) - count :] if section.newest_last else rows[:count]
        yield Block(section, kept, columns, top, first, hidden, starts, len(rows) - count)
        blank -= starts[-1] - count
        top += 1 + starts[-1] + gap
        first += count


def _longest_cell(rows: Sequence[Any], view: View, column: Column[Any]) -> int:
    return max((cell_width(column.cell(row, view)) for row in rows), default=0)


def _choose_cut(column: Column[Any], width: int, rows: Sequence[Any], view: View) -> Column[Any]:
    """The column, its names cut where most of them stay different."""
    if not column.name:
        return column
    cells = {column.cell(row, view) for row in rows}
    if all(cell_width(cell) <= width for cell in cells):
        return column
    return replace(column, cut=max(CUTS, key=lambda cut: len({lay_out_cell(cell, width, column.right, cut) for cell in cells})))


def lent_lines(blank: int) -> int:
    """Of so many blank lines those that go to the pane before cells that are cut get the others."""
    return 0 if blank < MIN_PANE_LINES else min(MAX_LENT_LINES, max(MIN_PANE_LINES, blank // 2))


def _starts(rows: Sequence[Any], count: int, columns: Iterable[tuple[Column[Any], int]], blank: int, view: View) -> Sequence[int]:
    folding = [(column, width) for column, width in columns if column.fold > 1]
    if blank <= 0 or not folding:
        return range(count + 1)
    starts = [0]
    for row in rows[:count]:
        wanted = max(len(fold_cell(column.cell(row, view), width, column.fold)) for column, width in folding)
        height = min(wanted, 1 + blank)
        blank -= height - 1
        starts.append(starts[-1] + height)
    return starts


def fold_cell(cell: Cell, width: int, most: int) -> tuple[Cell, ...]:
    """The cell in lines, `most` of them at most; one of several tones stays on one line."""
    cell = truncate_cell(cell)
    if isinstance(cell, str):
        return fold_text(cell, width, most)
    return tuple(((text, cell[0][1]),) for text in fold_text(cell[0][0], width, most)) if len(cell) == 1 else (cell,)


@lru_cache(1024)
def fold_text(text: str, width: int, most: int) -> tuple[str, ...]:
    """The text in lines of so many columns, between words where that is possible; what is beyond the last of `most` stays on it."""
    lines: list[str] = []
    rest = clean(text)
    while len(lines) < most - 1 and text_width(rest) > max(2, width):
        line = chop_cells(rest[: 4 * width], max(2, width))[0]
        if rest[len(line)] != " " and " " in line.strip():
            line = line[: line.rindex(" ")]
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return (*lines, rest)


ARROWS = "▾▴v^"
"""At a heading: sorted by it, the greatest first or the least; then the same in ASCII."""


def text_after(words: str, length: int) -> str:
    """The text from position `length` on; the rest of a word cut there is blanked, but for the arrow of a heading."""
    rest = words[length:]
    cut = rest.split(" ", 1)[0] if words[length - 1 : length].strip() else ""
    return (cut[-1:] if cut[-1:] in ARROWS else "").rjust(len(cut)) + rest[len(cut) :]


MAX_CELL_CHARS = 2_000
"""Characters of a cell that are drawn at most: to measure a name of a million takes a second."""


def truncate_cell(cell: Cell) -> Cell:
    """The cell, cut to `MAX_CELL_CHARS`."""
    if isinstance(cell, str):
        return cell if len(cell) <= MAX_CELL_CHARS else cell[:MAX_CELL_CHARS] + "…"
    return cell if sum(len(text) for text, _ in cell) <= MAX_CELL_CHARS else tuple((text[:MAX_CELL_CHARS], name) for text, name in cell)


def text_width(text: str) -> int:
    """Columns that a clean text takes. ASCII is not measured by Rich, whose cache would fill up with ages."""
    return len(text) if text.isascii() else cell_len(text)


def cell_width(cell: Cell) -> int:
    """Columns that a cell takes, all of it."""
    cell = truncate_cell(cell)
    return text_width(clean(cell)) if isinstance(cell, str) else sum(text_width(clean(text)) for text, _ in cell)


def fit_text(text: str, width: int, *, right: bool = False, cut: Cut = "end") -> str:
    """The text in exactly so many columns; an ellipsis says that some of it is missing, and stands where it is."""
    length = text_width(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    if width <= 0:
        return ""
    end = {"end": 0, "middle": min(_tail_width(text) or (width - 1) // 2, width - 2), "front": width - 1}[cut]
    return f"{set_cell_size(text, width - 1 - max(0, end))}…{_last_cells(text, max(0, end))}"


CUTS: Final[tuple[Cut, ...]] = ("middle", "end", "front")
"""Where a name may be cut, in the order in which that is tried."""
MAX_TAIL_CELLS = 8
"""Of a name's end that is kept where its middle is cut: the hyphen, and the five letters of a pod or some digits."""


def _tail_width(text: str) -> int:
    """Of what stands after the last hyphen, with it; 0 where that is no short word, as in `node-17.cluster.example`."""
    end = text[text.rfind("-") :] if "-" in text else ""
    return text_width(end) if text_width(end) <= MAX_TAIL_CELLS and " " not in end else 0


def _last_cells(text: str, width: int) -> str:
    """Exactly so many columns of the text's end."""
    begin = len(text)
    while begin > 0 and text_width(text[begin - 1 :]) <= width:
        begin -= 1
    return " " * (width - text_width(text[begin:])) + text[begin:]


def fit_heading(title: str, arrow: str, width: int, *, right: bool) -> str:
    """A column's title with its arrow in exactly so many columns: where there is no room for both, the title is cut."""
    return fit_text(fit_text(title, min(text_width(title), width - len(arrow))) + arrow, width, right=right)


@lru_cache(1024)
def lay_out_cell(cell: Cell, width: int, right: bool, cut: Cut = "end") -> tuple[tuple[str, str], ...]:
    """A cell's words with the names of their styles, in exactly so many columns and one more; most cells have been seen before."""
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
