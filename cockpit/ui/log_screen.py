"""The logs of one thing, one at a time, each followed until nobody writes to it any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label

from cockpit.monitor.logs import Log
from cockpit.sources.ray.log_files import LOG_LINES
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
        Binding("o", "open(1)", "Other log"),
        Binding("O", "open(-1)", "Other log", show=False),
    ]

    def __init__(self, subject: str, logs: Sequence[Log], *, marks: tuple[str, ...] = (), ascii: bool = False) -> None:  # noqa: A002
        """The first of `logs` is opened. `marks`: texts that are quoted somewhere, to be found in the lines."""
        super().__init__()
        self.subject, self.logs, self.marks, self._ascii = subject, tuple(logs), marks, ascii
        self._place = 0
        self._state = ""

    @property
    def log_open(self) -> Log:
        """The one whose lines are drawn."""
        return self.logs[self._place]

    def compose(self) -> ComposeResult:
        """A title, the lines, a filter."""
        yield Label(id="title")
        yield Label(id="choices")
        yield LogView(ascii=self._ascii)
        yield Input(placeholder="filter text; !text: lines without it; Esc clears", compact=True, select_on_focus=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(LogView).focus()
        self.query_one("#choices").display = len(self.logs) > 1
        self._open()

    def action_open(self, step: int) -> None:
        """Open the next of the logs, or the one before."""
        self._place = (self._place + step) % len(self.logs)
        self.query_one(LogView).clear()
        self._open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 Textual's
        """With a single log there is no other."""
        return action != "open" or len(self.logs) > 1

    def _open(self) -> None:
        self._state = "no lines yet"
        self.query_one("#choices", Label).update(self._choices())
        self._tell()
        self._follow(self.log_open)

    def _choices(self) -> Content:
        """All labels, the open one apart from the others."""
        labels = [(clean(f" {log.label} "), "reverse" if log is self.log_open else "") for log in self.logs]
        return Content.assemble("o:", *labels)

    @work(group="log", exclusive=True)
    async def _follow(self, log: Log) -> None:
        view = self.query_one(LogView)
        try:
            async for batch in log.follow(LOG_LINES, True):
                self._state = "live"
                view.extend(batch)
            self._state = log.ended
        except SourceError as error:
            self._state = f"can't be read: {error}"
        self._tell()

    def on_log_view_changed(self) -> None:
        """More lines, or another place among them."""
        self._tell()

    def _tell(self) -> None:
        status = self.query_one(LogView).status
        self.query_one("#title", Label).update(Content(clean(f"{self.subject}: {self.log_open.title}   {self._state}   {status}")))

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
