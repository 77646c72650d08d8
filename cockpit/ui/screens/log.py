"""Shows the logs of one thing, one at a time, and follows each until its writer ends."""

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

from cockpit.monitor.failure_reader import MAX_LOG_LINES
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
"""Key, id and hint of each prompt."""


class Prompt(Input):
    """Takes typed characters until Enter or Esc. Keys after that belong to the log, even if they were typed ahead."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.keep", "Keep", key_display="Enter")]

    def on_key(self, event: events.Key) -> None:
        """Send a key that was queued here before the prompt lost the focus to the new focus."""
        has_focus = self.screen.focused is self
        if has_focus and event.key not in ("enter", "escape"):
            return
        event.stop()
        event.prevent_default()
        if not has_focus:
            self.app.post_message(events.Key(event.key, event.character))
        elif isinstance(self.screen, LogScreen):
            (self.screen.action_keep if event.key == "enter" else self.screen.action_back)()


class LogScreen(Screen[None]):
    """Shows the lines of a log as they arrive. Esc clears the prompt opened last, then leaves and stops reading, as q does at once."""

    CSS = """
    LogScreen { background: $background; }
    LogScreen Label { width: 100%; background: $panel; padding: 0 1; }
    LogScreen #note { color: $text-warning; display: none; }
    LogScreen Horizontal { height: 1; display: none; background: $panel; padding: 0 1; }
    LogScreen Horizontal Label { width: 2; padding: 0; color: $text-accent; }
    LogScreen Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", key_display="Esc"),
        # Textual handles a priority key before the focused widget does, so keys typed ahead of a prompt are not lost.
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
        """Opens the first of `logs`. `marks`: quoted texts whose lines are marked in the log; it opens at the last of these lines."""
        super().__init__()
        self.subject, self.logs, self.marks, self._clock, self._ascii = subject, tuple(logs), marks, clock, ascii
        self._log_number = 0
        self._end = ""
        """Why no more lines come; empty: more may come."""
        self._title = ""
        self._texts = {"search": "", "filter": ""}
        self._opened: list[str] = []
        """The prompts in use, `search` and `filter`; the one opened last is at the end."""

    @property
    def log_open(self) -> Log:
        """The log on the screen."""
        return self.logs[self._log_number]

    def compose(self) -> ComposeResult:
        yield Label(id="title")
        yield Label(id="choices")
        yield Label(id="note")
        yield LogView(ascii=self._ascii)
        for sign, kind, words in PROMPTS:
            with Horizontal(id=f"{kind}-prompt"):
                yield Label(sign)
                yield Prompt(id=kind, placeholder=f"{words}; Esc clears", compact=True)
        yield Footer(self._place_key)

    def _place_key(self, binding: Binding) -> KeyPlace | None:
        """The footer leaves out keys without effect; help comes last."""
        useless = {"next": not (self._texts["search"] or self.marks), "open(1)": len(self.logs) == 1}
        return None if useless.get(binding.action) else (int(binding.action == "help"), binding.description)

    def on_mount(self) -> None:
        self.query_one(LogView).focus()
        self.query_one("#choices").display = len(self.logs) > 1
        self.set_interval(1.0, self._update_title)
        self._open()

    def action_open(self, step: int) -> None:
        """Open the next or the previous log."""
        if len(self.logs) == 1:
            self.notify("There is no other log here", timeout=4)
            return
        self._log_number = (self._log_number + step) % len(self.logs)
        self.query_one(LogView).clear()
        self._open()

    def _open(self) -> None:
        self._end = ""
        self.query_one(LogView).mark(self.marks)
        labels = [(clean(f" {log.label} "), "reverse" if log is self.log_open else "") for log in self.logs]
        self.query_one("#choices", Label).update(Content.assemble("o:", *labels))
        self._update_title()
        self._follow(self.log_open)

    @work(group="log", exclusive=True)
    async def _follow(self, log: Log) -> None:
        view = self.query_one(LogView)
        try:
            async for batch in log.follow(MAX_LOG_LINES if self.marks else LOG_LINES, True):  # the error may be far before the end
                view.extend(batch)
            self._end = log.ended
        except SourceError as error:
            self._end = f"can't be read: {error}"
        self._update_title()

    def on_log_view_changed(self) -> None:
        self._update_title()

    def _update_title(self) -> None:
        view = self.query_one(LogView)
        nothing = f"no lines: {self._state}" if self._end else "no lines yet"
        parts = (self._state, view.status) if view.lines.end else (nothing,)
        title = "   ".join((f"{self.subject}: {self.log_open.title}", *parts))
        if title != self._title:
            self._title = title
            self.query_one("#title", Label).update(Content(clean(title)))
        note = self.query_one("#note", Label)
        note.display = bool(view.note)
        note.update(Content(view.note))

    @property
    def _state(self) -> str:
        """Whether the log is still written; if known, for how long it is not."""
        log, ended_at = self.log_open, self.log_open.ended_at()
        if ended_at is not None:
            return f"{log.ended}, {age(self._clock() - ended_at)} ago"
        return self._end or (log.ended if log.is_before else "live")  # the process before a restart has certainly ended

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
        self.set_focus(field)  # now, not after the next refresh: keys typed ahead belong to the prompt

    def _close_prompts(self) -> None:
        for prompt in self.query(Horizontal):
            prompt.display = False
        self.set_focus(self.query_one(LogView))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search or filter at each typed character."""
        event.stop()
        self._apply(str(event.input.id), event.input.value)

    def _apply(self, kind: str, text: str) -> None:
        """Search or filter, unless for the same text: the `Changed` message arrives after Enter."""
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
        """Keep the typed text and go back to the lines; a search goes to its next match."""
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
        """While a prompt is open, / and & are text."""
        return not isinstance(self.focused, Input) if action in ("search", "filter") else super().check_action(action, parameters)

    def action_help(self) -> None:
        """Show the keys of the log."""
        self.app.push_screen(HelpScreen("Help: log", log_help_text((self, self.query_one(LogView)))))
