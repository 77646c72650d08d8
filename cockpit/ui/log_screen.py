"""The log of one job, followed until the job is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label

from cockpit.sources.source import SourceError
from cockpit.text import clean
from cockpit.ui.footer import Footer
from cockpit.ui.log_view import LogView


class LogScreen(Screen[None]):
    """Lines as they come; Esc or q goes back and stops asking."""

    CSS = """
    LogScreen { background: $background; }
    LogScreen Label { width: 100%; background: $panel; padding: 0 1; }
    LogScreen Input { height: 1; border: none; padding: 0 1; display: none; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", key_display="Esc"),
        Binding("q,l", "dismiss", "Back", show=False),
        Binding("G,end", "follow", "Follow"),
    ]

    def __init__(self, job: str, lines: AsyncIterator[Sequence[str]], *, ascii: bool = False) -> None:  # noqa: A002
        super().__init__()
        self.job, self._lines, self._ascii = job, lines, ascii
        self._state = "loading"

    def compose(self) -> ComposeResult:
        """A title, the lines, a filter."""
        yield Label(id="title")
        yield LogView(ascii=self._ascii)
        yield Input(placeholder="filter text; !text: lines without it; Esc clears", compact=True, select_on_focus=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(LogView).focus()
        self._tell()
        self._follow()

    @work(group="log", exclusive=True)
    async def _follow(self) -> None:
        view = self.query_one(LogView)
        try:
            async for batch in self._lines:
                self._state = "live"
                view.extend(batch)
            self._state = "the job has ended"
        except SourceError as error:
            self._state = f"can't be read: {error}"
        self._tell()

    def on_log_view_changed(self) -> None:
        """More lines, or another place among them."""
        self._tell()

    def _tell(self) -> None:
        status = self.query_one(LogView).status
        self.query_one("#title", Label).update(Content(clean(f"Log of job {self.job}   {self._state}   {status}")))

    def action_back(self) -> None:
        """Clear the filter, or go back."""
        field = self.query_one(Input)
        if field.display or field.value:
            field.value = ""
            self.leave_filter()
        else:
            self.dismiss()

    def open_filter(self) -> None:
        """Type what lines must have."""
        field = self.query_one(Input)
        field.display = True
        self.set_focus(field)

    def action_follow(self) -> None:
        """Go to the newest line and follow."""
        self.query_one(LogView).action_end()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed; the pages have a filter of their own."""
        event.stop()
        self.query_one(LogView).filter(event.value.removeprefix("!"), invert=event.value.startswith("!"))

    def leave_filter(self) -> None:
        """Keep the filter, go back to the lines."""
        self.query_one(Input).display = False
        self.set_focus(self.query_one(LogView))
