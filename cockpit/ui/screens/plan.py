"""Shows the dialog of an action: its plan, the confirmation, then the progress and the receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Button, Input, Label

from cockpit.actions.action import Action, Choosable
from cockpit.actions.action_context import UnclearSessionError
from cockpit.actions.audit import audit_path
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.plan_text import plan_lines, receipt_lines
from cockpit.config.document import abbreviate_home
from cockpit.model import Session
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.text import clean, plural
from cockpit.ui.marks import Tone
from cockpit.ui.screens.dialogs import READING_S, FoldedText

if TYPE_CHECKING:
    from cockpit.actions.executor import ActionExecutor

MIN_LINES, LINES_AROUND = 16, 10
"""Lines of the dialog, and its lines beside the text."""
Stage = Literal["looking", "plan", "nothing", "doing", "receipt", "failed"]
_HINTS: Final[Mapping[Stage, str]] = {
    "looking": "Nothing has been changed. Esc cancels",
    "plan": "Esc cancels, Tab: next",
    "nothing": "Nothing to do. Esc closes",
    "doing": "Running. q quits cockpit and aborts it",
    "receipt": "",
    "failed": "",
}


class PlanLines(FoldedText, can_focus=False):
    """The text of a plan or a receipt. The dialog scrolls it, so the focus can stay on Cancel."""

    HEADS: ClassVar[Mapping[str, Tone]] = {
        "What ends with it": "bad",
        "Failed": "bad",
        "Unknown": "warn",
        "Refused": "warn",
        "Unreachable": "warn",
    }

    def tone(self, line: str) -> Tone:
        """Headings begin at the left edge; the lines below them are indented."""
        return "" if line[:1] in ("", " ") else self.HEADS.get(line, "title")


class ActionDialog(ModalScreen["Receipt | None"]):
    """A dialog from the plan to the receipt.

    The user confirms a plan by the action's button, by its word typed in full, or by its key if `key_again` allows that.
    """

    DEFAULT_CSS = """
    ActionDialog { align: center middle; }
    ActionDialog #dialog { width: 100%; max-width: 140; max-height: 100%; padding: 0 1; background: $panel; border: round $primary; }
    ActionDialog Label { width: 100%; }
    ActionDialog #title { text-style: bold; margin-bottom: 1; }
    ActionDialog PlanLines { background: $panel; scrollbar-size: 0 1; }
    ActionDialog #word { border: none; height: 1; padding: 0 1; background: $surface; color: $foreground; }
    ActionDialog #buttons { height: 1; margin-top: 1; }
    ActionDialog Button { min-width: 14; margin-right: 2; }
    ActionDialog #hint { color: $text-muted; }
    """
    AUTO_FOCUS = "#leave"
    reading_s: ClassVar[float] = READING_S
    """Seconds for which a new text can't be answered."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("n", "decline", "Cancel"),
        Binding("q", "quit", "Cancel"),
        Binding("right", "app.focus_next", "Next"),
        Binding("left", "app.focus_previous", "Previous"),
        Binding("up,k", "scroll('scroll_up')", "Up"),
        Binding("down,j", "scroll('scroll_down')", "Down"),
        Binding("pageup", "scroll('scroll_page_up')", "Page up"),
        Binding("pagedown,space", "scroll('scroll_page_down')", "Page down"),
        Binding("home,g", "scroll('scroll_home')", "First"),
        Binding("end,G", "scroll('scroll_end')", "Last"),
    ]

    def __init__(self, action: Choosable, clock: Callable[[], float]) -> None:
        super().__init__()
        self.stage: Stage = "looking"
        self.plan: Plan | None = None
        self.receipt: Receipt | None = None
        self._action, self._clock = action, clock
        self._progress: dict[str, Progress] = {}
        """The newest progress of each host."""
        self._hint = ""
        self._is_answerable = False
        """Whether the text has been on the screen for `reading_s`."""
        self._reading = Timer(self, self.reading_s, pause=True)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Label(id="title")
            yield from self.compose_choices()
            yield PlanLines("", hang=6)
            yield Input(id="word", compact=True, select_on_focus=False)
            with Horizontal(id="buttons"):
                yield Button(Content("Cancel"), id="leave", compact=True)
                yield Button(Content(self._action.title), id="agree", variant="error", compact=True, disabled=True)
            yield Label(id="hint")

    def compose_choices(self) -> ComposeResult:
        """Widgets with choices that the user has before confirming."""
        yield from ()

    def on_mount(self) -> None:
        self._show_stage("looking", f"{self._action.title}: checking")
        self.set_interval(0.1, self._update_progress)
        self.run_worker(self._make_plan())

    # Stages

    async def _make_plan(self) -> None:
        """Make the plan and show it."""
        raise NotImplementedError

    async def _perform(self, plan: Plan) -> None:
        """Carry out the confirmed plan and show the receipt."""
        raise NotImplementedError

    def _show_stage(self, stage: Stage, title: str, text: str = "") -> None:
        """Show another stage. The focus is on the button that changes nothing."""
        self.stage, self._is_answerable = stage, False
        self._reading.stop()
        self._set_label("#title", title)
        self._hint = self._hint_of(stage)
        lines = self.query_one(PlanLines)
        lines.show(text)
        lines.scroll_home(animate=False)
        self.fit()
        leave, word = self.query_one("#leave", Button), self.query_one("#word", Input)
        leave.label = Content("Cancel" if stage in ("looking", "plan") else "Close")
        leave.display = stage != "doing"
        word.display = stage == "plan" and self._word is not None
        word.placeholder = clean(f"> type {self._word} here")
        self.query_one("#agree").display = stage == "plan"
        self.set_focus(leave if leave.display else None)
        self._update_button()
        self.call_after_refresh(self._start_reading_time)

    def _hint_of(self, stage: Stage) -> str:
        if stage == "plan" and self._word:
            return f"Type {self._word} to continue, Esc cancels"
        if self._key_confirms:
            return f"{self._action.first_key} again {self._action.key_again}, Esc cancels"
        if stage == "nothing" and self.plan and self.plan.unknown:
            return "Not everything could be classified. Esc closes"
        if stage == "nothing" and self.plan and self.plan.refused:
            return "Everything was refused. Esc closes"
        return _HINTS[stage]

    def fit(self) -> None:
        """Make the dialog as high as its lines need."""
        self.query_one("#dialog").styles.height = max(MIN_LINES, self.query_one(PlanLines).count + LINES_AROUND)

    def _start_reading_time(self) -> None:
        def allow_answer() -> None:
            self._is_answerable = True
            self._update_button()

        self.query_one("#title").refresh(layout=True)  # Textual 8.2.8 keeps the title's old height if the dialog's height stays the same
        self._reading.stop()  # the timer of the stage before
        self._reading = self.set_timer(self.reading_s, allow_answer)

    def _update_button(self) -> None:
        """Enable the action's button if there is a plan that could be read, and its word has been typed."""
        typed = self.query_one("#word", Input).value.strip()
        self.query_one("#agree", Button).disabled = not (self._is_answerable and self.stage == "plan" and self._word in (None, typed))

    @property
    def _key_confirms(self) -> bool:
        """Whether the action's key confirms the plan: only if no live process can end with it."""
        return self._action.key_again is not None and self.stage == "plan" and self._word is None

    @property
    def _word(self) -> str | None:
        """The word to type as confirmation; `None`: the plan asks for none."""
        return self.plan.word.strip() if self.plan and self.plan.word else None

    def _confirm(self) -> None:
        """Carry out the plan if it can be confirmed now."""
        self._update_button()
        if self.plan is not None and not self.query_one("#agree", Button).disabled:
            self._is_answerable = False  # so two quick presses confirm once
            self.run_worker(self._perform(self.plan))

    def _update_progress(self) -> None:
        lines = self.query_one(PlanLines)
        below = lines.count - lines.size.height - round(lines.scroll_y)
        more = f"{plural(below, 'more line')}: scroll down" if below > 0 else ""
        self._set_label("#hint", ". ".join(filter(None, (self._hint, more))))
        if self.stage in ("looking", "doing") and self._progress:
            verb = "checking" if self.stage == "looking" else "running"
            self._set_label("#title", f"{self._action.title}: {verb}, {sum_progress(self._progress)}")
            lines.show("\n".join(f"  {host}  {progress.text}" for host, progress in self._progress.items()))

    def _set_label(self, selector: str, text: str) -> None:
        self.query_one(selector, Label).update(Content(clean(text)))

    # Keys and clicks

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "agree":
            self._confirm()
        elif self._is_answerable:
            self.action_leave()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Compare the typed word with the plan's."""
        event.stop()
        self._update_button()
        typed = event.value.strip()
        self._hint = self._hint_of(self.stage) if (self._word or "").startswith(typed) else self._mismatch(typed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        if typed and self._word not in (None, typed):
            self._hint = self._mismatch(typed)
        self._confirm()

    def _mismatch(self, typed: str) -> str:
        return f"{typed} does not match {self._word}: nothing was done. Correct it, or Esc cancels"

    def accepts_key(self, event: events.Key) -> bool:
        """Whether the dialog takes this key now. The app asks before Textual routes the key, so the order of keys is kept.

        The letters of the plan's word go to its input and not to the keys of the dialog. While there is no plan, Enter does nothing:
        after a word that was typed ahead it would press Cancel.
        """
        if self.stage == "plan" and self._word and event.is_printable and event.character != " ":
            self.set_focus(self.query_one("#word", Input))
        return event.key != "enter" or self.stage != "looking"

    def on_key(self, event: events.Key) -> None:
        """The action's key confirms, if `_key_confirms`."""
        if self._key_confirms and event.character == self._action.first_key:
            event.stop()
            self._confirm()

    def action_leave(self) -> None:
        """Cancel or close. A running action continues."""
        if self.stage == "doing":
            self._hint = f"Still running; q quits and aborts it. Log of actions: {abbreviate_home(audit_path())}"
        elif self.is_current and (self._is_answerable or self.stage != "receipt"):
            self.dismiss(self.receipt)

    def action_decline(self) -> None:
        """Cancel or close, by a letter; ignored until the plan is shown."""
        if self._is_answerable and self.stage != "looking":
            self.action_leave()

    async def action_quit(self) -> None:
        """Quit cockpit while something runs; otherwise close this dialog."""
        if self.stage == "doing":
            await self.app.action_quit()
        else:
            self.action_decline()

    def action_scroll(self, how: str) -> None:
        """Scroll the text, independent of the focus."""
        getattr(self.query_one(PlanLines), how)(animate=False)


class PlanScreen(ActionDialog):
    """The dialog of one action. The executor makes and carries out its plan."""

    def __init__(self, executor: ActionExecutor, action: Action, requested: ActionTarget, clock: Callable[[], float]) -> None:
        super().__init__(action, clock)
        self._executor, self._planned_action, self._requested = executor, action, requested

    async def _make_plan(self) -> None:
        try:
            self.plan = plan = await self._executor.plan(self._planned_action, self._requested, self._progress.__setitem__)
        except SourceError as error:
            text = str(error)
            if isinstance(error, UnclearSessionError):
                # An action on sessions can be begun on the row of one. For any other action the screen must follow one Ray.
                choose_row = f"Press 2, Enter on its node, put the cursor on the session, press {self._action.first_key}"
                text += ".\n" + (choose_row if self._action.also_takes is Session else "Choose one: quit, and start cockpit with --address")
            self._show_stage("failed", f"{self._action.title}: no plan could be made", text)
            return
        title, _, *lines = plan_lines(plan, self._clock())
        self._show_stage("nothing" if plan.empty else "plan", title, "\n".join(lines))

    async def _perform(self, plan: Plan) -> None:
        self._progress = {}
        self._show_stage("doing", f"{self._action.title}: running")
        try:
            self.receipt = receipt = await self._executor.perform(plan, self._progress.__setitem__)
        except SourceError as error:
            self._show_stage("failed", f"{self._action.title}: nothing was done", str(error))
            return
        title, _, *lines = receipt_lines(receipt)
        self._show_stage("receipt", title, "\n".join(lines))

    def _hint_of(self, stage: Stage) -> str:
        if stage == "receipt" and self._action.starts_job and self.receipt and self.receipt.done:
            return "Esc shows its log"
        return super()._hint_of(stage)


def sum_progress(by_host: Mapping[str, Progress]) -> str:
    """Sum the progress of all hosts: `3 of 5, 2 hosts waiting, 29 running, 1 answered`."""
    measured = [progress for progress in by_host.values() if progress.done is not None and progress.of is not None]
    states = Counter(
        progress.text if progress.text in ("waiting", "connecting", "answered") else "running" for progress in by_host.values()
    )
    done = [f"{sum(one.done or 0 for one in measured)} of {sum(one.of or 0 for one in measured)}"] if measured else []
    return ", ".join([*done, *(f"{plural(number, 'host')} {state}" for state, number in states.items())])
