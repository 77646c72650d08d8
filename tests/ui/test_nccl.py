"""The key N: NCCL's report about one job, and a question before an old NCCL is asked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Communicator, CountGap, CountGroup, Finding, Job, NcclRank, NcclReport
from cockpit.ui.screens.dialogs import ConfirmDialog, TextScreen
from cockpit.ui.screens.stacks import running_job_of
from tests.ui import recordings
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import footer, is_past, press, running, said, shown, table_of, until
from tests.world import NOW, actor, process, snapshot

RANK = NcclRank(rank=3, address="10.0.0.1", pid=1001, gpu=0, process=process(1001).key)
GAP = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (RANK,))))
REPORT = NcclReport(
    job="job:ppo-7b", asked=NOW, versions=("2.29.7",), number=1, communicators=(Communicator(hash="0x1", size=8, gaps=(GAP,)),)
)
BEHIND = "is 1 AllReduce behind the 7 others"


@pytest.fixture
def asked(make):
    """The screen of a cluster whose NCCL answers."""

    def app(*, old=False, report=REPORT, executor=True, **more):
        made = make(executor=FakeExecutor() if executor else None, **more)
        monitor = made.services.monitor
        monitor.nccl.old, monitor.nccl.report = old, report
        return made

    return app


async def on_the_job(pilot):
    await press(pilot, "5", then="ppo-7b")
    table = table_of(pilot.app)
    for _ in range(table.count):
        if isinstance(thing := getattr(table.selected, "about", table.selected), Job) and thing.id == "ppo-7b":
            return
        await pilot.press("j")
    raise AssertionError("the job is not listed")


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_n_on_a_job_shows_who_is_behind_and_who_says_what(asked, size):
    app = asked()
    async with running(app, size=size) as pilot:
        await on_the_job(pilot)
        await press(pilot, "N", then="Who says what")
        text = app.screen.text
        assert "rank 3 (PolicyModelActor actor1, node1 GPU 0, pid 1001) " + BEHIND in text
        assert "titles" in text
        assert app.services.monitor.nccl.asked == [("ppo-7b", False)]
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, TextScreen))


async def test_the_footer_offers_it_on_a_job(asked):
    async with running(asked(), size=(160, 40)) as pilot:
        await on_the_job(pilot)
        assert "NCCL" in footer(pilot.app)
        await press(pilot, "2", then="node2")
        assert "NCCL" not in footer(pilot.app)


async def test_an_old_nccl_is_asked_only_after_a_yes_that_was_not_typed_ahead(asked):
    app = asked(old=True)
    nccl = app.services.monitor.nccl
    async with running(app) as pilot:
        await on_the_job(pilot)
        await press(pilot, "N", "y", then="can read wrong memory inside the training")
        assert nccl.asked == [("ppo-7b", False)], "y was typed before the question was there"
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, ConfirmDialog))
        assert nccl.asked == [("ppo-7b", False)]
        await press(pilot, "N", then=lambda: isinstance(app.screen, ConfirmDialog))
        assert "NCCL 2.27.5 runs on node1" in shown(app)
        await press(pilot, "enter", then=lambda: isinstance(app.screen, ConfirmDialog))
        await until(pilot, lambda: app.screen._is_answerable)
        await press(pilot, "y", then=BEHIND)
        assert nccl.asked[-1] == ("ppo-7b", True)


async def test_with_readonly_an_old_nccl_is_never_asked(asked):
    app = asked(old=True, executor=False, readonly=True)
    async with running(app, notifications=True) as pilot:
        await on_the_job(pilot)
        await press(pilot, "N", then=lambda: "not asked, cockpit is read-only" in said(app))
        assert app.services.monitor.nccl.asked == [("ppo-7b", False)]


async def test_a_failure_is_a_notice(asked):
    app = asked(report=None)
    async with running(app, notifications=True) as pilot:
        await on_the_job(pilot)
        await press(pilot, "N", then=lambda: "no process of job ppo-7b with a GPU is known" in said(app))


async def test_on_anything_else_it_says_what_it_needs(asked):
    app = asked()
    async with running(app, notifications=True) as pilot:
        await press(pilot, "2", "N", then=lambda: "NCCL needs one running job" in said(app))
        assert app.services.monitor.nccl.asked == []


@pytest.mark.parametrize("reports", [(REPORT,), ()])
async def test_in_the_past_it_shows_the_report_of_that_moment(make, monkeypatch, reports):
    past = recordings.state_at
    monkeypatch.setattr(recordings, "state_at", lambda taken: replace(past(taken), nccl=reports))
    app = make()
    app.services.recorded = recordings.recorded()
    async with running(app, notifications=True) as pilot:
        await on_the_job(pilot)
        await press(pilot, "left_square_bracket", then=lambda: is_past(app) and app.page_screen.reading.is_finished)
        expected = BEHIND if reports else "it was not asked about this job until then"
        await press(pilot, "N", then=lambda: expected in shown(app) + said(app))
        assert app.services.monitor.nccl.asked == []


def test_a_job_is_meant_by_its_row_its_actors_processes_and_findings():
    shown_now = snapshot()
    running_job = next(job for job in shown_now.jobs if job.id == "ppo-7b")
    hung = Finding("job-hung", "critical", "job ppo-7b", "…", about=(running_job.key,))
    for row in (running_job, hung, actor(1), process(1001, job="02000000")):
        assert running_job_of([row], shown_now) == running_job
    ended = next(job for job in shown_now.jobs if not job.running)
    other = replace(running_job, id="other", job="03000000")
    assert running_job_of([ended], shown_now) is None
    assert running_job_of([running_job, other], shown_now) is None
    assert running_job_of([process(7, job=None)], shown_now) is None
