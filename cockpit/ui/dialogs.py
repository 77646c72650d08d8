"""What lies over the page for a moment: a text to read, a choice to make."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Label, OptionList

from cockpit.config import Address
from cockpit.text import clean


class Lines(ScrollView, can_focus=True):
    """A text, line by line, drawn exactly; long lines are folded."""

    DEFAULT_CSS = "Lines { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
        Binding("home,g", "scroll_home", "First", show=False),
        Binding("end,G", "scroll_end", "Last", show=False),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._lines: list[str] = []

    def on_resize(self) -> None:
        """Fold again."""
        width = max(10, self.size.width)
        self._lines = [line[at : at + width] for line in map(clean, self.text.splitlines()) for at in range(0, max(1, len(line)), width)]
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the text."""
        number = y + self.scroll_offset.y
        text = self._lines[number] if number < len(self._lines) else ""
        return Strip([Segment(text, self.rich_style)]).adjust_cell_length(self.size.width, self.rich_style)


class TextPage(ModalScreen[None]):
    """A text over the whole screen; Esc or q goes back."""

    CSS = """
    TextPage { background: $background; }
    TextPage Label { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,y,e", "dismiss", "Back", key_display="Esc"),
        Binding("c", "copy", "Copy"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self.text = title, text

    def compose(self) -> ComposeResult:
        """A title and the lines."""
        yield Label(Content(clean(f"{self._title}   (Esc goes back, c copies)")))
        yield Lines(self.text)

    def action_copy(self) -> None:
        """All of it, to the terminal's clipboard."""
        self.app.copy_to_clipboard("\n".join(map(clean, self.text.splitlines())))


class Chooser(ModalScreen["Address | None"]):
    """Several Rays live on this host, and a person must say which one."""

    CSS = """
    Chooser { align: center middle; }
    Chooser Vertical { width: 80%; max-width: 100; height: auto; background: $panel; border: round $primary; padding: 0 1; }
    Chooser OptionList { height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back")]

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        super().__init__()
        self.addresses = addresses

    def compose(self) -> ComposeResult:
        """A question and its answers."""
        with Vertical():
            yield Label(Content("Several Ray sessions live on this host. Which one?"))
            yield OptionList(*(Content(clean(f"{address.url}  {address.origin}")) for address in self.addresses), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """The one that was chosen."""
        self.dismiss(self.addresses[event.option_index])
