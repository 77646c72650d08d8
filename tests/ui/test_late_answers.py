"""An answer that comes late opens nothing over the help, or over a dialog, that was opened meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from cockpit.config.address import Address
from cockpit.model import Job, OtherRay
from cockpit.ui.screens import live
from cockpit.ui.screens.help import HelpScreen
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, press, said, until
from tests.world import NOW, snapshot

DONE = Job(
    "small-1", job="01000000", submission="small-1", status="FAILED", entrypoint="python train.py", started=NOW - 600, ended=NOW - 60
)
PRESET = "ray: {head: {host: head, num_gpus: 8}}\njob: {entrypoint: python train.py}\n"
RAYS = (OtherRay("http://127.0.0.1:8366", "session_b", answers=True), OtherRay("http://127.0.0.1:8367", "session_c", answers=True))


@pytest.mark.parametrize(
    ("page", "key", "group", "question"),
    [
        ("4", "e", "environment", "environment"),
        ("4", "s", "stack", "stack"),
        ("4", "a", "address", "find_others"),
        ("5", "w", "naming", "sample_all_hosts"),
        ("7", "L", "plan", "run_in_thread"),
    ],
)
async def test_what_was_asked_for_before_help_was_opened_does_not_cover_it(make, folder, monkeypatch, page, key, group, question):
    folder.mkdir(parents=True)
    (folder / "small.yaml").write_text(PRESET)
    app, is_asked, is_answered = make(snapshot(jobs=(DONE,)), executor=FakeExecutor()), asyncio.Event(), asyncio.Event()
    app.monitor.rays = RAYS
    async with at(app, page, notifications=True, then={"5": "small-1", "7": "small"}.get(page, "")) as (_, pilot):
        asked = app.monitor if hasattr(app.monitor, question) else live
        answer = getattr(asked, question)

        async def answer_late(*arguments):
            is_asked.set()
            await is_answered.wait()
            return await answer(*arguments)

        monkeypatch.setattr(asked, question, answer_late)
        await press(pilot, key, then=is_asked.is_set)
        await press(pilot, "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
        is_answered.set()
        await until(pilot, lambda: len(app.screen_stack) > 2 or all(each.is_finished for each in app.workers if each.group == group))
        assert isinstance(app.screen, HelpScreen)
        assert (said(app) == "2 Ray clusters answer: press a to choose") == (key == "a")


async def test_clusters_that_are_found_while_help_is_open_are_offered_in_one_line(make):
    app = make()
    app.monitor.rays = RAYS
    async with at(app, "question_mark", notifications=True, then=lambda: isinstance(app.screen, HelpScreen)) as (_, pilot):
        app.live.choose_cluster(tuple(Address(ray.url, ray.session) for ray in RAYS))
        await until(pilot, lambda: said(app) == "2 Ray clusters answer: press a to choose")
        assert isinstance(app.screen, HelpScreen)
