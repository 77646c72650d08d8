"""Cleans foreign text so that it can do nothing to a terminal.

The model keeps names exactly as they came, because they are sent back in calls. All code that draws them calls `clean`.
"""

from __future__ import annotations

import re
from typing import Final

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
