"""Defines screens for reading a text, choosing an address and typing a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Label, OptionList

from cockpit.config.address import Address
from cockpit.text import clean
from cockpit.ui.folding import fold_text
from cockpit.ui.marks import Piece, Tone
from cockpit.ui.styles import draw_pieces

READING_S: Final = 0.3
"""Seconds for which a new text can be neither confirmed nor closed: keys typed ahead were meant for something else."""


class FoldedText(ScrollView, can_focus=True):
    """A scrollable text. Long lines are folded."""

    DEFAULT_CSS = "FoldedText { height: 1fr; scrollbar-gutter: stable; }"  # a scroll bar that appears must not cover text
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
        Binding("home,g", "scroll_home", "First", show=False),
        Binding("end,G", "scroll_end", "Last", show=False),
    ]

    def __init__(self, text: str, hang: int) -> None:
        """`hang`: cells by which the rest of a folded line is indented, so that it does not look like another line."""
        super().__init__()
        self.text, self._hang = text, hang
        self._lines: list[Piece] = []

    def show(self, text: str) -> None:
        """Replace the text and keep the scroll position."""
        self.text = text
        self.on_resize()

    @property
    def count(self) -> int:
        """Number of lines after folding."""
        return len(self._lines)

    def on_resize(self) -> None:
        width = max(10, self.scrollable_content_region.width)
        lines = [(line, self.tone(line)) for line in map(clean, self.text.splitlines())]
        self._lines = [(piece, tone) for line, tone in lines for piece in fold_text(line, width, by_words=self._hang > 0, hang=self._hang)]
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def tone(self, line: str) -> Tone:  # noqa: ARG002 subclasses use the line
        """The tone of a line; empty for none."""
        return ""

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        return draw_pieces(self, self._lines[number : number + 1])


class TextScreen(ModalScreen[None]):
    """A text over the whole screen; Esc or q goes back."""

    DEFAULT_CSS = """
    TextScreen { background: $background; }
    TextScreen Label { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,y,e", "dismiss", "Back", key_display="Esc"),
        Binding("c", "copy", "Copy"),
    ]

    def __init__(self, title: str, text: str, *, hang: int = 0) -> None:
        """`hang`: cells by which the rest of a folded line is indented; 0 folds at any character and does not indent."""
        super().__init__()
        self._title, self.text, self._hang = title, text, hang

    def compose(self) -> ComposeResult:
        yield Label(Content(clean(f"{self._title}   (Esc: back, c: copy)")))
        yield FoldedText(self.text, self._hang)

    def action_copy(self) -> None:
        """Copy the whole text to the terminal's clipboard."""
        self.app.copy_to_clipboard("\n".join(map(clean, self.text.splitlines())))


class AddressDialog(ModalScreen["Address | None"]):
    """Asks which of several Ray sessions on this host to follow."""

    CSS = """
    AddressDialog { align: center middle; }
    AddressDialog Vertical { width: 80%; max-width: 100; height: auto; background: $panel; border: round $primary; padding: 0 1; }
    AddressDialog OptionList { height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back")]

    def __init__(self, addresses: Sequence[Address]) -> None:
        super().__init__()
        self.addresses = addresses

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Content("Which of these Ray clusters should cockpit follow?"))
            lines = (f"{ray.url}  {ray.origin}{f' of {ray.owner}' if ray.owner else ''}" for ray in self.addresses)
            yield OptionList(*(Content(clean(line)) for line in lines), markup=False)
            yield Label(Content("Enter: follow it   Esc: back"))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.addresses[event.option_index])


class ConfirmDialog(ModalScreen[bool]):
    """Asks before something that may do harm. Only `y` agrees, once the text has been on the screen for a moment."""

    CSS = """
    ConfirmDialog { align: center middle; }
    ConfirmDialog Vertical { width: 80%; max-width: 90; height: 14; background: $panel; border: round $primary; padding: 0 1; }
    ConfirmDialog Label { width: 100%; }
    ConfirmDialog #title { text-style: bold; margin-bottom: 1; }
    ConfirmDialog #hint { color: $text-muted; }
    ConfirmDialog FoldedText { background: $panel; scrollbar-size: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,n", "refuse", "Cancel"), Binding("y", "agree", "Yes")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text
        self._is_answerable = False
        """Whether the text could be read: a key typed ahead was meant for something else."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Content(clean(self._title)), id="title")
            yield FoldedText(self._text, 2)
            yield Label("y: ask it all the same   Esc: cancel", id="hint")

    def on_mount(self) -> None:
        self.call_after_refresh(self.set_timer, READING_S, self._allow_answer)

    def _allow_answer(self) -> None:
        self._is_answerable = True

    def action_agree(self) -> None:
        """Agree, unless the key was typed ahead."""
        if self._is_answerable:
            self.dismiss(True)

    def action_refuse(self) -> None:
        """Close without agreement."""
        self.dismiss(False)


class NameDialog(ModalScreen["str | None"]):
    """Asks for one line of text. Returns `None` if it was cancelled."""

    CSS = """
    NameDialog { align: center middle; }
    NameDialog Vertical { width: 80%; max-width: 80; height: auto; background: $panel; border: round $primary; padding: 0 1; }
    NameDialog Label { width: 100%; }
    NameDialog Input { border: none; height: 1; padding: 0 1; background: $surface; }
    NameDialog #hint { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Cancel")]

    def __init__(self, question: str, name: str) -> None:
        super().__init__()
        self._question, self._proposal = question, name

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Content(clean(self._question)))
            yield Input(clean(self._proposal), compact=True)
            yield Label("Enter confirms, Esc cancels", id="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text; Enter in an empty field does nothing."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())
