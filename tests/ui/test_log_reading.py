"""The last lines of its log on the page of an actor, a process or a job, and in the pane: what is asked for, when, and how often."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from cockpit.sources.source import SourceError
from cockpit.ui.log_tails import READ_INTERVAL_S, TAIL_LINES
from cockpit.ui.pages.details import LOG_PART
from cockpit.ui.screens.live import MIN_SIGHT_S
from cockpit.ui.screens.log import LogScreen
from tests.ui.recordings import recorded
from tests.ui.screen import HOSTILE, at, is_past, pages_of, press, running, shown, table_of, unsafe, until
from tests.world import actor, process, snapshot

ACTOR = snapshot(actors=(actor(1),), placement_groups=())
LARGE = (160, 60)


def made(make, *lines, first=ACTOR, label="out", **config):
    """An app whose things all have one log."""
    app = make(first, **config)
    app.monitor.logs.found = (app.monitor.logs.log(label, list(lines)),)
    return app


async def actor_page(app, pilot):
    await until(pilot, lambda: table_of(app).count > 0)
    await press(pilot, "3", "end", "enter", then=lambda: len(pages_of(app).pages) == 2)


def heading(app):
    """Of the log."""
    return next((line.partition("LOG ")[2] for line in shown(app).splitlines() if "LOG " in line), "").strip()


async def test_the_page_of_an_actor_shows_its_last_lines_the_newest_last(make):
    app = made(make, *(f"step {number:03}" for number in range(400)))
    async with app.run_test(size=(120, 60)) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: "step 399" in shown(app))
        lines = [line.strip() for line in shown(app).splitlines() if "step " in line]
        assert lines == [f"step {400 - TAIL_LINES + n}" for n in range(TAIL_LINES)]
        assert heading(app) == "out.log on node1  l opens it"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "step 399" in shown(app) and "step 380" not in shown(app))


async def test_a_long_list_below_leaves_the_log_its_share_of_the_screen(make):
    app = made(make, *(f"step {number:03}" for number in range(400)))
    app.monitor.first = snapshot(actors=tuple(actor(number) for number in range(1, 90)))
    async with running(app, size=(120, 60)) as pilot:
        await press(pilot, "5", "enter", then="step 399")
        assert shown(app).count("step ") == 60 // LOG_PART


@pytest.mark.parametrize(
    ("keys", "pages", "size"),
    [(("3", "end"), 1, LARGE), (("4", "enter"), 2, (120, 60)), (("5", "enter"), 2, (120, 60))],
    ids=["pane", "process", "job"],
)
async def test_the_pane_and_the_pages_of_a_process_and_of_a_job_show_its_log(make, keys, pages, size):
    async with at(made(make, "said it"), *keys, size=size, then="said it") as (app, _):
        assert len(pages_of(app).pages) == pages


async def test_a_process_that_is_not_rays_has_no_log_and_nobody_is_asked_for_one(make):
    app = made(make, "said it", first=snapshot(processes=(process(77, kind="foreign"),), findings=()))
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "4", "enter", then=lambda: len(pages_of(app).pages) == 2)
        await pilot.pause(10 * MIN_SIGHT_S)
        assert "LOG" not in shown(app).split()
        assert app.monitor.logs.asked == []


@pytest.mark.parametrize(("size", "keys"), [((100, 30), ("3", "end")), (LARGE, ("v", "3", "end"))], ids=["no room", "hidden"])
async def test_without_a_pane_and_without_such_a_page_nothing_is_asked(make, size, keys):
    async with at(made(make, "said it"), *keys, size=size) as (app, pilot):
        await pilot.pause(10 * MIN_SIGHT_S)
        assert app.monitor.logs.asked == []


async def test_rows_that_the_cursor_passes_are_not_asked_for(make, monkeypatch):
    app = made(make, "said it", first=snapshot(actors=tuple(actor(number) for number in range(1, 5)), placement_groups=()))
    async with app.run_test(size=LARGE) as pilot:
        monkeypatch.setattr("cockpit.ui.screens.live.MIN_SIGHT_S", 1000)  # on a busy machine two keys are more than the usual time apart
        await pilot.press("3", "end", "up", "up")
        await pilot.pause(2 * MIN_SIGHT_S)
        assert app.monitor.logs.asked == []
        monkeypatch.setattr("cockpit.ui.screens.live.MIN_SIGHT_S", 0)
        await press(pilot, "up", then="said it")
        assert app.monitor.logs.asked == [table_of(app).selected]


async def test_an_unread_log_is_called_not_read_yet_and_no_key_waits(make):
    app = make(ACTOR)

    async def never(thing):
        await asyncio.Event().wait()

    app.monitor.logs.logs_of = never
    async with app.run_test(size=LARGE) as pilot:
        await actor_page(app, pilot)
        await pilot.pause(2 * MIN_SIGHT_S)
        assert heading(app) == "not read yet"
        await press(pilot, "escape", then=lambda: len(pages_of(app).pages) == 1)


async def test_a_log_that_the_cursor_has_left_is_not_read_on(make):
    app, ended = make(ACTOR), []

    async def never(thing):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(thing)

    app.monitor.logs.logs_of = never
    async with app.run_test(size=(120, 60)) as pilot:
        await actor_page(app, pilot)
        await pilot.pause(2 * MIN_SIGHT_S)
        assert ended == []
        await press(pilot, "escape", then=lambda: ended)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (SourceError("the agent on node1 does not answer"), "–  the agent on node1 does not answer"),
        ((), "out.log on node1  l opens it  no lines yet"),
    ],
    ids=["unreadable", "empty"],
)
async def test_what_cannot_be_read_is_unknown_and_an_empty_log_is_not(make, found, said):
    app = made(make)
    app.monitor.logs.found = found or app.monitor.logs.found
    async with app.run_test(size=(120, 60)) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: said in shown(app))


async def test_a_log_in_sight_is_read_again(make, clock):
    app = made(make, "said it")
    logs = app.monitor.logs
    async with app.run_test(size=LARGE) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: logs.read == ["out"])
        app.page_screen.draw()
        await pilot.pause(2 * MIN_SIGHT_S)
        assert logs.read == ["out"], "it has just been read"
        clock.now += READ_INTERVAL_S
        await until(pilot, lambda: logs.read == ["out", "out"])
        assert len(logs.asked) == 1, "where its logs lie is known"


@pytest.mark.parametrize(
    ("stop", "has_stopped", "go_on"),
    [
        ("p", lambda app: "PAUSED" in shown(app), "p"),
        ("l", lambda app: isinstance(app.screen, LogScreen), "escape"),
        ("left_square_bracket", is_past, "end"),
    ],
    ids=["paused", "below the open log", "in the past"],
)
async def test_a_log_that_nobody_looks_at_is_not_read_again_until_somebody_does(make, clock, stop, has_stopped, go_on):
    app = made(make, "said it")
    app.services.recorded = recorded()
    logs = app.monitor.logs
    async with app.run_test(size=LARGE) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: logs.read == ["out"])
        await press(pilot, stop, then=lambda: has_stopped(app))
        before = list(logs.read)
        clock.now += 2 * READ_INTERVAL_S
        await pilot.pause(5)
        assert logs.read == before
        await press(pilot, go_on, then=lambda: len(logs.read) > len(before))


async def test_lines_are_harmless_and_without_secrets(make):
    app = made(make, *HOSTILE, "export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "the end")
    async with app.run_test(size=LARGE) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: "the end" in shown(app))
        assert not unsafe(shown(app))
        assert "PWNED" not in shown(app)
        assert "0123456789abcdef" not in shown(app)
        assert "WANDB_API_KEY=" in shown(app)


async def test_lines_that_were_read_a_while_ago_say_so(make, clock):
    app = made(make, "said it")
    async with app.run_test(size=LARGE) as pilot:
        await actor_page(app, pilot)
        await until(pilot, lambda: "said it" in shown(app))
        await press(pilot, "escape", "1", then=lambda: "said it" not in shown(app))
        clock.now += 90
        app.monitor.logs.found = None
        app.monitor.logs.logs_of = lambda thing: asyncio.sleep(1000)
        app.live.log_tails.known = {key: replace(tail, logs=()) for key, tail in app.live.log_tails.known.items()}
        await press(pilot, "3", "end", "enter", then=lambda: heading(app) == "out.log on node1, read 1m30s ago  l opens it")
