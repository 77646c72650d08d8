"""The logs of one thing, one at a time, each followed until nobody writes to it any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label

from cockpit.monitor.logs import Log
from cockpit.sources.ray.log_files import LOG_LINES
from cockpit.sources.source import SourceError
from cockpit.text import age, clean
from cockpit.ui.footer import Footer, KeyPlace
from cockpit.ui.log_view import LogView
from cockpit.ui.screens.help import HelpScreen, log_help_text

PROMPTS = (
    ("/", "search", "text to highlight; Enter, n: next, N: previous"),
    ("&", "filter", "only lines with this text; !text: lines without it"),
)
"""Sign, id and hint of what can be typed."""


class Prompt(Input):
    """Takes what is typed until Enter or Esc; what was typed ahead of them is not its own."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.keep", "Keep", key_display="Enter")]

    def on_key(self, event: events.Key) -> None:
        """A key that waited here while the prompt was left begins its way anew."""
        is_asked = self.screen.focused is self
        if is_asked and event.key not in ("enter", "escape"):
            return
        event.stop()
        event.prevent_default()
        if not is_asked:
            self.app.post_message(events.Key(event.key, event.character))
        elif isinstance(self.screen, LogScreen):
            (self.screen.action_keep if event.key == "enter" else self.screen.action_back)()


class LogScreen(Screen[None]):
    """Lines as they come; Esc clears what was opened last, then goes back, as q does, and stops asking."""

    CSS = """
    LogScreen { background: $background; }
    LogScreen Label { width: 100%; background: $panel; padding: 0 1; }
    LogScreen Horizontal { height: 1; display: none; background: $panel; padding: 0 1; }
    LogScreen Horizontal Label { width: 2; padding: 0; color: $text-accent; }
    LogScreen Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", key_display="Esc"),
        # A priority key is looked at before what has the focus: so nothing that is typed ahead of a prompt is lost.
        Binding("slash", "search", "Search", key_display="/", priority=True),
        Binding("ampersand", "filter", "Filter", key_display="&", priority=True),
        Binding("question_mark,h,f1", "help", "Help", key_display="?"),
        Binding("q,l", "leave", "Leave", show=False),
        Binding("o", "open(1)", "Other log"),
        Binding("O", "open(-1)", "Other log", show=False),
    ]

    def __init__(
        self, subject: str, logs: Sequence[Log], clock: Callable[[], float], *, marks: tuple[str, ...] = (), ascii: bool = False
    ) -> None:
        """The first of `logs` is opened. `marks`: texts that are quoted somewhere, to be found in the lines."""
        super().__init__()
        self.subject, self.logs, self.marks, self._clock, self._ascii = subject, tuple(logs), marks, clock, ascii
        self._place = 0
        self._end = ""
        """Why no more lines come."""
        self._title = ""
        self._texts = {"search": "", "filter": ""}
        self._opened: list[str] = []
        """`search` and `filter`, as far as they are in use, the one that was opened last at the end."""

    @property
    def log_open(self) -> Log:
        """The one whose lines are drawn."""
        return self.logs[self._place]

    def compose(self) -> ComposeResult:
        yield Label(id="title")
        yield Label(id="choices")
        yield LogView(ascii=self._ascii)
        for sign, kind, words in PROMPTS:
            with Horizontal(id=f"{kind}-prompt"):
                yield Label(sign)
                yield Prompt(id=kind, placeholder=f"{words}; Esc clears", compact=True)
        yield Footer(self._place_key)

    def _place_key(self, binding: Binding) -> KeyPlace | None:
        """Only what leads somewhere is in the line of keys; help stands last."""
        useless = {"next": not (self._texts["search"] or self.marks), "open(1)": len(self.logs) == 1}
        return None if useless.get(binding.action) else (int(binding.action == "help"), binding.description)

    def on_mount(self) -> None:
        self.query_one(LogView).focus()
        self.query_one("#choices").display = len(self.logs) > 1
        self.set_interval(1.0, self._tell)
        self._open()

    def action_open(self, step: int) -> None:
        """Open the next or the previous log."""
        if len(self.logs) == 1:
            self.notify("There is no other log here", timeout=4)
            return
        self._place = (self._place + step) % len(self.logs)
        self.query_one(LogView).clear()
        self._open()

    def _open(self) -> None:
        self._end = ""
        self.query_one(LogView).mark(self.marks)
        labels = [(clean(f" {log.label} "), "reverse" if log is self.log_open else "") for log in self.logs]
        self.query_one("#choices", Label).update(Content.assemble("o:", *labels))
        self._tell()
        self._follow(self.log_open)

    @work(group="log", exclusive=True)
    async def _follow(self, log: Log) -> None:
        view = self.query_one(LogView)
        try:
            async for batch in log.follow(LOG_LINES, True):
                view.extend(batch)
            self._end = log.ended
        except SourceError as error:
            self._end = f"can't be read: {error}"
        self._tell()

    def on_log_view_changed(self) -> None:
        self._tell()

    def _tell(self) -> None:
        view = self.query_one(LogView)
        nothing = f"no lines: {self._state}" if self._end else "no lines yet"
        parts = (self._state, view.status) if view.lines.end else (nothing,)
        title = "   ".join((f"{self.subject}: {self.log_open.title}", *parts))
        if title != self._title:
            self._title = title
            self.query_one("#title", Label).update(Content(clean(title)))

    @property
    def _state(self) -> str:
        """Whether somebody writes to it; where that is known, since when nobody does."""
        log, ended_at = self.log_open, self.log_open.ended_at()
        if ended_at is not None:
            return f"{log.ended}, {age(self._clock() - ended_at)} ago"
        return self._end or (log.ended if log.is_before else "live")  # of the process before a restart it is known at once

    def action_back(self) -> None:
        """Clear the search or the filter, whichever was opened last, or go back."""
        if self._opened:
            kind = self._opened.pop()
            self.query_one(f"#{kind}", Input).value = ""
            self._apply(kind, "")
            self._close_prompts()
        else:
            self.dismiss()

    def action_leave(self) -> None:
        """Go back at once."""
        self.dismiss()

    def action_search(self) -> None:
        """Highlight a text; Enter goes to its first match on the screen or below."""
        self._open_prompt("search")

    def action_filter(self) -> None:
        """Show only lines that contain a text; !text: lines without it."""
        self._open_prompt("filter")

    def _open_prompt(self, kind: str) -> None:
        self._close_prompts()
        self._opened = [*(other for other in self._opened if other != kind), kind]
        field = self.query_one(f"#{kind}", Input)
        self.query_one(f"#{kind}-prompt").display = True
        self.set_focus(field)  # now, not after the next refresh: what is typed ahead belongs to it

    def _close_prompts(self) -> None:
        for prompt in self.query(Horizontal):
            prompt.display = False
        self.set_focus(self.query_one(LogView))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search or filter as it is typed; the pages have a filter of their own."""
        event.stop()
        self._apply(str(event.input.id), event.input.value)

    def _apply(self, kind: str, text: str) -> None:
        """Once for each text: what is typed is heard of later than Enter."""
        if self._texts[kind] == text:
            return
        self._texts[kind] = text
        self.refresh_bindings()
        view = self.query_one(LogView)
        if kind == "search":
            view.search(text)
        else:
            view.filter(text.removeprefix("!"), invert=text.startswith("!"))

    def action_keep(self) -> None:
        """Keep what is typed and go back to the lines; a search goes to its next match."""
        field = self.focused
        if not isinstance(field, Input):
            return
        kind = str(field.id)
        self._apply(kind, field.value)
        if not field.value:
            self._opened.remove(kind)
        self._close_prompts()
        if kind == "search" and field.value:
            self.query_one(LogView).action_next()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is typed into a prompt opens no other."""
        return not isinstance(self.focused, Input) if action in ("search", "filter") else super().check_action(action, parameters)

    def action_help(self) -> None:
        """Show the keys of the log."""
        self.app.push_screen(HelpScreen("Help: log", log_help_text((self, self.query_one(LogView)))))
