"""The line of keys below every page: one widget that draws it, because a widget a key is made anew whenever a key's meaning changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from cockpit.text import clean

Key = tuple[str, str, str]
"""The key to press, how it is shown, and what it does."""


HELP_KEY = "?"
"""It stands last, and wherever it isn't typed: whoever knows no key finds the others with it."""
FOOTER_LINES = 1


class Footer(Widget):
    """Replaces Textual's own footer, which makes a widget for each key whenever one changes, and leaks them."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"footer--key", "footer--description"}
    DEFAULT_CSS = """
    Footer {
        height: 1; dock: bottom; background: $panel; color: $footer-foreground;
        & > .footer--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
        & > .footer--description { color: $footer-description-foreground; background: $footer-description-background; }
    }
    """

    def __init__(self, ranks: Callable[[], Callable[[str], int | None]] = lambda: lambda _: 0) -> None:
        """`ranks`: the place of each action now, the least first; `None`: it means nothing for what is chosen, and needs no room."""
        super().__init__()
        self._ranks = ranks
        self._keys: tuple[Key, ...] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._update_keys)

    def on_unmount(self) -> None:
        """Its screen may be gone before it."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _update_keys(self, screen: Screen[Any]) -> None:
        """Without the terminal's focus no key applies; the footer then stays as it was."""
        if self.app.app_focus and self.is_attached and (keys := tuple(self._ordered_keys(screen))) != self._keys:
            self._keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 there is one
        """As many keys as there is room for, each with its whole label, and help in any case."""
        key, description = (self.get_component_rich_style(f"footer--{part}") for part in ("key", "description"))
        base = self.rich_style
        segments = [
            segment
            for (_, key_text, label), _, _ in self._places()
            for segment in (Segment(key_text, base + key), Segment(f" {label}", base + description), Segment(" ", base))
        ]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        for (key, _, _), begin, end in self._places():
            if begin <= event.x < end:
                self.app.simulate_key(key)

    def _places(self) -> Iterator[tuple[Key, int, int]]:
        """The keys that are drawn, with the first cell of each and the one after its last."""
        helps = [key for key in self._keys if key[1] == HELP_KEY]
        kept = [key for key in self._keys if key not in helps]
        while kept and sum(map(_width, (*kept, *helps))) - 1 > self.size.width:
            kept.pop()
        keys = (*kept, *helps)
        for key, (begin, end) in zip(keys, pairwise(accumulate(map(_width, keys), initial=0)), strict=True):
            if end - 1 <= self.size.width:
                yield key, begin, end - 1

    def _ordered_keys(self, screen: Screen[Any]) -> Iterator[Key]:
        """Each action once, by the first of its keys."""
        bindings: dict[str, Binding] = {}
        for _, binding, _, _ in screen.active_bindings.values():
            if binding.show:
                bindings.setdefault(binding.action, binding)
        rank, is_typing = self._ranks(), isinstance(screen.focused, Input)
        ranked = [(place, binding) for binding in bindings.values() if (place := rank(binding.action)) is not None]
        for _, binding in sorted(ranked, key=lambda pair: pair[0]):
            shown = clean(screen.app.get_key_display(binding))
            if not is_typing or len(shown) > 1:  # a single sign would be typed
                yield binding.key, shown, clean(binding.description)


def _width(key: Key) -> int:
    return cell_len(f"{key[1]} {key[2]} ")
