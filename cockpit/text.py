"""Cleans foreign text for a terminal, and writes sizes, ages and other amounts as words.

The model keeps names exactly as they came, because they are sent back in calls; the code that draws them calls `clean`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import floor, isfinite
from typing import Final

UNKNOWN = "–"

_BREAKS = {0x09: " ", 0x0A: " ", 0x0D: " "}
UNSAFE = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD, 0x34F, *range(0x600, 0x606), 0x61C, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2,
    0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0x3164, 0xFEFF, 0xFFA0,
    *range(0xFFF9, 0xFFFC),
    *range(0xD800, 0xE000),
    0x110BD, 0x110CD,
    *range(0x13430, 0x13440),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
)  # fmt: skip
"""Code points that move the cursor, colour, hide or reorder text, or can't be encoded."""
_MARKS = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
_STACKED = re.compile(f"({_MARKS}{{4}}){_MARKS}+")
"""More combining marks on one letter than any language has: many terminals draw them over other lines."""
_CONTROLS = {code: _BREAKS.get(code, "\N{REPLACEMENT CHARACTER}") for code in UNSAFE}


def clean(text: str) -> str:
    """Return the text as one line that can't move the cursor, colour the screen, or hide or reorder other text."""
    return text if text.isascii() and text.isprintable() else _STACKED.sub("\\1\N{REPLACEMENT CHARACTER}", text.translate(_CONTROLS))


_ASCII_SIGNS: Final = str.maketrans({
    **dict(zip("–—·•…›→»←↑↓×≥≤▸▾▴▲◆◇○◌●✓✖✗└┌┐┘├┤┬┴┼│┃─━", "--.*~>>><^vx><>v^^!~o~+vxx+++++++++||--", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▔▕▐▀░▒▓", ".:-=+*#########-|##:##", strict=True)),
    "\N{RIGHT-POINTING MAGNIFYING GLASS}": "? ",
    "\N{REPLACEMENT CHARACTER}": "?",
})  # fmt: skip
"""An ASCII sign of the same width for each sign that cockpit or Textual draws."""


def to_ascii(text: str, *, is_drawn: bool = True) -> str:
    """Return the text with an ASCII sign for each of cockpit's signs. Letters of other languages stay.

    `is_drawn` keeps the width; printed text may become wider.
    """
    if text.isascii():
        return text
    return (text if is_drawn else text.replace("…", "...").replace("→", "->")).translate(_ASCII_SIGNS)


_UNITS = ("B", "K", "M", "G", "T", "P")


@lru_cache(1024)
def size(amount: float | None) -> str:
    """Return bytes in at most five characters: `512M`, `3.4G`, `80G`."""
    if amount is None:
        return UNKNOWN
    unit = 0
    value = float(amount)
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit and abs(value) < 9.95 else f"{value:.0f}{_UNITS[unit]}"


def percent(value: float | None) -> str:
    """Return `42%`; `–` if unknown."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def share_percent(fraction: float | None) -> str:
    """Return a fraction as `42%`, rounded down: a value below a threshold must not look as if it had reached it."""
    return percent(None if fraction is None else floor(100 * fraction + 1e-6) if isfinite(fraction) else fraction)


def ratio(used: float | None, total: float | None) -> float | None:
    """Return the used share from 0 to 1, or `None` if a number is unknown or the total is 0."""
    return used / total if used is not None and total else None


def count(value: float | None) -> str:
    """Return an amount of a resource: `8`, `0.25`."""
    return UNKNOWN if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def gpus_words(number: float) -> str:
    """Return `1 GPU`, `0.25 GPUs`."""
    return f"{count(number)} GPU{'' if number == 1 else 's'}"


def age(seconds: float | None) -> str:
    """Return `8s`, `3m07s`, `5h02m`, `12d04h`; a time in the future is `0s`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole >= 100 * 86400:
        return f"{whole // 86400}d"
    for unit, length, smaller_unit, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= length:
            return f"{whole // length}{unit}{whole % length // smaller:02}{smaller_unit}"
    return f"{whole}s"


def plural(number: int, noun: str, many: str = "") -> str:
    """Return `1 node`, `2 nodes`; `many` is the plural if it needs more than an s."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


def join_first(names: Sequence[str], most: int = 4, more: str = "more") -> str:
    """Return `a, b and 3 more`: the first names, and the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} {more}" if rest > 0 else "")


def explain_os_error(error: OSError) -> str:
    """Return the reason of a system error, such as `no space left on device`, to be put after a path."""
    return (error.strerror or str(error)).lower()
