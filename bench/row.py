"""One line of the table: what was measured, against which limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`value` is `None` when it could not be measured, and `note` says why; else `note` says what it was made of."""

    what: str
    limit: float
    value: float | None
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        return "ok" if self.value <= self.limit else "OVER"


def unmeasured(rows: Iterable[tuple[str, float, str]], why: str) -> list[Row]:
    """Lines for what can't be measured here."""
    return [Row(what, limit, None, unit, why) for what, limit, unit in rows]


def table(rows: Iterable[Row]) -> str:
    """All of them under each other, one a line, columns aligned."""
    lines = [["what", "limit", "measured", "verdict", "made of"], ["-" * 7] * 5]
    lines += [[row.what, f"<= {_amount(row.limit, row.unit)}", _amount(row.value, row.unit), row.verdict, row.note] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)).rstrip() for line in lines)


def _amount(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g}{unit and ' '}{unit}" if abs(value) < 1000 else f"{value:.0f}{unit and ' '}{unit}"
