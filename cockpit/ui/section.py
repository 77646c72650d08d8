"""Defines the base class of pages, and the sections that they return: rows under columns, as plain values that a table draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from cockpit.text import clean
from cockpit.ui.folding import fold_text
from cockpit.ui.marks import Piece
from cockpit.ui.view import View

Row = TypeVar("Row")
MAX_TEXT_LINES: Final = 8
"""A sentence is folded over up to so many lines if they would stay blank."""
MAX_NAME_CELLS: Final = 60
"""A column of names grows up to so many cells."""
MAX_GROWING_CELLS: Final = 320
"""A longer text counts as long as this, so that it leaves some of the room to other columns."""
MIN_GROWING_CELLS: Final = 8
"""A column that makes room keeps so many cells, even if the screen's edge cuts it then."""
NO_ANSWER: Final = "unknown: no answer from Ray yet"

Cell: TypeAlias = str | tuple[Piece, ...]
Cut: TypeAlias = Literal["middle", "end", "front"]
"""The part of a cut text that is missing."""
Pairs: TypeAlias = Iterator[tuple[str, Cell]]
"""Names and values for `facts`."""


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """One column. Its text may be foreign and hostile: the table cleans everything that it draws."""

    title: str
    width: int
    cell: Callable[[Row, View], Cell]
    sort: Callable[[Row, View], Any] | None = None
    """The sort key; `None` values go last in both directions."""
    right: bool = False
    """For numbers: right-aligned, and sorted with the greatest first."""
    grow: bool = False
    """The column takes free room, as much as its longest cell needs."""
    name: bool = False
    """The column has names: it takes free room before columns that only grow, and its names are cut so that they still differ."""
    cut: Cut = "end"
    """The part of a text that is cut; for names the layout chooses it."""
    rank: int = 0
    """If room is missing, the column with the highest rank is left out first; 0 is always shown."""
    fold: int = 1
    """A long text is folded over up to so many lines, if they would stay blank."""


class Section(msgspec.Struct, Generic[Row], frozen=True):
    """Rows of one kind. If `rows` is `None`, they are unknown, which is not the same as none."""

    key: str
    title: str
    columns: tuple[Column[Row], ...]
    rows: Sequence[Row] | None
    nothing: str = "none"
    """Shown when there are no rows."""
    search: Callable[[Row], str] = str
    """The text that the filter searches."""
    is_old: Callable[[Row, View], bool] = lambda _row, _view: False
    """Whether the row's facts are old."""
    total: int | None = None
    """The number of all rows, if `rows` has only the first of them."""
    min_rows: int | None = None
    """If there is no room for all rows, at least so many are listed; `None`: all, because a table can be scrolled."""
    newest_last: bool = False
    """If there is no room for all rows, the last ones are listed, not the first."""
    more_hint: str = ""
    """What to press for the others, such as `press 6`."""
    fixed: bool = False
    """Neither filtered nor sorted: facts about one thing."""
    unknown: str = NO_ANSWER
    """Shown when the rows are not known."""

    @property
    def sentence(self) -> str:
        """The sentence in place of rows."""
        return self.unknown if self.rows is None else self.nothing


class Page:
    """A page of the screen. It keeps its own switches, but no rows."""

    title: ClassVar[str] = ""
    short_title: ClassVar[str | None] = None
    """The title when there is no room for all titles."""
    switches: ClassVar[frozenset[str]] = frozenset()
    """The switches of the page, of `keys.SWITCHES`."""
    tree: bool = False
    user: str | None = None
    """List only the processes of this user."""

    @property
    def heading(self) -> str:
        """The name of the page, for the line under the header."""
        return self.title

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The sections of the page now."""
        raise NotImplementedError


def fit_columns(
    columns: Sequence[Column[Any]], width: int, measure: Callable[[Column[Any]], int] = lambda _: 1000
) -> tuple[tuple[Column[Any], int], ...]:
    """The columns for which there is room, with their widths. Free room goes to names, then to columns that grow.

    The last column that grows gives up what is missing, or takes what no column needs. `measure`: cells of a column's longest text.
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
    """Share free room among columns that want more, and return the rest. Small wants are met, large ones get a share in proportion."""
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
    """A row that is no value of the model. Its `about`, if it has one, is the value that it stands for."""


class Item(PageRow, Generic[Row], frozen=True):
    """A row with a key of its own around any value."""

    key: str
    value: Row
    about: object = None
    """The thing that Enter opens."""


class FactRow(PageRow, frozen=True):
    """A row of text: the name and the value of one fact."""

    key: str
    name: str
    value: Cell
    about: object = None
    """The thing that Enter opens."""


VALUE_COLUMN: Final[Column[FactRow]] = Column("", 20, lambda line, _: line.value, grow=True)


def facts(key: str, title: str, pairs: Iterable[tuple[str, Cell]], width: int) -> Section[FactRow]:
    """Names and values of one thing. A long value is broken into lines, never cut: people came to read it."""
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
    """Lines of text. A line longer than the room is broken, and its other parts are indented."""
    pieces = [
        FactRow(f"{key}:{number}:{part}", "", "  " * (part > 0) + str(piece))
        for number, text in enumerate(texts)
        for part, piece in enumerate(_break_lines(text, max(20, width - 6)))
    ]
    return Section(key, title, (VALUE_COLUMN,), pieces, search=lambda line: str(line.value), fixed=True)


MAX_FACT_CHARS = 100_000
"""A longer fact is cut: these are some hundred screens."""


def _break_lines(value: Cell, room: int) -> list[Cell]:
    """Break a text into lines of at most `room` cells."""
    if not isinstance(value, str):
        return [value]
    if len(value) > MAX_FACT_CHARS:
        value = f"{value[:MAX_FACT_CHARS]}\n… and {len(value) - MAX_FACT_CHARS:,} more characters"
    return [piece for line in value.splitlines() or [""] for piece in fold_text(clean(line), room)]
