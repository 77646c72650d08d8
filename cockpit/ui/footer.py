"""Draws the footer with the keys that work now."""

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

KeyPlace = tuple[int, str]
"""Position among the other keys, and label."""
Key = tuple[str, str, str]
"""Textual's name of a key, its name on the screen, and its label."""
LASTING_ACTIONS = frozenset(["quit", "help"])
"""Drawn on every screen: with these keys a new user finds all others, and the way out."""
FOOTER_LINES = 1


class Footer(Widget):
    """Replaces Textual's footer, which creates a widget for each key whenever one changes, and leaks them."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"footer--key", "footer--description"}
    DEFAULT_CSS = """
    Footer {
        height: 1; dock: bottom; background: $panel; color: $footer-foreground;
        & > .footer--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
        & > .footer--description { color: $footer-description-foreground; background: $footer-description-background; }
    }
    """

    def __init__(self, place: Callable[[Binding], KeyPlace | None]) -> None:
        """`place`: returns position and label of a key, the lowest position first; `None` leaves the key out."""
        super().__init__()
        self._place = place
        self._keys: tuple[Key, ...] = ()
        self._lasting: frozenset[Key] = frozenset()
        """The keys of `LASTING_ACTIONS`."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._update_keys)

    def _update_keys(self, screen: Screen[Any]) -> None:
        """Ask for the keys again. While the terminal has no focus, Textual has no active keys, and the footer stays unchanged."""
        if not (self.app.app_focus and self.is_attached):
            return
        places: dict[str, tuple[int, Key]] = {}  # each action once, with its first key
        is_typing = isinstance(screen.focused, Input)
        for _, binding, _, _ in screen.active_bindings.values():
            shown = clean(self.app.get_key_display(binding))
            if not binding.show or binding.action in places or (is_typing and len(shown) == 1):  # a single character would be typed
                continue
            if (place := self._place(binding)) is not None:
                places[binding.action] = (place[0], (binding.key, shown, clean(place[1])))
        keys = tuple(key for _, key in sorted(places.values(), key=lambda each: each[0]))
        if keys != self._keys:
            self._keys = keys
            self._lasting = frozenset(key for action, (_, key) in places.items() if action in LASTING_ACTIONS)
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 there is one
        """Draw as many keys as fit, each with its whole label, always with `LASTING_ACTIONS`."""
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
        """The drawn keys, each with its first cell and the cell after its last."""
        keys = list(self._keys)
        while sum(map(_width, keys)) - 1 > self.size.width and (others := [key for key in keys if key not in self._lasting]):
            keys.remove(others[-1])
        for key, (begin, end) in zip(keys, pairwise(accumulate(map(_width, keys), initial=0)), strict=True):
            if end - 1 <= self.size.width:
                yield key, begin, end - 1


def _width(key: Key) -> int:
    return cell_len(f"{key[1]} {key[2]} ")
