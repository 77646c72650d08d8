"""Asks for a name."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from cockpit.text import clean


class NameDialog(ModalScreen["str | None"]):
    """One line to be typed; Enter agrees, Esc cancels."""

    CSS = """
    NameDialog { align: center middle; }
    NameDialog Vertical { width: 80%; max-width: 80; height: auto; background: $panel; border: round $primary; padding: 0 1; }
    NameDialog.ascii Vertical { border: ascii $primary; }
    NameDialog Label { width: 100%; }
    NameDialog Input { border: none; height: 1; padding: 0 1; background: $surface; }
    NameDialog #hint { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Cancel")]

    def __init__(self, question: str, name: str, *, ascii: bool = False) -> None:  # noqa: A002
        super().__init__()
        self._question, self._proposal = question, name
        self.set_class(ascii, "ascii")

    def compose(self) -> ComposeResult:
        """The question, the line, what the keys do."""
        with Vertical():
            yield Label(Content(clean(self._question)))
            yield Input(clean(self._proposal), compact=True)
            yield Label("Enter confirms, Esc cancels", id="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Agree; nothing is no name."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())

    def on_input_changed(self, event: Input.Changed) -> None:
        """It is nobody's filter."""
        event.stop()
