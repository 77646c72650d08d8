"""Foreign text made fit for a terminal, and amounts put into words.

The model keeps names exactly as they came, because they are sent back in calls; whatever draws them calls `clean`.
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
"""Code points that move the cursor, colour, hide or reorder, or can't be written."""
_MARKS = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
_STACKED = re.compile(f"({_MARKS}{{4}}){_MARKS}+")
"""More marks on one letter than any language writes: many terminals draw them over the lines above and below."""
_CONTROLS = {code: _BREAKS.get(code, "\N{REPLACEMENT CHARACTER}") for code in UNSAFE}


def clean(text: str) -> str:
    """One line that can't move the cursor, colour the screen, hide or reorder its neighbours."""
    return text if text.isascii() and text.isprintable() else _STACKED.sub("\\1\N{REPLACEMENT CHARACTER}", text.translate(_CONTROLS))


_ASCII_SIGNS: Final = str.maketrans({
    **dict(zip("–—·•…›→»←↑↓×≥≤▸▾▴▲◆◇○◌●✓✖✗└┌┐┘├┤┬┴┼│┃─━", "--.*~>>><^vx><>v^^!~o~+vxx+++++++++||--", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▔▕▐▀░▒▓", ".:-=+*#########-|##:##", strict=True)),
    "\N{RIGHT-POINTING MAGNIFYING GLASS}": "? ",
    "\N{REPLACEMENT CHARACTER}": "?",
})  # fmt: skip
"""Each sign that cockpit or Textual draws, as an ASCII sign that is as wide."""


def to_ascii(text: str, *, is_drawn: bool = True) -> str:
    """The text with an ASCII sign for each sign of cockpit's own; letters of other languages stay.

    Not `is_drawn`: it is printed, where a sign may become wider.
    """
    if text.isascii():
        return text
    return (text if is_drawn else text.replace("…", "...").replace("→", "->")).translate(_ASCII_SIGNS)


_UNITS = ("B", "K", "M", "G", "T", "P")


@lru_cache(1024)
def size(amount: float | None) -> str:
    """Bytes in at most five characters: `512M`, `3.4G`, `80G`."""
    if amount is None:
        return UNKNOWN
    unit = 0
    value = float(amount)
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit and abs(value) < 9.95 else f"{value:.0f}{_UNITS[unit]}"


def percent(value: float | None) -> str:
    """`None` is "not known", and never reads as zero."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def share_percent(fraction: float | None) -> str:
    """A part between 0 and 1, rounded down everywhere: what is below a mark must not look as if it were at it."""
    return percent(None if fraction is None else floor(100 * fraction + 1e-6) if isfinite(fraction) else fraction)


def ratio(used: float | None, total: float | None) -> float | None:
    """0-1, or `None` when either is unknown or there is nothing to have."""
    return used / total if used is not None and total else None


def count(value: float | None) -> str:
    """A quantity of a resource: `8`, `0.25`."""
    return UNKNOWN if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def gpus_words(number: float) -> str:
    """`1 GPU`, `0.25 GPUs`."""
    return f"{count(number)} GPU{'' if number == 1 else 's'}"


@lru_cache(512)
def _age(seconds: int) -> str:
    for unit, length, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // smaller
            return f"{seconds // length}{unit}{rest:02}{below}" if seconds < 100 * length or unit != "d" else f"{seconds // length}{unit}"
    return f"{seconds}s"


def age(seconds: float | None) -> str:
    """`8s`, `3m07s`, `5h02m`, `12d04h`; a little in the future reads as now."""
    return UNKNOWN if seconds is None else _age(max(0, int(seconds)))


def plural(number: int, noun: str, many: str = "") -> str:
    """`1 node`, `2 nodes`; `many` where an s is not enough."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


def join_first(names: Sequence[str], most: int = 4, more: str = "more") -> str:
    """`a, b and 3 more`: the first of them, and how many there are besides."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} {more}" if rest > 0 else "")


def explain_os_error(error: OSError) -> str:
    """`no space left on device`: why the system refused, to be put behind a path."""
    return (error.strerror or str(error)).lower()
