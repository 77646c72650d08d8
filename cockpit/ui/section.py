"""What a page says: sections of rows under columns, as plain values that a table draws; and what a page is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from rich.cells import cell_len, chop_cells

from cockpit.ui.marks import Piece
from cockpit.ui.view import View

Row = TypeVar("Row")
MAX_TEXT_LINES: Final = 8
"""Lines of a row over which a sentence goes where they would stay blank."""

MAX_NAME_CELLS: Final = 60
"""Cells to which a column of names grows at most."""
MAX_GROWING_CELLS: Final = 320
"""Cells that a long text counts for at most, so that it leaves some of the room to the others."""
MIN_GROWING_CELLS: Final = 8
"""Cells that a column keeps which has to make room: the screen's edge may cut it then."""

NO_ANSWER: Final = "unknown: no answer from Ray yet"

Cell: TypeAlias = str | tuple[Piece, ...]
Cut: TypeAlias = Literal["middle", "end", "front"]
"""Which part of a text is missing where it is cut."""
Pairs: TypeAlias = Iterator[tuple[str, Cell]]
"""Names and values, for `facts`."""


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """One column. Its text may be foreign and hostile: the table cleans whatever it draws."""

    title: str
    width: int
    cell: Callable[[Row, View], Cell]
    sort: Callable[[Row, View], Any] | None = None
    """What it sorts by; `None` values go last in both directions."""
    right: bool = False
    """Numbers: right-aligned, and sorted the greatest first."""
    grow: bool = False
    """Takes room that is left, as much as its longest cell needs."""
    name: bool = False
    """Has names: it takes room that is left before those that only grow, and names that differ look different where they are cut."""
    cut: Cut = "end"
    """Where its texts are cut; of names the layout chooses."""
    rank: int = 0
    """Where there is no room the highest rank goes first; 0 stays."""
    fold: int = 1
    """Lines over which a long text may go, where lines would stay blank."""


class Section(msgspec.Struct, Generic[Row], frozen=True):
    """Rows of one kind. `rows` is `None` when they are not known, which is not the same as none."""

    key: str
    title: str
    columns: tuple[Column[Row], ...]
    rows: Sequence[Row] | None
    nothing: str = "none"
    """Shown when there are no rows."""
    search: Callable[[Row], str] = str
    """What the filter looks at."""
    dim: Callable[[Row, View], bool] = lambda _row, _view: False
    """Whether the row's facts are old."""
    total: int | None = None
    """How many there are, when `rows` are only the first of them."""
    least: int | None = None
    """How many rows are listed where there is no room for all; `None`: all, as a table can be scrolled."""
    newest_last: bool = False
    """Where there is no room for all rows the last are listed, not the first."""
    more: str = ""
    """The key that lists the others."""
    fixed: bool = False
    """Neither filtered nor sorted: facts about one thing."""
    unknown: str = NO_ANSWER
    """Shown when the rows are not known."""

    @property
    def sentence(self) -> str:
        """Shown in place of rows."""
        return self.unknown if self.rows is None else self.nothing


class Page:
    """One page, or the detail of one thing. It keeps its own switches and nothing of what it shows."""

    title: ClassVar[str] = ""
    short_title: ClassVar[str | None] = None
    """Where there is no room for all titles."""
    switches: ClassVar[frozenset[str]] = frozenset()
    """Which of `keys.SWITCHES` it has."""
    tree: bool = False
    user: str | None = None
    """Whose processes alone are listed."""

    @property
    def heading(self) -> str:
        """Where we are, for the line under the header."""
        return self.title

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """What to show now."""
        raise NotImplementedError


def fit_columns(
    columns: Sequence[Column[Any]], width: int, measure: Callable[[Column[Any]], int] = lambda _: 1000
) -> tuple[tuple[Column[Any], int], ...]:
    """The columns for which there is room. What is left goes to names, then to those that grow; the last of these gives what is missing.

    `measure`: how many cells the longest text of a column needs. What nobody needs goes to the last column, if it grows.
    """
    kept = list(columns)
    while sum(column.width + 1 for column in kept) > width and any(column.rank for column in kept):
        kept.remove(max(reversed(kept), key=lambda column: column.rank))
    widths = [column.width for column in kept]
    spare = width - sum(widths) - len(widths)
    growing = [number for number, column in enumerate(kept) if column.grow]
    if spare < 0 and growing:
        last = growing[-1]
        widths[last] = max(min(MIN_GROWING_CELLS, kept[last].width), kept[last].width + spare)
    elif spare > 0 and kept:
        spare = _grow(widths, {n: min(MAX_NAME_CELLS, measure(column)) for n, column in enumerate(kept) if column.name}, spare)
        spare = _grow(widths, {n: min(MAX_GROWING_CELLS, measure(kept[n])) for n in growing if not kept[n].name}, spare)
        widths[-1] += spare if kept[-1].grow else 0
    return tuple(zip(kept, widths, strict=True))


def _grow(widths: list[int], wanted: Mapping[int, int], spare: int) -> int:
    """Share what is left among columns that want more: first those that need little get all of it, the others by how much they lack.

    Returns what none of them has a use for.
    """
    lacking = {number: cells - widths[number] for number, cells in wanted.items() if cells > widths[number]}
    for number in sorted(lacking, key=lambda number: lacking[number]):
        if lacking[number] <= spare // len(lacking):
            spare -= lacking[number]
            widths[number] += lacking.pop(number)
    total = sum(lacking.values())
    for number, cells in lacking.items():
        widths[number] += spare * cells // total
    return 0 if lacking else spare


class PageRow(msgspec.Struct, frozen=True):
    """A line of a page that is no fact of the cluster itself; what it stands for is in its `about`, where it has one."""


class Item(PageRow, Generic[Row], frozen=True):
    """A row that stands for no value of the model."""

    key: str
    of: Row
    about: object = None
    """What opens on Enter."""


class FactRow(PageRow, frozen=True):
    """A row of text: one fact, with what it is called."""

    key: str
    name: str
    value: Cell
    about: object = None
    """What opens on Enter."""


VALUE_COLUMN: Final[Column[FactRow]] = Column("", 20, lambda line, _: line.value, grow=True)


def facts(key: str, title: str, pairs: Sequence[tuple[str, Cell]], width: int) -> Section[FactRow]:
    """Names and values of one thing; a long value is broken into lines, never cut: it is what people came to read."""
    room = max(20, width - 20)
    lines = [
        FactRow(f"{key}:{number}:{part}", name if part == 0 else "", piece)
        for number, (name, value) in enumerate(pairs)
        for part, piece in enumerate(_break_lines(value, room))
    ]
    columns: tuple[Column[FactRow], ...] = (
        Column("", 16, lambda line, _: ((line.name, "dim"),)),
        VALUE_COLUMN,
    )
    return Section(key, title, columns, lines, search=lambda line: line.name, fixed=True)


def paragraphs(key: str, title: str, texts: Sequence[str], width: int) -> Section[FactRow]:
    """Lines of text, each broken where it is longer than the room; what is left of it stands further in."""
    pieces = [
        FactRow(f"{key}:{number}:{part}", "", "  " * (part > 0) + str(piece))
        for number, text in enumerate(texts)
        for part, piece in enumerate(_break_lines(text, max(20, width - 6)))
    ]
    return Section(key, title, (VALUE_COLUMN,), pieces, search=lambda line: str(line.value), fixed=True)


MAX_FACT_CHARS = 100_000
"""Characters of one fact that are broken into lines: some hundred screens of them."""


def _break_lines(value: Cell, room: int) -> list[Cell]:
    """Between words; a word that is longer than the room, or one of wide characters, anywhere."""
    if not isinstance(value, str):
        return [value]
    if len(value) > MAX_FACT_CHARS:
        value = f"{value[:MAX_FACT_CHARS]}\n… and {len(value) - MAX_FACT_CHARS:,} more characters"
    lines = value.splitlines() or [""]
    pieces = [piece for line in lines for piece in wrap(line, room, replace_whitespace=False, break_on_hyphens=False) or [""]]
    return [part for piece in pieces for part in ([piece] if cell_len(piece) <= room else chop_cells(piece, room))]
