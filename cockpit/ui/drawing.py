"""How headings and rows of a table look: strips of styled text, kept as long as they stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from cockpit.text import clean
from cockpit.ui.block import ARROWS, GUTTER_CELLS, Block, fit_heading, fit_text, fold_cell, lay_out_cell, text_after, truncate_cell
from cockpit.ui.cells import level_mark
from cockpit.ui.section import Cell, Column
from cockpit.ui.tones import find_style
from cockpit.ui.view import View

MAX_DRAWN_ROWS: Final = 500
"""Drawn rows that are kept: several screens of them."""


class Drawing:
    """Draws with the styles of one widget."""

    def __init__(self, widget: Widget) -> None:
        self._style = cache(partial(find_style, widget))
        self._base = cache(lambda: widget.rich_style)
        """What all is drawn on. To work it out from what lies below takes as long as half a row; Textual forgets it with each line."""
        self._drawn_rows: dict[tuple[str, str], tuple[tuple[Any, ...], tuple[Strip, ...]]] = {}
        """The rows drawn last, with what they were drawn from: most look the same in the next snapshot. Headings have no key of a row."""

    def forget_styles(self) -> None:
        """Colours have changed."""
        self._style.cache_clear()
        self._base.cache_clear()
        self._drawn_rows.clear()

    def forget_rows(self) -> None:
        """Others come."""
        self._drawn_rows.clear()

    def draw_blank(self, width: int) -> Strip:
        return Strip.blank(width, self._base())

    def draw_heading(self, block: Block, view: View, sort: tuple[str, bool], width: int) -> Strip:
        """Title, number of rows, columns; `sort`: the title of the sorted column, and whether in reverse."""
        section, key = block.section, (block.section.key, "")
        columns = [(column.title, cells) for column, cells in block.columns]
        of = (section.title, section.sentence, section.more, block.row_count, block.hidden, block.more, columns, sort, width)
        known = self._drawn_rows.get(key)
        if known is None or known[0] != of:
            known = (of, (self._draw_heading(block, view, sort, width),))
            self._remember(key, known)
        return known[1][0]

    def _draw_heading(self, block: Block, view: View, sort: tuple[str, bool], width: int) -> Strip:
        base = self._base() + self._style("header")
        title = clean(f"{block.section.title} {block.row_count}".strip())
        if not block.rows:
            sentence = block.section.sentence if not block.hidden else f"{block.hidden} hidden by the filter"
            lead = " " * GUTTER_CELLS + title + "  "
            words = fit_text(clean(sentence), max(0, width - cell_len(lead)))
            return Strip([Segment(lead, base + self._style("title")), Segment(words, base)]).adjust_cell_length(width, base)
        words = " " * GUTTER_CELLS
        more = f" ({block.more} more: {block.section.more})" if block.more else ""
        for place, (column, cells) in enumerate(block.columns):
            mark = _arrow(column, view, reverse=sort[1]) if column.title and column.title == sort[0] else ""
            title += mark if place == 0 else ""
            mark += more if place == len(block.columns) - 1 else ""
            words += fit_heading(column.title if place else "", mark if place else "", cells, right=column.right) + " "
        lead = " " * GUTTER_CELLS + title + " "
        segments = [Segment(lead, base + self._style("title")), Segment(text_after(words, cell_len(lead)), base)]
        return Strip(segments).adjust_cell_length(width, base)

    def draw_row(self, block: Block, index: int, view: View, width: int, *, on_cursor: bool, is_tagged: bool) -> tuple[Strip, ...]:
        row = block.rows[index]
        dim = not on_cursor and block.section.dim(row, view)
        cells = [truncate_cell(column.cell(row, view)) for column, _ in block.columns]
        looks = (on_cursor, dim, is_tagged, view.index.findings.level(row))
        of = (cells, [(column.cut, cells) for column, cells in block.columns], block.height_of(index), looks, width)
        known = self._drawn_rows.get((block.section.key, row.key))
        if known is None or known[0] != of:
            base = self._base() + self._style("cursor" if on_cursor else "stale") if on_cursor or dim else self._base()
            sign = "*" if is_tagged else (">" if view.ascii else "▸") if on_cursor else " "
            lead = [self._finding_mark(row, view, base, plain=on_cursor), Segment(sign, base)]
            known = (of, tuple(self._draw_lines(block, cells, block.height_of(index), lead, base, width, plain=on_cursor)))
            self._remember((block.section.key, row.key), known)
        return known[1]

    def _draw_lines(
        self, block: Block, cells: Sequence[Cell], height: int, lead: list[Segment], base: Style, width: int, *, plain: bool
    ) -> Iterator[Strip]:
        """Only what folds has something to say below the first line."""
        if height == 1:
            yield self._draw_line(block, cells, lead, base, width, plain=plain)
            return
        folded = [
            fold_cell(cell, room, height) if column.fold > 1 else (cell,) for (column, room), cell in zip(block.columns, cells, strict=True)
        ]
        for number in range(height):
            parts = [lines[number] if number < len(lines) else "" for lines in folded]
            yield self._draw_line(block, parts, [Segment(" " * GUTTER_CELLS, base)] if number else lead, base, width, plain=plain)

    def _draw_line(self, block: Block, cells: Sequence[Cell], segments: list[Segment], base: Style, width: int, *, plain: bool) -> Strip:
        for (column, room), cell in zip(block.columns, cells, strict=True):
            pieces = lay_out_cell(cell, room, column.right, column.cut)
            segments += [Segment(text, base if plain or not name else base + self._style(name)) for text, name in pieces]
        return Strip(segments, GUTTER_CELLS + sum(room + 1 for _, room in block.columns)).adjust_cell_length(width, base)

    def _finding_mark(self, row: Any, view: View, base: Style, *, plain: bool) -> Segment:
        """How bad the worst is that has been found about the row."""
        level = view.index.findings.level(row)
        mark, tone = level_mark(level, ascii=view.ascii) if level else (" ", "")
        return Segment(mark, base if plain else base + self._style(tone))

    def _remember(self, key: tuple[str, str], drawn: tuple[tuple[Any, ...], tuple[Strip, ...]]) -> None:
        if len(self._drawn_rows) >= MAX_DRAWN_ROWS:
            self._drawn_rows.clear()
        self._drawn_rows[key] = drawn


def _arrow(column: Column[Any], view: View, *, reverse: bool) -> str:
    down = column.right is not reverse
    return ARROWS[2 * view.ascii + (not down)]
