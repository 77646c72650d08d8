from __future__ import annotations

from contextlib import asynccontextmanager

from msgspec.structs import replace

from cockpit.actions.plan import Plan, Target
from cockpit.actions.recover.step_state import NAMES, StepError, steps_of
from cockpit.sources.probes.requests import Progress
from cockpit.ui.screens.recover import RecoverScreen
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, press, shown, until
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
        self.failed, self.state_now = None, ()

    @asynccontextmanager
    async def __call__(self, preset, *, begin, skip, ending):
        self.made.append((begin, tuple(skip)))
        names = [name for name in NAMES[NAMES.index(begin) :] if name not in skip]
        self.steps = tuple(replace(step, state="waiting" if step.name in names else "skipped") for step in steps_of(job=True, follow=True))
        self.failed, self.state_now = None, ()
        yield self
        self.closed += 1

    async def plan(self, on_progress):
        on_progress("head", Progress("looking"))
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
                self.state_now, self.fails = ("Ray is stopped on head",), None
                yield self.failed
                return
            yield self._become(step.name, state="done", took=1.0, lines=(f"{step.name} went well",))

    def _become(self, name, **news):
        self.steps = tuple(replace(step, **news) if step.name == name else step for step in self.steps)
        return next(step for step in self.steps if step.name == name)


def is_answerable(app, *stages):
    return lambda: isinstance(app.screen, RecoverScreen) and app.screen.stage in stages and app.screen._is_answerable


@asynccontextmanager
async def begun(make, folder, book):
    """The dialog of a preset, once it may be answered."""
    folder.mkdir(parents=True)
    (folder / "small.yaml").write_text(PRESET)
    async with at(make(snapshot(), executor=FakeExecutor(), runbook=book), "7", size=(120, 50), then="small") as (app, pilot):
        await press(pilot, "/", *"small", "enter", "R", then=is_answerable(app, "plan", "failed"))
        yield app, pilot


async def agreed(pilot, app, *stages):
    await pilot.click("#agree")
    await until(pilot, is_answerable(app, *(stages or ("receipt", "failed"))))


async def toggled(pilot, app, book, step):
    """After the box of a step was ticked or cleared, when there is a new plan."""
    plans = len(book.made)
    steps = app.screen.query_one("#steps")
    app.screen.set_focus(steps)
    steps.highlighted = NAMES.index(step)
    await press(pilot, "space", then=lambda: len(book.made) > plans and is_answerable(app, "plan")())


def unavailable(app):
    """The steps that can't be ticked."""
    options = app.screen.query_one("#steps").options
    return [option.value for option in options if option.disabled]


async def test_one_question_with_all_that_ends_and_all_steps(make, folder):
    book = Book()
    async with begun(make, folder, book) as (app, pilot):
        assert "job train1 ends with it" in shown(app)
        assert "Kill orphans: kill orphan and stale processes" in shown(app)
        assert "more line" not in shown(app), "there is room for the whole plan below the steps"
        assert app.focused.id == "leave"
        await press(pilot, "escape", then=lambda: len(app.screen_stack) == 1)
        assert (book.ran, book.closed) == (0, 1)


async def test_all_steps_are_told_to_their_end(make, folder):
    async with begun(make, folder, Book()) as (app, pilot):
        await agreed(pilot, app)
        assert app.screen.stage == "receipt"
        assert "follow went well" in shown(app)


async def test_a_step_that_fails_is_gone_on_with_after_another_look(make, folder):
    book = Book(fails="start")
    async with begun(make, folder, book) as (app, pilot):
        await agreed(pilot, app)
        for words in ("stopped at Start Ray", "port 6379 is taken", "Ray is stopped on head"):
            assert words in shown(app)
        await agreed(pilot, app, "plan")
        assert book.made[-1] == ("start", ())
        assert unavailable(app) == list(NAMES[: NAMES.index("start")])
        await agreed(pilot, app)
        assert app.screen.stage == "receipt"
        assert "✓ Start Ray" in shown(app)


async def test_a_step_can_be_left_out_and_not_be_ticked_once_it_lies_before_the_step_to_continue_at(make, folder):
    book = Book(fails="start")
    async with begun(make, folder, book) as (app, pilot):
        await toggled(pilot, app, book, "clean")
        assert book.made[-1] == ("stop", ("clean",))
        assert unavailable(app) == []
        await toggled(pilot, app, book, "clean")
        assert book.made[-1] == ("stop", ())
        await toggled(pilot, app, book, "clean")
        await agreed(pilot, app)
        await agreed(pilot, app, "plan")
        assert book.made[-1] == ("start", ())
        assert unavailable(app) == list(NAMES[: NAMES.index("start")])


async def test_the_cursor_stays_on_the_step_that_was_ticked(make, folder):
    """The next press of a key is meant for the list, while there is no plan and when there is a new one."""
    book = Book()
    async with begun(make, folder, book) as (app, pilot):
        steps = app.screen.query_one("#steps")
        app.screen.set_focus(steps)
        steps.highlighted = 2
        await press(pilot, "space", then=lambda: len(book.made) == 2 and is_answerable(app, "plan")())
        assert (app.focused, steps.highlighted) == (steps, 2)
        await press(pilot, "down", "space", then=lambda: len(book.made) == 3 and is_answerable(app, "plan")())
        assert (app.focused, steps.highlighted) == (steps, 3)
        assert book.made[-1][1] == tuple(NAMES[2:4])


async def test_live_work_asks_for_its_name(make, folder):
    async with begun(make, folder, Book(word="train1")) as (app, pilot):
        assert app.screen.query_one("#agree").disabled
        await press(pilot, *"train1", "enter", then=lambda: app.screen.stage == "receipt")


async def test_what_can_not_end_well_is_not_begun(make, folder):
    async with begun(make, folder, Book(refuses="w1 can't be reached")) as (app, _):
        assert app.screen.stage == "failed"
        assert "w1 can't be reached" in shown(app)
        assert not app.screen.query_one("#agree").display
