from __future__ import annotations

import gc

import pytest

from cockpit.model import Remedy
from cockpit.ui.footer import Footer
from cockpit.ui.pages import PAGES
from cockpit.ui.screens.log import LogScreen
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, footer, pages_of, press, shown, until
from tests.world import finding, snapshot


async def test_a_click_on_a_key_presses_it(make):
    async with at(make(), size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: "p Pause" in footer(app))
        await pilot.click(Footer, offset=(footer(app).index("p Pause") + 3, 0))
        await until(pilot, lambda: "PAUSED" in shown(app))


async def test_a_click_between_two_keys_does_nothing(make):
    async with at(make(), size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: "q Quit" in footer(app))
        await pilot.click(Footer, offset=(footer(app).index("q Quit") - 1, 0))
        await pilot.click(Footer, offset=(159, 0))
        await press(pilot, "p", then="PAUSED")


async def test_the_footer_has_the_keys_of_the_page_and_of_the_log(make):
    async with at(make(), "3", size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: "t Tree" in footer(app))
        await press(pilot, "1", then=lambda: "t Tree" not in footer(app))
        await press(pilot, "5", "down", then=lambda: "l Log" in footer(app))
        await press(pilot, "l", then=lambda: isinstance(app.screen, LogScreen) and "Esc Back" in footer(app))


async def test_the_keys_of_the_row_come_first_and_help_and_the_way_out_are_always_there(make):
    async with at(make(snapshot(findings=(finding(remedy=Remedy("clean up", "clean")),)), executor=FakeExecutor()), size=(80, 24)) as (
        app,
        pilot,
    ):
        await until(pilot, lambda: footer(app).startswith("Enter Open C Clean l Log x Hide / Filter "))
        await press(pilot, "2", "j", then=lambda: footer(app).startswith("Enter Open D Drain node l Log / Filter m Memory <> Sort "))
        await press(pilot, "4", then=lambda: footer(app).startswith("Enter Open K Kill T Terminate l Log s Stack e Env t Tree "))
        assert footer(app).rstrip().endswith(" q Quit ? Help")


async def test_enter_is_offered_only_where_it_opens_something(make):
    async with at(make(executor=FakeExecutor()), "2", "enter", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: pages_of(app).page.heading.startswith("Node ") and not footer(app).startswith("Enter"))
        await press(pilot, "end", then=lambda: footer(app).startswith("Enter Open "))


@pytest.mark.parametrize("width", range(60, 100, 7))
async def test_the_footer_ends_with_a_whole_word(make, width):
    async with at(make(executor=FakeExecutor()), "4", size=(width, 24)) as (app, pilot):
        await until(pilot, lambda: "K Kill" in footer(app) and footer(app).rstrip().endswith("? Help"))
        keys = [f"{key} {label}" for _, key, label in app.query_one(Footer)._keys if key not in ("q", "?")]
        assert footer(app).rstrip() in [" ".join([*keys[:number], "q Quit", "? Help"]) for number in range(3, len(keys))]


@pytest.mark.slow
async def test_changing_pages_leaves_nothing_behind(make):
    async with at(make(snapshot()), size=(160, 40)) as (app, pilot):

        async def turned(times):
            for number in range(times):
                pages_of(app).action_page(number % len(PAGES))
                await pilot.pause()
            gc.collect()
            gc.freeze()  # to count; gc.get_objects() would break a tuple that another thread is making (bugs.python.org 15108)
            number = gc.get_freeze_count()
            gc.unfreeze()
            return number

        await turned(3 * len(PAGES))
        objects = await turned(len(PAGES))
        grown = []
        for _ in range(5):  # what is under way while one counts is gone when one counts again
            grown.append(await turned(20 * len(PAGES)) - objects)
            if grown[-1] < 1000:
                return
        pytest.fail(f"objects more after each {20 * len(PAGES)} pages: {grown}")


async def test_while_one_types_the_footer_offers_no_key_that_would_be_typed(make):
    async with at(make(executor=FakeExecutor()), "slash", "p", "p", "o", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app).splitlines()[-2].startswith(" / ppo"))
        assert footer(app).split() == ["Enter", "Keep", "filter", "Esc", "All", "rows"]
        await press(pilot, "enter", then=lambda: "? Help" in footer(app))
