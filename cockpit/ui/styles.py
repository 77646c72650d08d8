"""Defines the style of each tone, for every widget; the theme has the colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Final, cast

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from cockpit.text import clean
from cockpit.ui.marks import Piece
from cockpit.ui.textual_internals import PatchedApp

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
    "loading": "color: $stale; text-style: reverse",
    "rollout": "color: $heat-low; text-style: reverse",
    "scoring": "color: $reserved; text-style: reverse",
    "training": "color: $heat-mid; text-style: reverse",
    "sync": "color: $heat-high; text-style: reverse",
    "checkpoint": "color: $kill-line; text-style: reverse",
    "evaluation": "color: $secondary; text-style: reverse",
    "behind": "color: $text-error; text-style: bold reverse",
}
TONE_CSS: Final = " ".join(f"& > .tone--{name} {{ {look}; }}" for name, look in _LOOKS.items())
_BOLD_IN_LINES: Final = ("warn", "cursor")
"""Bold in single lines only: tables are full of these tones."""
_NORMAL, _BOLD = Style.null(), Style(bold=True)


class TonedApp(PatchedApp):
    """An app that has the styles of all tones for its widgets: in each widget they would take 3 ms whenever its styles change."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{name}" for name in _LOOKS}
    DEFAULT_CSS = f"TonedApp {{ {TONE_CSS} }}"

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.find_tone.cache_clear()

    @cached_property
    def find_tone(self) -> Any:
        """The style of a tone, computed once for each theme."""
        return cache(lambda name: self.get_component_styles(f"tone--{name}").partial_rich_style)


def find_style(widget: Widget, name: str) -> Style:
    """The style that a tone adds to the style of the widget."""
    return cast("TonedApp", widget.app).find_tone(name) if name else _NORMAL


def draw_pieces(widget: Widget, pieces: Iterable[Piece]) -> Strip:
    """A line as wide as the widget."""
    base = widget.rich_style
    styled = ((text, base + find_style(widget, name) + (_BOLD if name in _BOLD_IN_LINES else _NORMAL)) for text, name in pieces)
    return Strip(Segment(clean(text), style) for text, style in styled).adjust_cell_length(widget.size.width, base)
