"""Layout of a section on the screen: its lines, and cells cut or padded to their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rich.cells import cell_len, set_cell_size

from cockpit.text import clean
from cockpit.ui.section import Cell, Column, Section


@dataclass(frozen=True)
class Block:
    """A section as it lies on the screen: its heading on line `top`, its rows below; `first` counts rows over all sections."""

    section: Section[Any]
    rows: Sequence[Any]
    columns: tuple[tuple[Column[Any], int], ...]
    top: int
    first: int
    hidden: int


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


def fit_text(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns; an ellipsis says that some of it is missing."""
    length = text_width(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


def fit_heading(title: str, arrow: str, width: int, *, right: bool) -> str:
    """A column's title with its arrow in exactly so many columns: where there is no room for both, the title is cut."""
    return fit_text(fit_text(title, min(text_width(title), width - len(arrow))) + arrow, width, right=right)


@lru_cache(1024)
def lay_out_cell(cell: Cell, width: int, right: bool) -> tuple[tuple[str, str], ...]:
    """A cell's words with the names of their styles, in exactly so many columns and one more; most cells have been seen before."""
    if isinstance(cell, str):
        return ((fit_text(clean(cell), width, right=right) + " ", ""),)
    pieces, left = [], width
    for raw, name in cell:
        text = clean(raw)
        length = text_width(text)
        pieces.append((text if length <= left else fit_text(text, left), str(name)))
        left -= min(length, left)
    pad = (" " * (left + (0 if right else 1)), "")
    return (pad, *pieces, (" ", "")) if right else (*pieces, pad)
