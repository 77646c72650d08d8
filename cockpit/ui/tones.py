"""How each tone looks, in whatever widget draws it: the theme has the colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from cockpit.text import clean
from cockpit.ui.marks import Piece

_LOOKS: Final[Mapping[str, str]] = {
    "header": "color: $text-muted; background: $panel",
    "title": "color: $text-accent; background: $panel; text-style: bold",
    "cursor": "color: $block-cursor-foreground; background: $block-cursor-background",
    "dim": "color: $text-muted",
    "faint": "color: $faint",
    "ok": "color: $text-success",
    "warn": "color: $text-warning",
    "bad": "color: $text-error; text-style: bold",
    "accent": "color: $text-accent",
    "bold": "text-style: bold",
    "low": "color: $heat-low",
    "mid": "color: $heat-mid",
    "high": "color: $heat-high",
    "kill": "color: $kill-line; text-style: bold",
    "stale": "color: $stale",
    "reserved": "color: $reserved",
    "here": "color: $primary; text-style: bold reverse",
    "past": "color: $warning; text-style: bold reverse",
}
TONE_CLASSES: Final = {f"tone--{name}" for name in _LOOKS}
"""The component classes of a widget with tones."""
TONE_CSS: Final = " ".join(f"& > .tone--{name} {{ {look}; }}" for name, look in _LOOKS.items())
"""Stands within the rules of such a widget: Textual hands styles down from the first base class alone, so that none can do for all."""


def find_style(widget: Widget, name: str) -> Style:
    """What a tone adds to the style of the widget."""
    return widget.get_component_rich_style(f"tone--{name}", partial=True) if name else Style.null()


def draw_pieces(widget: Widget, pieces: Iterable[Piece]) -> Strip:
    """A line as wide as the widget."""
    base = widget.rich_style
    segments = [Segment(clean(text), base + find_style(widget, name)) for text, name in pieces]
    return Strip(segments).adjust_cell_length(widget.size.width, base)
