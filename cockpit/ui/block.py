"""Where a section lies on the screen, and words cut to the room that they have there."""

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


def after(words: str, length: int) -> str:
    """What follows, without the rest of a word that was cut."""
    rest = words[length:]
    cut = rest.split(" ", 1)[0] if words[length - 1 : length].strip() else ""
    return " " * len(cut) + rest[len(cut) :]


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns; an ellipsis says that some of it is missing."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


@lru_cache(8192)
def laid(cell: Cell, width: int, right: bool) -> tuple[tuple[str, str], ...]:
    """A cell's words with the names of their styles, in exactly so many columns and one more; most cells have been seen before."""
    if isinstance(cell, str):
        return ((fit(clean(cell), width, right=right) + " ", ""),)
    pieces, left = [], width
    for raw, name in cell:
        text = clean(raw)
        length = cell_len(text)
        pieces.append((text if length <= left else fit(text, left), str(name)))
        left -= min(length, left)
    pad = (" " * (left + (0 if right else 1)), "")
    return (pad, *pieces, (" ", "")) if right else (*pieces, pad)
