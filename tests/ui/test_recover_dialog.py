from __future__ import annotations

from contextlib import asynccontextmanager

from msgspec.structs import replace

from cockpit.actions.plan import Plan, Target
from cockpit.actions.recover.step_state import NAMES, StepError, steps_of
from cockpit.sources.probes.requests import Progress
from cockpit.ui.screens.recover import RecoverScreen
from tests.ui.conftest import Hand
from tests.ui.screen import at, shown, until
from tests.world import snapshot

PRESET = """
ray: {head: {host: head, num_gpus: 8}, workers: [w1]}
job: {entrypoint: python train.py}
"""


class Book:
    """Stands where the runbook does: its steps become what a test says."""

    def __init__(self, *, fails=None, word=None, refuses=None):
        self.fails, self.word, self.refuses = fails, word, refuses
        self.made, self.closed, self.ran = [], 0, 0
        self.failed, self.left = None, ()

    @asynccontextmanager
    async def __call__(self, preset, *, begin, skip, ending):
        self.made.append((begin, tuple(skip)))
        names = [name for name in NAMES[NAMES.index(begin) :] if name not in skip]
        self.steps = tuple(replace(step, state="waiting" if step.name in names else "skipped") for step in steps_of(job=True, follow=True))
        self.failed, self.left = None, ()
        yield self
        self.closed += 1

    async def plan(self, hear):
        hear("head", Progress("looking"))
        if self.refuses:
            raise StepError(self.refuses)
        targets = (Target("process", "head", pid=7, part="raylet", kind="ray", command="raylet"),)
        return Plan("stop", "Stop Ray", targets, losses=("job train1 ends with it",), hosts=("head", "w1"), word=self.word)

    async def run(self):
        self.ran += 1
        for step in [step for step in self.steps if step.state != "skipped"]:
            yield self._become(step.name, state="running", hosts={"w1": "starting"})
            if step.name == self.fails:
                self.failed = self._become(step.name, state="failed", error="port 6379 is taken", took=1.0)
                self.left, self.fails = ("Ray is stopped on head",), None
                yield self.failed
                return
            yield self._become(step.name, state="done", took=1.0, lines=(f"{step.name} went well",))

    def _become(self, name, **news):
        self.steps = tuple(replace(step, **news) if step.name == name else step for step in self.steps)
        return next(step for step in self.steps if step.name == name)


async def begun(pilot, app, folder):
    folder.mkdir(parents=True)
    (folder / "small.yaml").write_text(PRESET)
    await pilot.press("7")
    await until(pilot, lambda: "small" in shown(app))
    await pilot.press("/", *"small", "enter", "R")
    await until(
        pilot, lambda: isinstance(app.screen, RecoverScreen) and app.screen.stage in ("plan", "failed") and app.screen._is_answerable
    )


async def agreed(pilot, app):
    await pilot.click("#agree")
    await until(pilot, lambda: app.screen.stage in ("receipt", "failed") and app.screen._is_answerable)


def unavailable(app):
    """The steps that can't be ticked."""
    options = app.screen.query_one("#steps").options
    return [option.value for option in options if option.disabled]


async def test_one_question_with_all_that_ends_and_all_steps(make, folder):
    book = Book()
    async with at(make(snapshot(), hand=Hand(), runbook=book)) as (app, pilot):
        await begun(pilot, app, folder)
        text = shown(app)
        assert "job train1 ends with it" in text
        assert "Kill orphans: kill orphan and stale processes" in text
        assert app.focused.id == "leave"
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert not book.ran
        assert book.closed == 1


async def test_all_steps_are_told_to_their_end(make, folder):
    book = Book()
    async with at(make(snapshot(), hand=Hand(), runbook=book), size=(120, 50)) as (app, pilot):
        await begun(pilot, app, folder)
        await agreed(pilot, app)
        assert app.screen.stage == "receipt"
        assert "follow went well" in shown(app)


async def test_a_step_that_fails_is_gone_on_with_after_another_look(make, folder):
    book = Book(fails="start")
    async with at(make(snapshot(), hand=Hand(), runbook=book), size=(120, 50)) as (app, pilot):
        await begun(pilot, app, folder)
        await agreed(pilot, app)
        text = shown(app)
        assert "stopped at Start Ray" in text
        assert "port 6379 is taken" in text
        assert "Ray is stopped on head" in text
        await pilot.click("#agree")
        await until(pilot, lambda: app.screen.stage == "plan" and app.screen._is_answerable)
        assert book.made[-1] == ("start", ())
        assert unavailable(app) == list(NAMES[: NAMES.index("start")])
        await agreed(pilot, app)
        assert app.screen.stage == "receipt"
        assert "✓ Start Ray" in shown(app)


async def test_a_step_can_be_left_out(make, folder):
    book = Book()
    async with at(make(snapshot(), hand=Hand(), runbook=book), size=(120, 50)) as (app, pilot):
        await begun(pilot, app, folder)
        await pilot.press("shift+tab")
        steps = app.screen.query_one("#steps")
        app.screen.set_focus(steps)
        steps.highlighted = NAMES.index("clean")
        await pilot.press("space")
        await until(pilot, lambda: len(book.made) == 2 and app.screen.stage == "plan" and app.screen._is_answerable)
        assert book.made[-1] == ("stop", ("clean",))
        assert unavailable(app) == []
        app.screen.set_focus(steps)
        steps.highlighted = NAMES.index("clean")
        await pilot.press("space")
        await until(pilot, lambda: len(book.made) == 3 and app.screen.stage == "plan" and app.screen._is_answerable)
        assert book.made[-1] == ("stop", ())


async def test_a_step_that_was_left_out_and_lies_before_the_step_to_continue_at_can_not_be_ticked(make, folder):
    book = Book(fails="start")
    async with at(make(snapshot(), hand=Hand(), runbook=book), size=(120, 50)) as (app, pilot):
        await begun(pilot, app, folder)
        steps = app.screen.query_one("#steps")
        app.screen.set_focus(steps)
        steps.highlighted = NAMES.index("clean")
        await pilot.press("space")
        await until(pilot, lambda: len(book.made) == 2 and app.screen.stage == "plan" and app.screen._is_answerable)
        await agreed(pilot, app)
        await pilot.click("#agree")
        await until(pilot, lambda: app.screen.stage == "plan" and app.screen._is_answerable)
        assert book.made[-1] == ("start", ())
        assert unavailable(app) == list(NAMES[: NAMES.index("start")])


async def test_live_work_asks_for_its_name(make, folder):
    book = Book(word="train1")
    async with at(make(snapshot(), hand=Hand(), runbook=book)) as (app, pilot):
        await begun(pilot, app, folder)
        assert app.screen.query_one("#agree").disabled
        await pilot.press(*"train1", "enter")
        await until(pilot, lambda: app.screen.stage == "receipt")


async def test_what_can_not_end_well_is_not_begun(make, folder):
    book = Book(refuses="w1 can't be reached")
    async with at(make(snapshot(), hand=Hand(), runbook=book)) as (app, pilot):
        await begun(pilot, app, folder)
        assert app.screen.stage == "failed"
        assert "w1 can't be reached" in shown(app)
        assert not app.screen.query_one("#agree").display
