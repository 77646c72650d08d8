"""Draws headings and rows of a table as strips of styled text."""

from __future__ import annotations

from functools import cache, partial

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from cockpit.text import clean
from cockpit.ui.block import ARROWS, GUTTER_CELLS, Block, fit_heading, fit_text, fold_cell, lay_out_cell, text_after, truncate_cell
from cockpit.ui.cells import level_mark
from cockpit.ui.styles import find_style
from cockpit.ui.view import View


class Drawing:
    """Draws with the styles of one widget."""

    def __init__(self, widget: Widget) -> None:
        self._style = cache(partial(find_style, widget))
        self._base = cache(lambda: widget.rich_style)
        """The widget's own style. Textual computes it again for each line, which takes as long as half a row."""

    def forget_styles(self) -> None:
        """Look styles up again: colours have changed."""
        self._style.cache_clear()
        self._base.cache_clear()

    def draw_blank(self, width: int) -> Strip:
        return Strip.blank(width, self._base())

    def draw_heading(self, block: Block, view: View, sort: tuple[str, bool], width: int) -> Strip:
        """Title, number of rows and columns. `sort`: the title of the sorted column, and whether it is reversed."""
        base = self._base() + self._style("header")
        title = clean(f"{block.section.title} {block.row_count}".strip())
        if not block.rows:
            sentence = block.section.sentence if not block.hidden else f"{block.hidden} hidden by the filter"
            lead = " " * GUTTER_CELLS + title + "  "
            words = fit_text(clean(sentence), max(0, width - cell_len(lead)))
            return Strip([Segment(lead, base + self._style("title")), Segment(words, base)]).adjust_cell_length(width, base)

        words = " " * GUTTER_CELLS
        more = f" ({block.more} more: {block.section.more_hint})" if block.more else ""
        for place, (column, cells) in enumerate(block.columns):
            is_down = column.right is not sort[1]
            mark = ARROWS[2 * view.ascii + (not is_down)] if column.title and column.title == sort[0] else ""
            title += mark if place == 0 else ""
            mark += more if place == len(block.columns) - 1 else ""
            words += fit_heading(column.title if place else "", mark if place else "", cells, right=column.right) + " "
        lead = " " * GUTTER_CELLS + title + " "
        segments = [Segment(lead, base + self._style("title")), Segment(text_after(words, cell_len(lead)), base)]
        return Strip(segments).adjust_cell_length(width, base)

    def draw_row(self, block: Block, index: int, line: int, view: View, width: int, *, on_cursor: bool, is_tagged: bool) -> Strip:
        """One line of a row; `line` is 0 for its first. Below that only folded cells have text."""
        row, height = block.rows[index], block.height_of(index)
        base = self._base()
        if on_cursor:
            base += self._style("cursor")
        elif block.section.is_old(row, view):
            base += self._style("stale")

        segments = [Segment(" " * GUTTER_CELLS, base)]
        if line == 0:
            level = view.index.findings.level(row)
            mark, tone = level_mark(level, ascii=view.ascii) if level else (" ", "")
            sign = "*" if is_tagged else (">" if view.ascii else "▸") if on_cursor else " "
            segments = [Segment(mark, base if on_cursor else base + self._style(tone)), Segment(sign, base)]
        for column, room in block.columns:
            cell = truncate_cell(column.cell(row, view))
            if height > 1:
                lines = fold_cell(cell, room, height) if column.fold > 1 else (cell,)
                cell = lines[line] if line < len(lines) else ""
            pieces = lay_out_cell(cell, room, column.right, column.cut)
            segments += [Segment(text, base if on_cursor or not name else base + self._style(name)) for text, name in pieces]
        return Strip(segments, GUTTER_CELLS + sum(room + 1 for _, room in block.columns)).adjust_cell_length(width, base)
