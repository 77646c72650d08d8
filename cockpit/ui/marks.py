"""Numbers drawn in a few cells: spark line, bar with a mark, heat cell, chart; with an ASCII form each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isfinite
from typing import Literal

Tone = Literal[
    "", "dim", "faint", "ok", "warn", "bad", "accent", "bold", "low", "mid", "high", "kill", "stale", "reserved", "here", "past", "cursor",
    "title",
]  # fmt: skip
"""What a piece of text means; `tones` and the theme say how that looks."""
Piece = tuple[str, Tone]

_BLOCKS = "▁▂▃▄▅▆▇█"
_LEVELS = ".:-=+*#"
_EIGHTHS = " ▏▎▍▌▋▊▉"
EMPTY_BELOW, MID_FROM, HIGH_FROM = 0.02, 0.5, 0.85
"""Fractions: below EMPTY_BELOW a GPU counts as empty, as a driver holds some memory of each; from the others on it has another colour."""


def finite(value: float | None) -> float | None:
    """The value, or `None` when it is no finite number."""
    return value if value is not None and isfinite(value) else None


def clamp(fraction: float | None) -> float | None:
    """Between 0 and 1; `None` when it is no finite number."""
    fraction = finite(fraction)
    return None if fraction is None else max(0.0, min(1.0, fraction))


@lru_cache(4096)
def _step(fraction: float, steps: str) -> str:
    return steps[min(len(steps) - 1, int((clamp(fraction) or 0) * len(steps)))]


def spark(values: Sequence[float | None], width: int, top: float = 100.0, *, ascii: bool = False) -> str:
    """The newest `width` values on the fixed scale 0 to `top`, the newest at the right; what is unknown stays blank."""
    steps = _LEVELS if ascii else _BLOCKS
    newest = (finite(value) for value in values[max(0, len(values) - width) :])
    return "".join(" " if value is None else _step(value / top, steps) for value in newest).rjust(width)


def fill_short_gaps(values: Sequence[float | None], most: int) -> list[float | None]:
    """The same, but a value also holds for the `most` steps after it in which nothing was heard. A longer gap stays one from there on."""
    filled: list[float | None] = []
    last, age = None, 0
    for value in values:
        last, age = (value, 0) if value is not None else (last, age + 1)
        filled.append(last if age <= most else None)
    return filled


def fill_tone(fraction: float) -> Tone:
    """The tone of a fill level that may be high without being wrong."""
    return "faint" if fraction < EMPTY_BELOW else "low" if fraction < MID_FROM else "mid" if fraction < HIGH_FROM else "high"


@lru_cache(4096)
def heat(fraction: float | None, *, lost: bool = False, ascii: bool = False) -> Piece:
    """One cell that says how full a GPU is; unknown and lost look like neither empty nor full."""
    if lost:
        return ("X" if ascii else "✖", "bad")
    fraction = finite(fraction)
    if fraction is None:
        return ("?" if ascii else "–", "dim")
    return _step(fraction, _LEVELS if ascii else _BLOCKS), fill_tone(fraction)


@lru_cache(4096)
def bar(fraction: float | None, width: int, mark: float | None = None, *, ascii: bool = False) -> tuple[Piece, ...]:
    """A bar `width` cells wide with a line where `mark` is: filled up to it or beyond, it is `bad`, else of the tone of its fill level."""
    fraction, mark = clamp(fraction), clamp(mark)
    if width <= 0:
        return ()
    if fraction is None:
        return ((("?" if ascii else "–").ljust(width), "dim"),)
    full = fill_tone(fraction) if mark is None or fraction < mark else "bad"
    cells = _fill(fraction, width, ascii=ascii)
    track: tuple[Piece, ...] = ((cells, full), (("." if ascii else "·") * (width - len(cells)), "faint"))
    return merge(track if mark is None else _draw_mark(track, min(width - 1, int(mark * width)), "|" if ascii else "│"))


def chart(
    past: Sequence[float | None], ahead: Sequence[float], height: int, top: float, mark: float | None = None, *, ascii: bool = False
) -> list[tuple[Piece, ...]]:
    """Columns on the scale 0 to `top`, in rows from the highest down; `ahead` is shaded, and a line lies where `mark` is."""
    columns = [finite(value) for value in (*past, *ahead)]
    share = clamp(mark / top) if mark is not None else None
    line = None if share is None else min(height - 1, int(share * height))
    return [
        merge(
            _column(value, level, height, top, mark, shaded=number >= len(past), line=level == line, ascii=ascii)
            for number, value in enumerate(columns)
        )
        for level in reversed(range(height))
    ]


def _column(
    value: float | None, level: int, height: int, top: float, mark: float | None, *, shaded: bool, line: bool, ascii: bool
) -> Piece:
    """One cell: what of the value lies between this level and the next."""
    part = 0.0 if value is None else (clamp(value / top) or 0.0) * height - level
    beyond = value is not None and mark is not None and value >= mark
    if part <= 0.0 or (line and shaded and not beyond):
        return ("-" if ascii else "─", "kill") if line else (" ", "")
    if shaded:
        return (":" if ascii else "░", "kill" if beyond else "faint")
    return (_step(part, _LEVELS if ascii else _BLOCKS), "bad" if beyond else "mid")


def _fill(fraction: float, width: int, *, ascii: bool) -> str:
    """Anything above zero shows at least its thinnest sign, and only what is full looks full."""
    if ascii:
        return "#" * (int(fraction * width) or (fraction > 0))
    eighths = int(fraction * 8 * width) or (fraction > 0)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _draw_mark(pieces: Iterable[Piece], at: int, line: str) -> Iterable[Piece]:
    """The same cells, with `line` in the place of number `at`."""
    for text, tone in pieces:
        if 0 <= at < len(text):
            yield from ((text[:at], tone), (line, "kill"), (text[at + 1 :], tone))
        else:
            yield text, tone
        at -= len(text)


def merge(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Neighbours of one tone become one piece, and empty ones go: fewer pieces draw faster."""
    merged: list[Piece] = []
    for text, tone in pieces:
        if merged and merged[-1][1] == tone:
            merged[-1] = (merged[-1][0] + text, tone)
        elif text:
            merged.append((text, tone))
    return tuple(merged)
