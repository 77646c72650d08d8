"""`a`: from one Ray on this host to another, without an end of the program."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.config.address import Address
from cockpit.model import Cluster, Finding, OtherRay
from cockpit.text import to_ascii
from cockpit.ui.screens.dialogs import AddressDialog
from tests.ui.screen import at, footer, press, running, shown, until
from tests.world import NOW, snapshot

LIVES = OtherRay("http://127.0.0.1:8366", "session_b", answers=True)
HERS = OtherRay("http://127.0.0.1:8367", "session_c", "train", answers=True)
SILENT = OtherRay("http://127.0.0.1:38225", "session_far", answers=False)
WRONG = Finding("address-wrong", "critical", "address", "nothing answers at http://127.0.0.1:9", ("refused",), NOW - 9)


def lost(*findings):
    return snapshot(cluster=Cluster("http://127.0.0.1:9", reachable=False), findings=findings)


async def test_from_a_wrong_address_a_goes_to_a_ray_that_answers(make):
    app = make(lost(WRONG))
    app.monitor.rays = (LIVES, HERS, SILENT)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "a Other cluster" in footer(app))
        assert "nothing answers at" in next(line for line in shown(app).splitlines() if " a " in line)
        await press(pilot, "a", then=lambda: isinstance(app.screen, AddressDialog))
        await until(pilot, lambda: "http://127.0.0.1:8366  session_b" in shown(app))
        assert "Which of these Ray clusters should cockpit follow?" in shown(app)
        assert "session_c of train" in shown(app)
        assert "38225" not in shown(app), "what does not answer is not offered"
        await press(pilot, "enter", then=lambda: app.monitor.followed == [Address("http://127.0.0.1:8366", "session_b", chosen=True)])


@pytest.mark.parametrize("ascii", [False, True])
async def test_clusters_found_before_the_screen_opened_are_offered_on_it(make, ascii):
    app = make(lost(), ascii=ascii)
    app.monitor.rays = (LIVES,)
    app.monitor.is_started, app.monitor.open_choices = True, (Address(LIVES.url, "session_b"), Address(SILENT.url, "session_far"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "session_b" in shown(app) and isinstance(app.screen, AddressDialog))
        assert not ascii or to_ascii(shown(app)).isascii()


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_the_choice_can_be_left_and_nothing_is_followed(make, key):
    app = make(lost(WRONG))
    app.monitor.rays = (LIVES,)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "a Other cluster" in footer(app))
        await press(pilot, "a", then=lambda: isinstance(app.screen, AddressDialog))
        await press(pilot, key, then=lambda: not isinstance(app.screen, AddressDialog))
        assert app.monitor.followed == []


async def test_where_no_other_ray_answers_it_is_said(make):
    app = make()
    app.monitor.rays = (SILENT,)
    async with running(app, size=(160, 24), notifications=True) as pilot:
        await press(pilot, "a", then="No other Ray cluster on this host answers")
        assert len(app.screen_stack) == 1


async def test_another_session_in_the_place_of_the_followed_one_is_said_once(make):
    async with at(make(snapshot()), size=(160, 24), notifications=True) as (app, pilot):
        moved = replace(app.services.snapshot.cluster, session="session_b", before="session_a", replaced=NOW)
        app.take(snapshot(cluster=moved))
        app.take(snapshot(cluster=moved))
        await until(pilot, lambda: "is now session_b; before, cockpit followed session_a" in " ".join(shown(app).replace("▌", " ").split()))
        assert len(app._notifications) == 1


async def test_of_several_clusters_those_that_answer_are_offered(make):
    app = make(lost())
    app.monitor.rays = (LIVES,)
    both = (Address(LIVES.url, "session_b"), Address(SILENT.url, "session_far"))
    async with running(app, size=(80, 24), notifications=True) as pilot:
        app.live.choose_cluster(both)
        await until(pilot, lambda: "session_b" in shown(app) and isinstance(app.screen, AddressDialog))
        assert "session_far" not in shown(app)
        await pilot.press("escape")
        app.live.choose_cluster(both[1:])
        await until(pilot, lambda: "No Ray cluster on this host answers (1 found)" in shown(app))
