"""A moving picture of screens: one SVG that shows one after the other, without a script in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

SECONDS = 3.0
"""For which each screen is shown."""


def moving_picture(screens: Sequence[str]) -> str:
    """Of screens as Textual exports them, all of one size. Who wants no motion sees the first."""
    size = re.search(r'viewBox="([^"]+)"', screens[0])
    assert size is not None
    frames = "".join(f'<g class="frame" id="frame{number}">{screen}</g>' for number, screen in enumerate(screens))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size[1]}"><style>{_style(len(screens))}</style>{frames}</svg>\n'


def _style(count: int) -> str:
    still = "#frame0 { visibility: visible }"
    rules = "".join(_frame_rule(number, count) for number in range(count))
    return f".frame {{ visibility: hidden }} {still} @media (prefers-reduced-motion: no-preference) {{ {rules} }}"


def _frame_rule(number: int, count: int) -> str:
    begin, end = 100 * number / count, 100 * (number + 1) / count
    shown = f"{begin:.4f}% {{ visibility: visible }} {end:.4f}% {{ visibility: hidden }}"
    before = "0% { visibility: hidden } " if number else ""
    after = "" if number == count - 1 else " 100% { visibility: hidden }"
    return (
        f"@keyframes show{number} {{ {before}{shown}{after} }} "
        f"#frame{number} {{ animation: show{number} {count * SECONDS:g}s step-end infinite }} "
    )
