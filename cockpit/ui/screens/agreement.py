"""Shows a plan that an agent wants carried out, with the agent's reason, and passes the person's decision on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from textual import events

from cockpit.actions.action import Action
from cockpit.actions.agreement import MAX_REASON_CHARS, Asked
from cockpit.actions.plan import Plan
from cockpit.actions.plan_text import name_ray, plan_lines, receipt_lines
from cockpit.text import clean
from cockpit.ui.screens.plan import ActionDialog

MAX_CLIENT_CHARS: Final = 40


class AgreementScreen(ActionDialog):
    """The dialog. The agent's server performs the plan; this screen shows its receipt."""

    reading_s: ClassVar[float] = 1.5
    """Longer than in a dialog that its user has opened: this one may appear while somebody types."""

    def __init__(self, asked: Asked, action: Action, clock: Callable[[], float]) -> None:
        super().__init__(action, clock)
        self._asked = asked

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._follow())

    async def _make_plan(self) -> None:
        """Show the plan as it has come: nothing was planned here. The agent's words stand last, each line marked as a quotation."""
        laid_out = asyncio.Event()
        self.call_after_refresh(laid_out.set)
        await laid_out.wait()  # before that, the text would be folded to a dialog without a width
        question = self._asked.question
        self.plan = plan = question.plan
        title, _, *lines = plan_lines(plan, self._clock())
        client = clean(question.client)[:MAX_CLIENT_CHARS] or "a program without a name"
        reason = clean(question.reason)[:MAX_REASON_CHARS] or "none"
        head = ["Asked by an agent", f"  {client} (pid {self._asked.pid})", f"  Ray: {name_ray(plan)}"]
        said = ["", "Its reason, in its own words", f"  “{reason}”"]
        text = "\n".join(clean(line) for line in (*head, "", *lines, *said))
        self._show_stage("nothing" if plan.empty else "plan", f"An agent asks. {title}", text)

    async def _perform(self, plan: Plan) -> None:
        self._show_stage("doing", f"{plan.title}: running")
        self._asked.decide(agreed=True)

    async def _follow(self) -> None:
        """Show the outcome; or that nobody waits for the decision any more."""
        outcome = await self._asked.outcome
        if outcome.receipt is None:
            what = "not decided here"
            if self.stage == "doing":
                what = "nothing was done" if outcome.error else "its outcome is unknown"
            gone = "the agent's server is gone; the action log says what it has done"
            self._show_stage("failed", f"{self._action.title}: {what}", clean(outcome.error) or gone)
            return
        self.receipt = outcome.receipt
        title, _, *lines = receipt_lines(outcome.receipt)
        self._show_stage("receipt", title, "\n".join(lines))

    def accepts_key(self, event: events.Key) -> bool:
        """No letter that was typed ahead: somebody may have been writing just this word, as the name of a job, elsewhere."""
        return super().accepts_key(event) and (self._is_answerable or not event.is_printable)

    @property
    def _key_confirms(self) -> bool:
        """Never: nobody has pressed the action's key here."""
        return False

    def on_unmount(self) -> None:
        """Whatever closes the dialog without a yes is a no."""
        self._asked.decide(agreed=False)
