"""The past on the screen: how one gets there and back, and that nothing of it can be taken for now."""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import asynccontextmanager

import pytest
from textual import events

from cockpit.sources.source import SourceError
from cockpit.times.moments import format_time
from cockpit.ui.pages.findings import FindingsPage
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.memory import MemoryPage
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.screens.dialogs import NameDialog
from cockpit.ui.screens.help import HelpScreen
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.log import LogScreen
from cockpit.ui.screens.replay import STEP_S, ReplayScreen
from cockpit.ui.time_line import TimeLine
from tests.ui.conftest import FakeExecutor
from tests.ui.recordings import BEGIN, Happened, recorded
from tests.ui.screen import footer, is_past, pages_of, past_of, press, running, shown, table_of, until
from tests.world import GIB, NOW, node, snapshot

SIZES = [(80, 24), (160, 50)]
BACK, ON, LAST, NEXT = "left_square_bracket", "right_square_bracket", "left_curly_bracket", "right_curly_bracket"


@pytest.fixture
def keeping(make):
    """A screen with a recording."""

    def made(*events, first=None, executor=None, config=None, **more):
        app = make(first, executor=executor, **(config or {}))
        app.services.recorded = recorded(*events, **more)
        return app

    return made


async def back(app, pilot, *keys):
    """After these keys, when the past is shown."""
    await until(pilot, lambda: table_of(app).count > 0)
    await press(pilot, *keys, then=lambda: is_past(app) and app.page_screen.reading.is_finished)


@asynccontextmanager
async def in_past(app, *keys, size=(120, 40), **more):
    """The app after these keys, when the past is shown."""
    async with app.run_test(size=size, **more) as pilot:
        await back(app, pilot, *keys)
        yield app, pilot


async def go_to(app, pilot, typed):
    """Types a time where one is asked for."""
    await press(pilot, "at", then=lambda: isinstance(app.screen, NameDialog))
    await pilot.press(*typed, "enter")


def rows(app):
    """The header, and the first rows of the table."""
    return shown(app).splitlines()[:15]


@pytest.mark.parametrize("size", SIZES)
async def test_it_is_said_that_this_is_the_past_and_which(keeping, size):
    async with in_past(keeping(executor=FakeExecutor()), BACK, BACK, size=size) as (app, _):
        assert past_of(app).at == NOW - 2 * STEP_S
        top = shown(app).splitlines()[0]
        assert top.split()[0] == "PAST"
        assert top.split()[1].count(":") == 2
        assert "20s ago" in top
        assert footer(app).startswith("End Now [] Step {} Event Space Play @ Go to time Enter Open")
        assert "┃" in shown(app).splitlines()[-2]
        assert "◆" in shown(app)


async def test_help_that_is_opened_while_an_event_is_searched_stays_in_front(keeping, monkeypatch):
    app, read = keeping(Happened(NOW - 60, "job", "began")), asyncio.Event()
    find = app.services.recorded.read_next

    async def read_next(moment, direction):
        await read.wait()
        return await find(moment, direction)

    monkeypatch.setattr(app.services.recorded, "read_next", read_next)
    async with running(app, size=SIZES[0]) as pilot:
        await press(pilot, LAST, "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
        read.set()
        await until(pilot, lambda: all(worker.group != "event" or worker.is_finished for worker in app.workers))
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "escape", LAST, then=lambda: is_past(app))


@pytest.mark.parametrize("size", SIZES)
async def test_polling_goes_on_meanwhile_and_end_goes_back_to_now_and_nothing_of_the_past_stays(keeping, size):
    app = keeping(first=snapshot())
    async with running(app, size=size) as pilot:
        before = rows(app)
        await back(app, pilot, BACK)
        assert rows(app) != before
        await press(pilot, "end", then=lambda: rows(app) == before)
        await back(app, pilot, BACK)
        newest = snapshot(nodes=(node(7),))
        app.take(newest)
        await pilot.pause()
        assert "node7" not in shown(app)
        await press(pilot, "end", then="node7")
        assert app.live.snapshot is newest


async def test_steps_add_up_while_the_disk_is_slow_and_forward_beyond_the_present_is_now(keeping):
    async with in_past(keeping(), *[BACK] * 5) as (app, pilot):
        assert past_of(app).at == NOW - 5 * STEP_S
        await back(app, pilot, *[ON] * 4)
        assert past_of(app).at == NOW - STEP_S
        await press(pilot, ON, then=lambda: not is_past(app))


async def test_a_pause_is_where_the_way_back_begins(keeping, clock):
    app = keeping()
    async with running(app) as pilot:
        await pilot.press("p")
        clock.now += 60
        await back(app, pilot, BACK)
        assert past_of(app).at == NOW - STEP_S
        assert "PAUSED" not in shown(app)


async def test_without_a_recording_it_is_said_why(make):
    app = make()
    app.services.why_unrecorded = "record is off"
    async with running(app, notifications=True) as pilot:
        await press(pilot, BACK, then="Nothing to go back to: record is off")
        assert not is_past(app)


async def test_a_recording_that_can_not_be_read_is_one_sentence(keeping):
    def broken():
        raise SourceError("000001.cockpit is not a cockpit recording")

    app = keeping()
    app.services.recorded = RecordedPast(broken, "recording")
    app.services.recorded._ask = type(recorded())._ask.__get__(app.services.recorded)
    async with running(app, notifications=True) as pilot:
        for key in (BACK, LAST):
            await press(pilot, key, then="is not a cockpit recording")
        assert not is_past(app)


# Events


async def test_braces_go_from_event_to_event_and_tell_what_happened(keeping):
    lost = Happened(NOW - 1800, "finding", "GPU 3 of node2 is lost", "critical")
    app = keeping(lost, Happened(NOW - 900, "job", "job ppo-7b ended: FAILED", "critical", "end"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await back(app, pilot, LAST)
        assert past_of(app).at == NOW - 900
        await until(pilot, lambda: "job ppo-7b ended: FAILED" in shown(app))
        await press(pilot, LAST, then=lambda: past_of(app).at == NOW - 1800 and "GPU 3 of node2 is lost" in shown(app))
        await press(pilot, LAST, then="No earlier event is recorded")
        await press(pilot, NEXT, then=lambda: past_of(app).at == NOW - 900)


SILENT = Happened(NOW - 900, "fault", "no answer within 5 s", "warning")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([Happened(NOW - 900, "finding", "GPU 3 of node2 is lost", "critical", "end")], ["cleared: GPU 3 of node2 is lost"]),
        ([SILENT, SILENT, Happened(NOW - 900, "fault", "connection refused", "warning")], ["connection refused", "no answer within 5 s"]),
    ],
    ids=["what ended is not said to begin", "what two sources say alike is said once"],
)
async def test_of_a_moment_it_is_said_what_happened(keeping, events, said):
    async with in_past(keeping(*events), LAST, notifications=True) as (app, pilot):
        await until(pilot, lambda: said[0] in shown(app))
        assert shown(app).count(said[-1]) == 1


async def test_a_click_on_the_line_goes_there_and_tells_what_happened(keeping):
    async with in_past(keeping(Happened(NOW - 1200, "act", "train: stop-job ppo-7b")), BACK, notifications=True) as (app, pilot):
        line = shown(app).splitlines()[-2]
        await pilot.click(TimeLine, offset=(line.index("»"), 0))
        await until(pilot, lambda: past_of(app).at == NOW - 1200 and "train: stop-job ppo-7b" in shown(app))
        await pilot.click(TimeLine, offset=(1, 0))
        await pilot.pause()
        assert past_of(app).at == NOW - 1200


async def test_plus_and_minus_change_how_much_the_line_covers(keeping):
    async with in_past(keeping(Happened(NOW - 6000, "act", "stop")), BACK) as (app, pilot):
        assert "»" not in shown(app)
        await press(pilot, "minus", then="»")
        await press(pilot, "plus", then=lambda: "»" not in shown(app))
        assert app.monitor.refreshed is False


# A time that is typed


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (160, 50)])
async def test_every_form_of_a_time_is_shown_where_one_is_asked_for(keeping, size):
    app = keeping()
    async with running(app, size=size) as pilot:
        await press(pilot, "at", then=lambda: isinstance(app.screen, NameDialog))
        await until(pilot, lambda: all(form in " ".join(shown(app).split()) for form in ("-1h30m", "2026-11-22")))


async def test_at_asks_for_a_time_and_goes_there(keeping):
    app = keeping()
    async with running(app, notifications=True) as pilot:
        await go_to(app, pilot, "-20m")
        await until(pilot, lambda: is_past(app) and past_of(app).at == NOW - 1200)
        await go_to(app, pilot, "soon")
        await until(pilot, lambda: "expected a time such as" in shown(app))
        assert past_of(app).at == NOW - 1200
        second = math.floor(NOW - 1200)
        await go_to(app, pilot, format_time(second, NOW))
        await until(pilot, lambda: second + 0.9 < past_of(app).at < second + 1)  # what happened in that second has happened
        begin, _ = past_of(app).stretch.recorded
        await go_to(app, pilot, "-300d")
        await until(pilot, lambda: f"The recording begins at {format_time(begin, NOW)}: " in shown(app))
        assert past_of(app).at == begin


# Play


async def test_space_plays_ten_seconds_a_second_until_it_is_now_space_stops_and_in_the_present_it_tags(keeping):
    async with in_past(keeping(), *[BACK] * 6) as (app, pilot):
        await pilot.press("space", "space")
        await pilot.pause(5.0)
        assert past_of(app).at <= NOW - 50
        await pilot.press("space")
        assert not table_of(app).tagged
        await until(pilot, lambda: "playing" in shown(app))
        await until(pilot, lambda: past_of(app) is None or past_of(app).at > NOW - 40)
        for _ in range(20):
            await pilot.pause(1.0)
        assert not is_past(app)
        assert "playing" not in shown(app)
        await press(pilot, "space", then=lambda: len(table_of(app).tagged) == 1)


# What is shown of then


async def test_facts_ages_and_findings_are_those_of_then(keeping):
    async with in_past(keeping(first=snapshot(findings=())), *[BACK] * 30, size=(160, 50)) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: isinstance(pages_of(app).page, FindingsPage) and f"found at {NOW - 300 - BEGIN:.0f}" in shown(app))
        assert "1m00s" in shown(app)
        await press(pilot, "end", then=lambda: "found at" not in shown(app))


async def test_sort_filter_cursor_and_details_work_as_ever(keeping):
    async with in_past(keeping(), BACK, "4") as (app, pilot):
        await press(pilot, "slash", *"orphan[", "enter", then=lambda: table_of(app).needle == "orphan[")
        await press(pilot, "escape", "slash", *"orphan", "enter", "enter", then="Process 1200")
        await press(pilot, "escape", then=lambda: "Process 1200" not in shown(app))
        assert is_past(app)
        await press(pilot, "escape", then=lambda: not is_past(app))


async def test_the_memory_page_and_sparklines_show_the_minutes_before_that_moment(keeping):
    async with in_past(keeping(), "2", "m", BACK, size=(160, 50)) as (app, pilot):
        await go_to(app, pilot, "-1h")
        await until(pilot, lambda: past_of(app).at == NOW - 3600 and app.page_screen.reading.is_finished)
        assert isinstance(pages_of(app).page, MemoryPage)
        tail = app.page_screen.make_view().history.memory.tail(node(1).key, 180)
        assert tail[-1] == pytest.approx(500 * GIB, rel=1e-3)
        assert tail[0] == pytest.approx(375 * GIB, rel=1e-2)
        assert app.page_screen.make_view().history.tail(node(1).key, "host")[-1] == pytest.approx(50, abs=0.5)
        assert "+8.3G/min in the last two minutes" in shown(app)


async def test_a_step_forward_reads_only_what_is_new_of_the_minutes_before(keeping):
    async with in_past(keeping(), *[BACK] * 6) as (app, pilot):
        (recording,) = app.services.recorded.opened
        before = app.page_screen.make_view().history.memory.tail(node(1).key, 180)
        recording.walked.clear()
        await back(app, pilot, ON)
        assert recording.walked == [(NOW - 60, NOW - 50)]
        assert app.page_screen.make_view().history.memory.tail(node(1).key, 180)[:-2] == before[2:]
        await back(app, pilot, BACK)
        assert app.page_screen.make_view().history.memory.tail(node(1).key, 180) == before


async def test_of_a_gap_and_before_the_recording_nothing_is_known_and_a_step_leaves_the_gap(keeping):
    async with in_past(keeping(begin=NOW - 615, gaps=((NOW - 600, NOW - 5),)), BACK) as (app, pilot):
        assert "nothing was recorded from" in shown(app)
        assert "nodes –" in shown(app)
        await press(pilot, BACK, then=lambda: past_of(app).at == NOW - 610)
        await until(pilot, lambda: "nodes 1/1" in shown(app))
        await press(pilot, BACK, then="nothing was recorded at this time; the recording is from")


async def test_a_thing_that_was_not_there_then_is_said_to_be_missing(keeping):
    app = keeping(first=snapshot(nodes=(node(1), node(5))))
    async with running(app) as pilot:
        await pilot.press("2", "j", "enter")
        await back(app, pilot, BACK)
        assert "was not listed then" in shown(app)


async def test_order_tags_and_pages_are_the_same_there_and_after_the_way_back(keeping):
    app = keeping()
    async with running(app) as pilot:
        await pilot.press("4", "greater_than_sign", "space")
        order, tagged = dict(table_of(app).sorts), set(table_of(app).tagged)
        await back(app, pilot, BACK)
        assert (table_of(app).sorts, table_of(app).tagged) == (order, tagged)
        await press(pilot, "greater_than_sign", "5", "end", then=lambda: not is_past(app))
        assert isinstance(pages_of(app).page, JobsPage)
        assert table_of(app).sorts != order
        assert table_of(app).tagged == tagged


async def test_keys_that_are_typed_ahead_of_the_past_are_not_lost(keeping):
    app = keeping()
    async with running(app) as pilot:
        for key, char in ((BACK, "["), ("5", "5"), (BACK, "[")):
            app.post_message(events.Key(key, char))
        await until(pilot, lambda: is_past(app) and past_of(app).at == NOW - 2 * STEP_S)
        assert isinstance(pages_of(app).page, JobsPage)


# What the past has not


def test_each_key_of_the_present_does_something_in_the_past_or_says_why_not():
    keys = {type_: {key for binding in type_.BINDINGS for key in binding.key.split(",")} for type_ in (LiveScreen, ReplayScreen)}
    assert keys[LiveScreen] - keys[ReplayScreen] == set()


async def test_no_action_is_offered_and_its_key_says_why(keeping):
    async with in_past(keeping(executor=FakeExecutor()), BACK, "4", size=(160, 50), notifications=True) as (app, pilot):
        assert "Kill" not in footer(app)
        await press(pilot, "K", then="actions are not possible in the past")
        assert app.executor.planned == []
        assert isinstance(app.screen, ReplayScreen)
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert "Now" in titles
        assert not titles & {"Kill", "Log", "Stack", "Pause"}


@pytest.mark.parametrize(
    ("key", "why"), [("l", "logs are not recorded"), ("s", "stacks are not"), ("e", "in the past"), ("r", "in the past")]
)
async def test_what_only_the_present_has_says_so(keeping, key, why):
    async with in_past(keeping(), BACK, "4", notifications=True) as (app, pilot):
        await press(pilot, key, then=lambda: why in shown(app))
        assert not isinstance(app.screen, LogScreen)
        assert not app.monitor.refreshed


async def test_the_log_of_now_is_never_shown_as_that_of_then(keeping):
    app = keeping()
    app.monitor.logs.found = (app.monitor.logs.log("err", ["a line of now"]),)
    async with running(app) as pilot:
        await press(pilot, "5", "enter", then="a line of now")
        await back(app, pilot, BACK)
        assert "a line of now" not in shown(app)
        assert "not recorded" in shown(app)


async def test_dead_actors_and_presets_of_now_are_not_those_of_then(keeping):
    app = keeping()
    app.monitor.dead = ()
    async with running(app) as pilot:
        await press(pilot, "3", "d", then="DEAD")
        await back(app, pilot, BACK)
        assert "not recorded" in shown(app)
        await press(pilot, "7", then=lambda: "PRESETS" in shown(app) and "not recorded" in shown(app))


# A recording alone


@pytest.fixture
def alone(make):
    """A screen on a recording, without a cluster."""

    def made(*events, begins_at=None, **more):
        return make(replayed=recorded(*events, **more), begins_at=begins_at)

    return made


@pytest.mark.parametrize("size", SIZES)
async def test_a_recording_alone_opens_at_its_end_and_asks_no_cluster(alone, clock, size):
    clock.now = NOW + 86400
    app = alone(begin=NOW - 30)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: is_past(app) and "PAST" in shown(app))
        assert past_of(app).at == NOW
        assert "1d00h" in shown(app).splitlines()[0]
        assert app.services.snapshot.nodes is None
        await pilot.press(ON, ON)
        await pilot.pause()
        assert past_of(app).at == NOW
        await press(pilot, "escape", "escape", BACK, then=lambda: past_of(app).at == NOW - STEP_S)
        await press(pilot, *[BACK] * 9, then=lambda: past_of(app).at == NOW - 30)
        await press(pilot, "end", then=lambda: past_of(app).at == NOW)


async def test_it_opens_at_the_time_that_was_asked_for(alone):
    app = alone(begins_at=NOW - 1200)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: is_past(app) and past_of(app).at == NOW - 1200)


async def test_what_is_damaged_is_said(alone):
    app = alone()
    opened = app.services.recorded._open

    def damaged():
        recording = opened()
        recording.damage = ("000001.cockpit: 300 bytes at 100 are damaged",)
        return recording

    app.services.recorded._open = damaged
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "300 bytes at 100 are damaged" in shown(app))


@pytest.mark.parametrize("in_past", [True, False])
async def test_the_help_in_the_past_tells_what_its_keys_do_there(keeping, in_past):
    app = keeping(executor=FakeExecutor())
    async with app.run_test(size=(160, 50)) as pilot:
        if in_past:
            await back(app, pilot, BACK)
        await pilot.press("question_mark")
        await pilot.pause()
        text = shown(app)
        assert bool(re.search(r"Space +Play", text)) is in_past
        assert bool(re.search(r"Space +Tag", text)) is not in_past
