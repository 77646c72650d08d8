"""The dialog of a preset's runbook: its steps, the one question, and how far each step is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, SelectionList
from textual.widgets.selection_list import Selection

from cockpit.acts.act import Runbook
from cockpit.acts.plan import Plan
from cockpit.acts.recover.runbook import Recovery
from cockpit.acts.recover.step_state import NAMES, Step, StepError, StepState
from cockpit.acts.text import plan_lines
from cockpit.config.document import InputError
from cockpit.presets import Preset
from cockpit.sources.source import SourceError
from cockpit.text import age, plural
from cockpit.ui.screens.plan import ActDialog, PlanLines, Stage
from cockpit.ui.services import RunbookFactory

SIGNS: Final[dict[StepState, tuple[str, str]]] = {
    "waiting": ("·", "."),
    "planned": ("·", "."),
    "running": ("▸", ">"),
    "done": ("✓", "+"),
    "failed": ("✖", "X"),
    "skipped": ("–", "-"),
}


class RecoverScreen(ActDialog):
    """One question for the whole runbook; then its steps, until all are done or one has failed, from which it can go on."""

    DEFAULT_CSS = """
    RecoverScreen SelectionList { height: auto; max-height: 25vh; border: none; padding: 0; background: $panel; scrollbar-size: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.focus_next", "Next", show=False)]

    def __init__(
        self,
        make: RunbookFactory,
        ending: list[Callable[[], None]],
        act: Runbook,
        preset: Preset,
        clock: Callable[[], float],
        *,
        ascii: bool,
    ) -> None:
        super().__init__(act, clock)
        self._make, self._ending, self._preset, self._ascii = make, ending, preset, ascii
        self._recovery: Recovery | None = None
        self._open = AsyncExitStack()
        self._begin, self._has_stopped = NAMES[0], False
        self._skip: tuple[str, ...] = ()

    def choices(self) -> ComposeResult:
        """The steps: Space leaves one out."""
        yield SelectionList[str](id="steps")

    # What becomes of it

    async def _look(self) -> None:
        try:
            await self._open.aclose()
            making = self._make(self._preset, begin=self._begin, skip=self._skip, ending=self._ending)
            self._recovery = recovery = await self._open.enter_async_context(making)
            self._fill_choices(recovery.steps)
            self.plan = plan = await recovery.plan(self._heard.__setitem__)
        except (StepError, SourceError, InputError) as error:
            self._enter("failed", f"Recover {self._preset.name}: no plan could be made", str(error))
            return
        used = sum(step.state != "skipped" for step in recovery.steps)
        self._enter("plan", f"Recover {self._preset.name}: {plural(used, 'step')}", "\n".join(self._plan_texts(plan)))

    def _plan_texts(self, plan: Plan) -> Iterator[str]:
        """The plan's lines, what ends with it first: that is what the user agrees to."""
        if plan.empty:
            yield from (f"On {', '.join(plan.hosts)}", "", *(f"  {note}" for note in plan.notes))
            return
        title, _, *lines = plan_lines(plan, self._clock())
        yield from (title, "", *lines)

    async def _do(self, plan: Plan) -> None:  # noqa: ARG002 the runbook keeps its own
        recovery = self._recovery
        if recovery is None:
            return
        self._heard = {}
        self._enter("doing", f"Recover {self._preset.name}: running")
        async for step in recovery.run():
            self._show(recovery.steps)
            self._say("#title", f"Recover {self._preset.name}: {step.title}")
        self._finish(recovery)

    def _show(self, steps: Sequence[Step]) -> None:
        """All of them where there is room; else what has been done last."""
        lines = self.query_one(PlanLines)
        lines.show("\n".join(self._step_texts(steps)))
        self.fit()
        waiting = sum(step.state == "waiting" for step in steps)
        lines.scroll_to(y=max(0, lines.count - waiting - lines.size.height), animate=False)

    def _finish(self, recovery: Recovery) -> None:
        texts, failed = list(self._step_texts(recovery.steps)), recovery.failed
        if failed is None:
            self.receipt = next((receipt for step in recovery.steps if step.name == "launch" for receipt in step.receipts), None)
            self._enter("receipt", f"Recover {self._preset.name}: done", "\n".join(texts))
            return
        state = [f"  {line}" for line in recovery.left]
        text = "\n".join([*texts, "", *(["State now"] if state else []), *state])
        self._begin, self._has_stopped = failed.go_on, True
        self._skip = tuple(name for name in self._skip if NAMES.index(name) >= NAMES.index(self._begin))
        self._enter("failed", f"Recover {self._preset.name}: stopped at {failed.title}", text)
        agree = self.query_one("#agree", Button)
        agree.label, agree.display = Content(f"Continue at {failed.title}"), True
        self._hint = "Fix the cause, then continue at this step: cockpit checks again first. Esc closes"

    def _weigh(self) -> None:
        """After a failure, allow to continue once the reason could be read."""
        super()._weigh()
        if self.stage == "failed" and self._has_stopped:
            self.query_one("#agree", Button).disabled = not self._read

    def _agree(self) -> None:
        if self.stage == "failed" and self._read and self._has_stopped:
            self._look_again()
        else:
            super()._agree()

    def _look_again(self) -> None:
        self._heard, self._has_stopped = {}, False
        self._enter("looking", f"{self._act.title}: checking")
        self.query_one("#agree", Button).label = Content(self._act.title)
        self.run_worker(self._look(), exclusive=True, group="look")

    async def on_unmount(self) -> None:
        """What was opened for it ends with it."""
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

    def _fill_choices(self, steps: Sequence[Step]) -> None:
        """List the steps. A step that the runbook itself skips, such as one before the first step, can't be ticked."""
        choices = self.query_one(SelectionList)
        with self.prevent(SelectionList.SelectedChanged):
            choices.clear_options()
            for step in steps:
                is_skipped = step.state == "skipped"
                text, is_fixed = Content(f"{step.title}: {step.will}"), is_skipped and step.name not in self._skip
                choices.add_option(Selection(text, step.name, not is_skipped, disabled=is_fixed))

    def _enter(self, stage: Stage, title: str, text: str = "") -> None:
        super()._enter(stage, title, text)
        self.query_one(SelectionList).display = stage in ("looking", "plan")

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[str]) -> None:
        """Other steps are another plan."""
        event.stop()
        if self.stage != "plan" or self._recovery is None:
            return
        free = [step.name for step in self._recovery.steps if step.state != "skipped" or step.name in self._skip]
        self._skip = tuple(name for name in free if name not in event.selection_list.selected)
        self._look_again()
        self.set_focus(event.selection_list)
