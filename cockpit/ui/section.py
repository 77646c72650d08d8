"""What a page says: sections of rows under columns, as plain values that a table draws; and what a page is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec
from rich.cells import cell_len, chop_cells

from cockpit.ui.marks import Piece
from cockpit.ui.view import View

Row = TypeVar("Row")
MAX_TEXT_LINES: Final = 8
"""Lines of a row over which a sentence goes where they would stay blank."""

MIN_GROWING_CELLS: Final = 8
"""Cells that a column keeps which has to make room: the screen's edge may cut it then."""

NO_ANSWER: Final = "unknown: no answer from Ray yet"

Cell: TypeAlias = str | tuple[Piece, ...]
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
    """Takes the room that is left."""
    most: int = 1000
    """No wider than so many cells, however much room is left: what stands right of it would be far from it."""
    rank: int = 0
    """Where there is no room the highest rank goes first; 0 stays."""
    fold: int = 1
    """Lines over which a long text may go, where lines would stay blank."""
    tail: bool = False
    """Where a name is cut, what stands after its last hyphen stays: the names of pods differ by that."""


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


def fit_columns(columns: Sequence[Column[Any]], width: int) -> tuple[tuple[Column[Any], int], ...]:
    """The columns for which there is room. What is left goes to those that grow, and the last of them gives what is missing."""
    kept = list(columns)
    while sum(column.width + 1 for column in kept) > width and any(column.rank for column in kept):
        kept.remove(max(reversed(kept), key=lambda column: column.rank))
    spare = width - sum(column.width + 1 for column in kept)
    growing = [number for number, column in enumerate(kept) if column.grow]
    widths = _grow(kept, growing, spare)
    if spare < 0 and growing:
        last = growing[-1]
        widths[last] = max(min(MIN_GROWING_CELLS, kept[last].width), kept[last].width + spare)
    return tuple(zip(kept, widths, strict=True))


def _grow(columns: Sequence[Column[Any]], growing: Sequence[int], spare: int) -> list[int]:
    """Widths with what is left in equal parts to those that grow; what one of them has no use for goes to the others."""
    widths = [column.width for column in columns]
    growing = [number for number in growing if columns[number].most > widths[number]]
    while spare >= len(growing) > 0:
        share = min(spare // len(growing), *(columns[number].most - widths[number] for number in growing))
        for number in growing:
            widths[number] += share
        spare -= share * len(growing)
        growing = [number for number in growing if columns[number].most > widths[number]]
    return widths


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
