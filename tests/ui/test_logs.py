"""`l`: which thing's log is opened, what its screen says, and how one switches between the logs of one thing."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from cockpit.model import Actor, Failure, Finding, Job, Node, PlacementGroup
from cockpit.sources.source import SourceError
from cockpit.ui.log_place import place_of
from cockpit.ui.log_view import LogView
from cockpit.ui.pages.details import detail_of
from cockpit.ui.screens.log import LogScreen
from tests.ui.screen import at, pages_of, press, running, shown, table_of, until
from tests.world import NOW, actor, finding, node, process, snapshot


def is_open(app):
    return lambda: isinstance(app.screen, LogScreen)


async def opened(app, pilot, *keys):
    await until(pilot, lambda: table_of(app).count > 0)
    await press(pilot, *keys, then=is_open(app))
    return app.screen


async def test_an_actors_logs_are_opened_from_its_row_and_switched_by_o(make):
    app = make(snapshot(actors=(actor(1),), placement_groups=()))
    logs = app.monitor.logs
    logs.found = (
        logs.log("out", ["said"], file="worker-" + "ab" * 28 + "-02000000-1001.out"),
        logs.log("err", ["complained"]),
        logs.log("job", ["step 1"], ended="the job has ended"),
    )
    async with app.run_test(size=(160, 40)) as pilot:
        await opened(app, pilot, "3", "end", "l")
        assert isinstance(logs.asked[0], Actor)
        await until(pilot, lambda: "said" in shown(app))
        await until(pilot, lambda: "Actor actor1: worker-abababab-02000000-1001.out on node1   the process has ended" in shown(app))
        assert "o: out  err  job" in shown(app)
        await press(pilot, "o", then=lambda: "complained" in shown(app) and "said" not in shown(app))
        assert "Actor actor1: err.log on node1" in shown(app)
        await press(pilot, "O", "O", then=lambda: "step 1" in shown(app) and "the job has ended" in shown(app))


async def test_the_log_of_a_job_that_is_over_says_since_when_and_never_that_it_is_live(make, clock):
    app, ended = make(), clock.now - 312
    log = app.monitor.logs.log("job", ["step 1"], ended="the job has ended", waits=True)
    app.monitor.logs.found = (replace(log, ended_at=lambda: ended),)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, "5", "l")
        await until(pilot, lambda: "step 1" in shown(app) and "the job has ended, 5m12s ago   1 line" in shown(app))
        assert "live" not in shown(app).splitlines()[0]
        clock.now += 60
        await until(pilot, lambda: "the job has ended, 6m12s ago" in shown(app))


async def test_a_log_without_lines_says_so_once(make):
    app = make()
    app.monitor.logs.found = (app.monitor.logs.log("out"), app.monitor.logs.log("err", waits=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, "5", "l")
        await until(pilot, lambda: shown(app).splitlines()[0].strip().endswith("out.log on node1   no lines: the process has ended"))
        await press(pilot, "o", then=lambda: shown(app).splitlines()[0].strip().endswith("err.log on node1   no lines yet"))


@pytest.mark.parametrize(("keys", "kind"), [(("2", "enter"), Node), (("3", "end", "enter"), Actor)])
async def test_on_the_page_of_a_thing_its_own_log_is_opened(make, keys, kind):
    first = snapshot(processes=(), actors=(actor(1),), placement_groups=())
    async with at(make(first), *keys, size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: len(pages_of(app).pages) == 2)
        await opened(app, pilot, "l")
        assert {type(thing) for thing in app.monitor.logs.asked} == {kind}


async def test_a_findings_log_is_that_of_what_it_is_about_in_its_own_order_opened_at_its_error(make):
    job = Job("ppo-7b", "02000000", "ppo-7b", "FAILED", ended=NOW)
    found = finding(code="job-failed", about=(job.key, node(2).key), evidence=("RuntimeError: NCCL timed out",))
    failure = Failure(job.key, NOW, text="RuntimeError: NCCL timed out\nrank 3", file="worker-1.err")
    app = make(snapshot(findings=(found,), jobs=(job,), failures=(failure,)))
    logs = app.monitor.logs
    logs.found = (logs.log("job"), logs.log("err", ["RuntimeError: NCCL timed out"], file="worker-1.err"))
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await opened(app, pilot, "6", "l")
        about, things = logs.asked[0]
        assert isinstance(about, Finding)
        assert [thing.key for thing in things] == [job.key, node(2).key]
        assert screen.marks == ("RuntimeError: NCCL timed out",)
        assert screen.log_open.label == "err"
        await until(pilot, lambda: "▌RuntimeError: NCCL timed out" in shown(app))


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_log_of_a_failed_job_opens_at_its_error_with_what_was_written_before_above_it(make, size):
    job = Job("ppo-7b", "02000000", "ppo-7b", "FAILED", ended=NOW)
    app = make(snapshot(jobs=(job,), failures=(Failure(job.key, NOW, text="ValueError: no step", file="job-driver-ppo-7b.log"),)))
    before, after = [f"step {number}" for number in range(400)], [f"INFO shutdown {number}" for number in range(400)]
    app.monitor.logs.batches = [[*before, "\x1b[31mValueError:  no step\x1b[0m"], after]
    async with app.run_test(size=size) as pilot:
        await opened(app, pilot, "5", "l")
        await until(pilot, lambda: "INFO shutdown 1" in shown(app) and "step 399" in shown(app))
        view = app.screen.query_one(LogView)
        drawn = [view.render_line(y).text.rstrip() for y in range(view.size.height)]
        assert drawn.index("▌ValueError:  no step") == view.size.height // 3 - 1
        assert not app.screen.query_one("#note").display
        await press(pilot, "slash", *"shutdown 399", "enter", then=lambda: "INFO shutdown 399" in shown(app))
        await press(pilot, "escape", "n", then=lambda: "▌ValueError:  no step" in shown(app))


async def test_an_error_that_is_not_among_the_lines_that_were_read_is_said_in_a_line_of_its_own(make):
    job = Job("ppo-7b", "02000000", "ppo-7b", "FAILED", ended=NOW)
    app = make(snapshot(jobs=(job,), failures=(Failure(job.key, NOW, text="ValueError: no step"),)))
    app.monitor.logs.batches = [["step 1", "step 2"]]
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, "5", "l")
        await until(pilot, lambda: "The line of the error is not among the 2 lines here" in shown(app))


@pytest.mark.parametrize(
    ("thing", "marks"),
    [
        (finding(code="job-failed", about=("job:a",)), ("ValueError: x",)),
        (finding(code="actor-restarting", about=(actor(1).key,)), ("torch.OutOfMemoryError: CUDA",)),
        (finding(code="job-stalled", about=("job:b",)), ("queue is empty",)),
        (finding(code="gpu-lags", about=("job:a",)), ()),
        (actor(1), ("torch.OutOfMemoryError: CUDA",)),
        (actor(2), ()),
        (node(1), ()),
    ],
)
def test_the_place_of_a_log_is_that_of_the_failure(thing, marks):
    jobs = (Job("a", "01000000", "a", "FAILED", ended=NOW), Job("b", "02000000", "b", "RUNNING"))
    failures = (
        Failure("job:a", NOW, text="ValueError: x\nmore"),
        Failure("job:b", text="queue is empty"),
        Failure(actor(1).key, 2.0, text="torch.OutOfMemoryError: CUDA"),
    )
    world = snapshot(jobs=jobs, actors=(actor(1), actor(2)), failures=failures)
    assert place_of(thing, world).marks == marks


def test_a_cause_in_cockpits_own_words_is_looked_for_in_no_log():
    job = Job("a", "01000000", "a", "FAILED", ended=NOW)
    failure = Failure(job.key, NOW, text="Ray killed it", cause="Ray killed it")
    assert place_of(job, snapshot(jobs=(job,), failures=(failure,))).marks == ()


async def test_where_there_is_no_log_one_sentence_says_why(make):
    app = make()
    app.monitor.logs.found = SourceError("no log of process 7: Ray writes none for it")
    async with running(app, size=(160, 40), notifications=True) as pilot:
        await press(pilot, "4", "l", then="no log of process 7")
        assert not isinstance(app.screen, LogScreen)


async def test_a_log_that_is_found_too_late_does_not_open_over_another_page(make):
    app, found = make(), asyncio.Event()

    async def logs_of(thing):
        await found.wait()
        return (app.monitor.logs.log("out"),)

    app.monitor.logs.logs_of = logs_of
    async with running(app, size=(160, 40)) as pilot:
        await pilot.press("2", "l", "5")
        found.set()
        await pilot.pause()
        await pilot.press("2")
        assert not isinstance(app.screen, LogScreen)


async def test_a_failure_is_the_state_of_that_log_alone(make):
    app = make(snapshot(actors=(actor(1),), placement_groups=()))
    logs = app.monitor.logs

    async def follow(lines, on):
        raise SourceError("the probe of node2 did not answer")
        yield ()

    broken = logs.log("out")
    app.monitor.logs.found = (type(broken)("out", "a.out", "node2", follow), logs.log("job", ["step 1"]))
    async with app.run_test(size=(160, 40)) as pilot:
        await opened(app, pilot, "3", "end", "l")
        await until(pilot, lambda: "can't be read: the probe of node2 did not answer" in shown(app))
        await press(pilot, "o", then=lambda: "step 1" in shown(app) and "can't be read" not in shown(app))


def test_a_title_begins_with_what_people_call_it():
    things = (actor(1), process(7), node(2), Job("x"), PlacementGroup("7" * 36, "vllm"), finding())
    assert [detail_of(one).heading for one in things] == [
        "Actor actor1",
        "Process 7",
        "Node node2",
        "Job x",
        "Placement group vllm",
        "Finding node2 GPU 3",
    ]
