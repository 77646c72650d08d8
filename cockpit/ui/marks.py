"""Draws numbers in a few cells, also in ASCII: spark line, bar with a mark, heat cell and chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Literal

Tone = Literal[
    "", "dim", "faint", "ok", "warn", "bad", "accent", "bold", "low", "mid", "high", "kill", "stale", "reserved", "here", "past", "cursor",
    "title", "loading", "rollout", "scoring", "training", "sync", "checkpoint", "evaluation", "behind",
]  # fmt: skip
"""The meaning of a piece of text; `tones` and the theme have its style."""
Piece = tuple[str, Tone]

_BLOCKS = "▁▂▃▄▅▆▇█"
_LEVELS = ".:-=+*#"
_EIGHTHS = " ▏▎▍▌▋▊▉"
EMPTY_BELOW, MID_FROM, HIGH_FROM = 0.02, 0.5, 0.85
"""Fractions: below EMPTY_BELOW a GPU is empty, as a driver holds some memory of each; from the others on it has another colour."""


def finite(value: float | None) -> float | None:
    """The value, or `None` when it is no finite number."""
    return value if value is not None and isfinite(value) else None


def clamp(fraction: float | None) -> float | None:
    """Between 0 and 1; `None` when it is no finite number."""
    fraction = finite(fraction)
    return None if fraction is None else max(0.0, min(1.0, fraction))


def _step(fraction: float, steps: str) -> str:
    return steps[min(len(steps) - 1, int((clamp(fraction) or 0) * len(steps)))]


def spark(values: Sequence[float | None], width: int, top: float = 100.0, *, ascii: bool = False) -> str:
    """The newest `width` values on the fixed scale 0 to `top`, the newest at the right; unknown values are blank."""
    steps = _LEVELS if ascii else _BLOCKS
    newest = (finite(value) for value in values[max(0, len(values) - width) :])
    return "".join(" " if value is None else _step(value / top, steps) for value in newest).rjust(width)


def fill_short_gaps(values: Sequence[float | None], most: int) -> list[float | None]:
    """Repeat each value in up to `most` unknown steps after it; the rest of a longer gap stays unknown."""
    filled: list[float | None] = []
    last, age = None, 0
    for value in values:
        last, age = (value, 0) if value is not None else (last, age + 1)
        filled.append(last if age <= most else None)
    return filled


def fill_tone(fraction: float) -> Tone:
    """The tone of a fill level that may be high without being wrong."""
    return "faint" if fraction < EMPTY_BELOW else "low" if fraction < MID_FROM else "mid" if fraction < HIGH_FROM else "high"


def heat(fraction: float | None, *, lost: bool = False, ascii: bool = False) -> Piece:
    """One cell with the fill level of a GPU; unknown and lost look like neither empty nor full."""
    if lost:
        return ("X" if ascii else "✖", "bad")
    fraction = finite(fraction)
    if fraction is None:
        return ("?" if ascii else "–", "dim")
    return _step(fraction, _LEVELS if ascii else _BLOCKS), fill_tone(fraction)


def bar(fraction: float | None, width: int, mark: float | None = None, *, ascii: bool = False) -> tuple[Piece, ...]:
    """A bar `width` cells wide, with a line where `mark` is. A bar that reaches the mark is `bad`, else it has the tone of its level."""
    fraction, mark = clamp(fraction), clamp(mark)
    if width <= 0:
        return ()
    if fraction is None:
        return ((("?" if ascii else "–").ljust(width), "dim"),)

    # Anything above zero shows at least the thinnest sign, and only a full bar looks full.
    if ascii:
        filled = "#" * (int(fraction * width) or (fraction > 0))
    else:
        eighths = int(fraction * 8 * width) or (fraction > 0)
        filled = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    tone: Tone = fill_tone(fraction) if mark is None or fraction < mark else "bad"
    pieces: list[Piece] = [(sign, tone) for sign in filled]
    pieces += [("." if ascii else "·", "faint")] * (width - len(filled))
    if mark is not None:
        pieces[min(width - 1, int(mark * width))] = ("|" if ascii else "│", "kill")
    return merge(pieces)


def chart(
    past: Sequence[float | None], ahead: Sequence[float], height: int, top: float, mark: float | None = None, *, ascii: bool = False
) -> list[tuple[Piece, ...]]:
    """Columns on the scale 0 to `top`, as rows from the top down; the values `ahead` are shaded, and a line lies where `mark` is."""
    columns = [finite(value) for value in (*past, *ahead)]
    share = clamp(mark / top) if mark is not None else None
    line_level = None if share is None else min(height - 1, int(share * height))
    rows = []
    for level in reversed(range(height)):
        pieces: list[Piece] = []
        for number, value in enumerate(columns):
            is_ahead, on_line = number >= len(past), level == line_level
            part = 0.0 if value is None else (clamp(value / top) or 0.0) * height - level  # of the value, above this level
            beyond = value is not None and mark is not None and value >= mark
            if part <= 0.0 or (on_line and is_ahead and not beyond):
                pieces.append(("-" if ascii else "─", "kill") if on_line else (" ", ""))
            elif is_ahead:
                pieces.append((":" if ascii else "░", "kill" if beyond else "faint"))
            else:
                pieces.append((_step(part, _LEVELS if ascii else _BLOCKS), "bad" if beyond else "mid"))
        rows.append(merge(pieces))
    return rows


def merge(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Join neighbours of one tone, and drop empty pieces: fewer pieces draw faster."""
    merged: list[Piece] = []
    for text, tone in pieces:
        if merged and merged[-1][1] == tone:
            merged[-1] = (merged[-1][0] + text, tone)
        elif text:
            merged.append((text, tone))
    return tuple(merged)
