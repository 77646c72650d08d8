"""Shows the dialog of a preset's runbook: lists its steps, asks once for confirmation, then shows the progress of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, SelectionList
from textual.widgets.selection_list import Selection

from cockpit.actions.action import Runbook
from cockpit.actions.plan import Plan
from cockpit.actions.plan_text import plan_lines
from cockpit.actions.recover.runbook import Recovery
from cockpit.actions.recover.step_state import NAMES, Step, StepError, StepState
from cockpit.config.document import InputError
from cockpit.presets import Preset
from cockpit.sources.source import SourceError
from cockpit.text import age, plural
from cockpit.ui.screens.plan import LINES_AROUND, MIN_LINES, ActionDialog, PlanLines, Stage
from cockpit.ui.services import RunbookFactory

SIGNS: Final[dict[StepState, tuple[str, str]]] = {
    "waiting": ("·", "."),
    "planned": ("·", "."),
    "running": ("▸", ">"),
    "done": ("✓", "+"),
    "failed": ("✖", "X"),
    "skipped": ("–", "-"),
}


class RecoverScreen(ActionDialog):
    """Asks once for the whole runbook, then runs its steps. After a failure it can continue at the failed step."""

    DEFAULT_CSS = """
    RecoverScreen SelectionList { height: auto; max-height: 25vh; border: none; padding: 0; background: $panel; scrollbar-size: 0 1; }
    RecoverScreen SelectionList:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.focus_next", "Next", show=False)]

    def __init__(
        self,
        make: RunbookFactory,
        ending: list[Callable[[], None]],
        action: Runbook,
        preset: Preset,
        clock: Callable[[], float],
        *,
        ascii: bool,
    ) -> None:
        super().__init__(action, clock)
        self._make, self._ending, self._preset, self._ascii = make, ending, preset, ascii
        self._recovery: Recovery | None = None
        self._open = AsyncExitStack()
        self._title = f"Recover {preset.name}"
        self._first_step, self._has_stopped = NAMES[0], False
        self._skip: tuple[str, ...] = ()

    def compose_choices(self) -> ComposeResult:
        """The list of steps. Space leaves one out."""
        yield SelectionList[str](id="steps")

    # Stages

    async def _make_plan(self) -> None:
        try:
            await self._open.aclose()
            making = self._make(self._preset, begin=self._first_step, skip=self._skip, ending=self._ending)
            self._recovery = recovery = await self._open.enter_async_context(making)
            self._list_steps(recovery.steps)
            self.plan = plan = await recovery.plan(self._progress.__setitem__)
        except (StepError, SourceError, InputError) as error:
            self._show_stage("failed", f"{self._title}: no plan could be made", str(error))
            return
        used = sum(step.state != "skipped" for step in recovery.steps)
        if plan.empty:
            lines = [f"On {', '.join(plan.hosts)}", "", *(f"  {note}" for note in plan.notes)]
        else:
            lines = plan_lines(plan, self._clock())
        self._show_stage("plan", f"{self._title}: {plural(used, 'step')}", "\n".join(lines))

    async def _perform(self, plan: Plan) -> None:  # noqa: ARG002 the runbook keeps its own plan
        recovery = self._recovery
        if recovery is None:
            return
        self._progress = {}
        self._show_stage("doing", f"{self._title}: running")
        async for step in recovery.run():
            # Show all steps if there is room, else the end of the steps that have begun.
            lines = self.query_one(PlanLines)
            lines.show("\n".join(self._step_texts(recovery.steps)))
            self.fit()
            waiting = sum(each.state == "waiting" for each in recovery.steps)
            lines.scroll_to(y=max(0, lines.count - waiting - lines.size.height), animate=False)
            self._set_label("#title", f"{self._title}: {step.title}")
        texts, failed = list(self._step_texts(recovery.steps)), recovery.failed
        if failed is None:
            self.receipt = next((receipt for step in recovery.steps if step.name == "launch" for receipt in step.receipts), None)
            self._show_stage("receipt", f"{self._title}: done", "\n".join(texts))
            return
        state = [f"  {line}" for line in recovery.state_now]
        text = "\n".join([*texts, "", *(["State now"] if state else []), *state])
        self._first_step, self._has_stopped = failed.go_on, True
        self._skip = tuple(name for name in self._skip if NAMES.index(name) >= NAMES.index(self._first_step))
        self._show_stage("failed", f"{self._title}: stopped at {failed.title}", text)
        agree = self.query_one("#agree", Button)
        agree.label, agree.display = Content(f"Continue at {failed.title}"), True
        self._hint = "Fix the cause, then continue at this step: cockpit checks again first. Esc closes"

    def _update_button(self) -> None:
        """After a failure, allow to continue once the user could read the reason."""
        super()._update_button()
        if self.stage == "failed" and self._has_stopped:
            self.query_one("#agree", Button).disabled = not self._is_answerable

    def _confirm(self) -> None:
        if self.stage == "failed" and self._is_answerable and self._has_stopped:
            self._plan_again()
        else:
            super()._confirm()

    def _plan_again(self) -> None:
        self._progress, self._has_stopped = {}, False
        self._show_stage("looking", f"{self._action.title}: checking")
        self.query_one("#agree", Button).label = Content(self._action.title)
        self.run_worker(self._make_plan(), exclusive=True, group="plan")

    async def on_unmount(self) -> None:
        """Close the runbook's monitor and executor."""
        await self._open.aclose()

    # Steps

    def _step_texts(self, steps: Sequence[Step]) -> Iterator[str]:
        for step in steps:
            took = f"  {age(step.took)}" if step.took is not None else ""
            yield f"  {SIGNS[step.state][self._ascii]} {step.title}{took}"
            if step.state == "running":
                yield f"      {step.will}"
                yield from (f"      {host}  {text}" for host, text in step.hosts.items())
            yield from (f"      {line}" for line in step.lines)
            if step.error:
                yield f"      {step.error}"

    def _list_steps(self, steps: Sequence[Step]) -> None:
        """List the steps, and keep the cursor. A step that the runbook itself skips, such as one before the first, can't be ticked."""
        choices = self.query_one(SelectionList)
        cursor = choices.highlighted
        with self.prevent(SelectionList.SelectedChanged):
            choices.clear_options()
            for step in steps:
                is_skipped = step.state == "skipped"
                text, is_fixed = Content(f"{step.title}: {step.will}"), is_skipped and step.name not in self._skip
                choices.add_option(Selection(text, step.name, not is_skipped, disabled=is_fixed))
        choices.highlighted = cursor

    def _show_stage(self, stage: Stage, title: str, text: str = "") -> None:
        """Show another stage. While the user chooses steps, the focus stays on their list."""
        choices = self.query_one(SelectionList)
        is_choosing = self.focused is choices
        choices.display = stage in ("looking", "plan")
        super()._show_stage(stage, title, text)
        if is_choosing and choices.display:
            self.set_focus(choices)

    def fit(self) -> None:
        """Make the dialog as high as its lines and the list of steps need."""
        choices = self.query_one(SelectionList)
        steps = choices.option_count if choices.display else 0
        self.query_one("#dialog").styles.height = max(MIN_LINES, self.query_one(PlanLines).count + steps + LINES_AROUND)

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[str]) -> None:
        """Make another plan for the chosen steps."""
        event.stop()
        if self.stage != "plan" or self._recovery is None:
            return
        free = [step.name for step in self._recovery.steps if step.state != "skipped" or step.name in self._skip]
        self._skip = tuple(name for name in free if name not in event.selection_list.selected)
        self._plan_again()
