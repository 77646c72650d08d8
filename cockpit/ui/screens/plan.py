"""The dialog of an act: what it would do, the question, how far it is, and what it has done."""

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

from cockpit.acts.act import Act, Operation
from cockpit.acts.audit import audit_path
from cockpit.acts.plan import Aim, Plan, Receipt
from cockpit.acts.text import plan_lines, receipt_lines
from cockpit.acts.world import UnclearSessionError
from cockpit.config.document import abbreviate_home
from cockpit.model import Session
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.text import clean, plural
from cockpit.ui.marks import Tone
from cockpit.ui.screens.dialogs import FoldedText

if TYPE_CHECKING:
    from cockpit.acts.executor import ActionExecutor

READING_S: Final = 0.3
"""Seconds for which nothing can be agreed to or closed: what was typed ahead was meant for something else."""
MIN_LINES, LINES_AROUND = 16, 10
"""Lines of the dialog, and those of them that are around the text."""
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
    """Plans and receipts: the screen scrolls them, so that the focus can stay on Cancel."""

    HEADS: ClassVar[Mapping[str, Tone]] = {
        "What ends with it": "bad",
        "Failed": "bad",
        "Unknown": "warn",
        "Refused": "warn",
        "Unreachable": "warn",
    }

    def tone(self, line: str) -> Tone:
        """Headings begin at the edge; the things below them never do."""
        return "" if line[:1] in ("", " ") else self.HEADS.get(line, "title")


class ActDialog(ModalScreen["Receipt | None"]):
    """From the look at the hosts to the receipt. Nothing is agreed to but by the act's own button, or by its word typed in full."""

    DEFAULT_CSS = """
    ActDialog { align: center middle; }
    ActDialog #dialog { width: 100%; max-width: 140; max-height: 100%; padding: 0 1; background: $panel; border: round $primary; }
    ActDialog Label { width: 100%; }
    ActDialog #title { text-style: bold; margin-bottom: 1; }
    ActDialog PlanLines { background: $panel; scrollbar-size: 0 1; }
    ActDialog #word { border: none; height: 1; padding: 0 1; background: $surface; color: $foreground; }
    ActDialog #buttons { height: 1; margin-top: 1; }
    ActDialog Button { min-width: 14; margin-right: 2; }
    ActDialog #hint { color: $text-muted; }
    """
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

    def __init__(self, act: Operation, clock: Callable[[], float]) -> None:
        super().__init__()
        self.stage: Stage = "looking"
        self.plan: Plan | None = None
        self.receipt: Receipt | None = None
        self._act, self._clock = act, clock
        self._heard: dict[str, Progress] = {}
        self._hint = ""
        self._read = False
        """Whether what is shown has been there long enough to be answered."""
        self._unread = Timer(self, READING_S, pause=True)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Label(id="title")
            yield from self.choices()
            yield PlanLines("", hang=6)
            yield Input(id="word", compact=True, select_on_focus=False)
            with Horizontal(id="buttons"):
                yield Button(Content("Cancel"), id="leave", compact=True)
                yield Button(Content(self._act.title), id="agree", variant="error", compact=True, disabled=True)
            yield Label(id="hint")

    def choices(self) -> ComposeResult:
        """What may be chosen before it is agreed to."""
        yield from ()

    def on_mount(self) -> None:
        self._enter("looking", f"{self._act.title}: checking")
        self.set_interval(0.1, self._tell)
        self.run_worker(self._look())

    # What becomes of it

    async def _look(self) -> None:
        """Make the plan, and show it."""
        raise NotImplementedError

    async def _do(self, plan: Plan) -> None:
        """Do what was agreed to, and show what became of it."""
        raise NotImplementedError

    def _enter(self, stage: Stage, title: str, text: str = "") -> None:
        """Show another stage; the focus is on the button that changes nothing."""
        self.stage, self._read = stage, False
        self._unread.stop()
        self._say("#title", title)
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
        self._weigh()
        self.call_after_refresh(self._painted)

    def _hint_of(self, stage: Stage) -> str:
        if stage == "plan" and self._word:
            return f"Type {self._word} to continue, Esc cancels"
        if self._again:
            return f"{self._act.first_key} again {self._act.key_again}, Esc cancels"
        if stage == "nothing" and self.plan and self.plan.unknown:
            return "Not everything could be classified. Esc closes"
        if stage == "nothing" and self.plan and self.plan.refused:
            return "Everything was refused. Esc closes"
        return _HINTS[stage]

    def fit(self) -> None:
        """As high as its lines need."""
        self.query_one("#dialog").styles.height = max(MIN_LINES, self.query_one(PlanLines).count + LINES_AROUND)

    def _painted(self) -> None:
        self.query_one("#title").refresh(layout=True)  # Textual 8.2.8 keeps its old height where the dialog's stays the same
        self._unread.stop()  # the one of the stage before
        self._unread = self.set_timer(READING_S, self._mark_read)

    def _mark_read(self) -> None:
        self._read = True
        self._weigh()

    def _weigh(self) -> None:
        """Whether it can be agreed to now: there is a plan, it could be read, and its word has been typed."""
        typed = self.query_one("#word", Input).value.strip()
        self.query_one("#agree", Button).disabled = not (self._read and self.stage == "plan" and self._word in (None, typed))

    @property
    def _again(self) -> bool:
        """Whether the act's own key agrees: only where nothing that lives can end with it."""
        return self._act.key_again is not None and self.stage == "plan" and self._word is None

    @property
    def _word(self) -> str | None:
        return self.plan.word.strip() if self.plan and self.plan.word else None

    def _agree(self) -> None:
        self._weigh()
        if self.plan is not None and not self.query_one("#agree", Button).disabled:
            self._read = False  # a key that is pressed twice at once agrees once
            self.run_worker(self._do(self.plan))

    # How far it is

    def _tell(self) -> None:
        lines = self.query_one(PlanLines)
        below = lines.count - lines.size.height - round(lines.scroll_y)
        more = f"{plural(below, 'more line')}: scroll down" if below > 0 else ""
        self._say("#hint", ". ".join(filter(None, (self._hint, more))))
        if self.stage in ("looking", "doing") and self._heard:
            self._say("#title", f"{self._act.title}: {'checking' if self.stage == 'looking' else 'running'}, {sum_progress(self._heard)}")
            lines.show("\n".join(f"  {host}  {progress.text}" for host, progress in self._heard.items()))

    def _say(self, place: str, text: str) -> None:
        self.query_one(place, Label).update(Content(clean(text)))

    # Keys and clicks

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "agree":
            self._agree()
        elif self._read:
            self.action_leave()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The word; it is nobody's filter."""
        event.stop()
        self._weigh()
        typed = event.value.strip()
        self._hint = self._hint_of(self.stage) if (self._word or "").startswith(typed) else self._mismatch(typed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        if typed and self._word not in (None, typed):
            self._hint = self._mismatch(typed)
        self._agree()

    def _mismatch(self, typed: str) -> str:
        return f"{typed} does not match {self._word}: nothing was done. Correct it, or Esc cancels"

    def admits(self, event: events.Key) -> bool:
        """Whether a key is for what is shown. Asked before it is handed on, so that none overtakes another.

        Whoever begins to type the word has not meant the keys that its letters are; and Enter after a word that is typed while there is
        no plan yet cancels nothing.
        """
        if self.stage == "plan" and self._word and event.is_printable and event.character != " ":
            self.set_focus(self.query_one("#word", Input))
        return event.key != "enter" or self.stage != "looking"

    def on_key(self, event: events.Key) -> None:
        """The act's own key, where it agrees."""
        if self._again and event.character == self._act.first_key:
            event.stop()
            self._agree()

    def action_leave(self) -> None:
        """Cancel or close; what is running continues."""
        if self.stage == "doing":
            self._hint = f"Still running; q quits and aborts it. Log of actions: {abbreviate_home(audit_path())}"
        elif self.is_current and (self._read or self.stage != "receipt"):
            self.dismiss(self.receipt)

    def action_decline(self) -> None:
        """Cancel or close, by a letter; ignored until the plan is shown."""
        if self._read and self.stage != "looking":
            self.action_leave()

    async def action_quit(self) -> None:
        """Quit cockpit while something runs; otherwise close this dialog."""
        if self.stage == "doing":
            await self.app.action_quit()
        else:
            self.action_decline()

    def action_scroll(self, how: str) -> None:
        """Scroll the text, wherever the focus is."""
        getattr(self.query_one(PlanLines), how)(animate=False)


class PlanScreen(ActDialog):
    """One act, whose plan the executor makes and carries out."""

    def __init__(self, executor: ActionExecutor, act: Act, aim: Aim, clock: Callable[[], float]) -> None:
        super().__init__(act, clock)
        self._executor, self._carried_out, self._aim = executor, act, aim

    async def _look(self) -> None:
        try:
            self.plan = plan = await self._executor.plan(self._carried_out, self._aim, self._heard.__setitem__)
        except SourceError as error:
            text = f"{error}.\n{self._how_to_choose}" if isinstance(error, UnclearSessionError) else str(error)
            self._enter("failed", f"{self._act.title}: no plan could be made", text)
            return
        title, _, *lines = plan_lines(plan, self._clock())
        self._enter("nothing" if plan.empty else "plan", title, "\n".join(lines))

    @property
    def _how_to_choose(self) -> str:
        """A session where such a row can be chosen; else only a screen that follows one knows which is meant."""
        if self._act.also_takes is Session:
            return f"Press 2, Enter on its node, put the cursor on the session, press {self._act.first_key}"
        return "Choose one: quit, and start cockpit with --address"

    async def _do(self, plan: Plan) -> None:
        self._heard = {}
        self._enter("doing", f"{self._act.title}: running")
        try:
            self.receipt = receipt = await self._executor.perform(plan, self._heard.__setitem__)
        except SourceError as error:
            self._enter("failed", f"{self._act.title}: nothing was done", str(error))
            return
        title, _, *lines = receipt_lines(receipt)
        self._enter("receipt", title, "\n".join(lines))

    def _hint_of(self, stage: Stage) -> str:
        if stage == "receipt" and self._act.starts_job and self.receipt and self.receipt.done:
            return "Esc shows its log"
        return super()._hint_of(stage)


def sum_progress(heard: Mapping[str, Progress]) -> str:
    """`3 of 5, 2 hosts waiting, 29 running, 1 answered`: sums of what the hosts say."""
    measured = [progress for progress in heard.values() if progress.done is not None and progress.of is not None]
    states = Counter(progress.text if progress.text in ("waiting", "connecting", "answered") else "running" for progress in heard.values())
    done = [f"{sum(one.done or 0 for one in measured)} of {sum(one.of or 0 for one in measured)}"] if measured else []
    return ", ".join([*done, *(f"{plural(number, 'host')} {state}" for state, number in states.items())])
