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

KeyPlace = tuple[int, str]
"""Where a key stands among the others, and what it is called now."""
Key = tuple[str, str, str]
"""The key to press, how it is shown, and what it does."""


LASTING_ACTIONS = frozenset(["quit", "help"])
"""There is room for them on every screen: whoever knows no key finds the others, and the way out."""
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

    def __init__(self, place: Callable[[Binding], KeyPlace | None]) -> None:
        """`place`: where a key stands now, the least first; `None`: it means nothing for what is selected, and needs no room."""
        super().__init__()
        self._place = place
        self._keys: tuple[Key, ...] = ()
        self._lasting: frozenset[Key] = frozenset()
        """Those of `LASTING_ACTIONS`."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._update_keys)

    def on_unmount(self) -> None:
        """Its screen may be gone before it."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _update_keys(self, screen: Screen[Any]) -> None:
        """Without the terminal's focus no key applies; the footer then stays as it was."""
        if not (self.app.app_focus and self.is_attached):
            return
        places: dict[str, tuple[int, Key]] = {}  # each action once, by the first of its keys
        is_typing = isinstance(screen.focused, Input)
        for _, binding, _, _ in screen.active_bindings.values():
            shown = clean(self.app.get_key_display(binding))
            if not binding.show or binding.action in places or (is_typing and len(shown) == 1):  # a single sign would be typed
                continue
            if (place := self._place(binding)) is not None:
                places[binding.action] = (place[0], (binding.key, shown, clean(place[1])))
        keys = tuple(key for _, key in sorted(places.values(), key=lambda each: each[0]))
        if keys != self._keys:
            self._keys = keys
            self._lasting = frozenset(key for action, (_, key) in places.items() if action in LASTING_ACTIONS)
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 there is one
        """As many keys as there is room for, each with its whole label, and in any case help and the way out."""
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
        keys = list(self._keys)
        while sum(map(_width, keys)) - 1 > self.size.width and (others := [key for key in keys if key not in self._lasting]):
            keys.remove(others[-1])
        for key, (begin, end) in zip(keys, pairwise(accumulate(map(_width, keys), initial=0)), strict=True):
            if end - 1 <= self.size.width:
                yield key, begin, end - 1


def _width(key: Key) -> int:
    return cell_len(f"{key[1]} {key[2]} ")
