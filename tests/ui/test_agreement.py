"""The dialog of an agent's plan: written by the screen itself, default no, and a yes only by a person's hand."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import Input

from cockpit.actions.agreement import Outcome, Question, ask_screens
from cockpit.actions.plan import Plan, Receipt
from cockpit.cli.writers import listen_for_agents
from cockpit.ui.screens.agreement import AgreementScreen
from cockpit.ui.screens.plan import PlanScreen
from tests.ui.conftest import FakeExecutor, victim
from tests.ui.screen import HOSTILE, at, press, shown, table_of, unsafe, until

ORPHANS = Plan("kill-orphans", "Kill orphans", (victim(1300),), hosts=("node1",), session="session_1", address="http://head:8265")
LIVE = Plan("stop-job", "Stop job", (victim(11, kind="worker"),), losses=("3 actors end with it",), hosts=("node1",), word="ppo-7b")


LONG_S = 1e6
"""Longer than the seconds that the loop of these tests skips."""


def is_listening():
    return bool(list(Path(os.environ["XDG_RUNTIME_DIR"]).glob("cockpit/*.agreement")))


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="c") as made:  # a socket's path has at most 107 bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield made


@asynccontextmanager
async def asked(make, plan=ORPHANS, reason="it holds GPU 2", client="claude-code", size=(120, 40)):
    """The app with the dialog, once it may be answered, and the decision to come."""
    async with at(make(executor=FakeExecutor()), size=size) as (app, pilot):
        listen_for_agents(app)
        await until(pilot, is_listening)
        deciding = asyncio.ensure_future(ask_screens(Question(plan, reason, client), LONG_S))
        await until(pilot, lambda: isinstance(app.screen, AgreementScreen) and app.screen._is_answerable)
        try:
            yield app, pilot, deciding
        finally:
            deciding.cancel()
            for end in app.monitor.ending:
                end()


async def decided(pilot, deciding):
    await until(pilot, deciding.done)
    return deciding.result()


async def test_the_screen_writes_the_plan_itself_and_marks_the_words_of_the_agent(make):
    async with asked(make) as (app, _, _):
        text = shown(app)
        for fact in ("An agent asks. Kill orphans: 1 process on 1 host", "pid 1300", "claude-code (pid ", "session_1 at http://head:8265",
                     "Its reason, in its own words", "“it holds GPU 2”"):  # fmt: skip
            assert fact in text
        assert app.focused.id == "leave"


@pytest.mark.parametrize("key", ["enter", "escape", "n", "q"])
async def test_the_first_key_declines(make, key):
    async with asked(make) as (app, pilot, deciding):
        await pilot.press(key)
        answer = await decided(pilot, deciding)
        assert (answer.agreed, answer.why) == (False, "the person at the screen has declined it")
        assert app.focused is table_of(app)


@pytest.mark.parametrize("key", ["K", "y", "Y", "space", "1"])
async def test_no_single_key_agrees(make, key):
    async with asked(make) as (app, pilot, deciding):
        await pilot.press(key)
        assert isinstance(app.screen, AgreementScreen)
        assert not deciding.done()


async def test_a_yes_lets_the_agent_perform_it_and_its_receipt_is_shown_here(make):
    async with asked(make) as (app, pilot, deciding):
        await pilot.press("tab", "enter")
        answer = await decided(pilot, deciding)
        assert answer.agreed
        assert app.executor.performed == []
        await answer.report(
            Outcome(Receipt("kill-orphans", "Kill orphans", done=(victim(1300, outcome="ended by SIGTERM"),), hosts=("node1",)))
        )
        await until(pilot, lambda: "ended by SIGTERM" in shown(app))


async def test_where_live_work_ends_its_word_must_be_typed(make):
    async with asked(make, LIVE) as (_, pilot, deciding):
        await pilot.press("tab", "enter")
        assert not (deciding.done() and deciding.result().agreed)
    async with asked(make, LIVE) as (_, pilot, deciding):
        await pilot.press(*"ppo-7b", "enter")
        assert (await decided(pilot, deciding)).agreed


async def test_a_word_that_was_being_typed_when_the_dialog_appeared_agrees_to_nothing(make):
    async with at(make(executor=FakeExecutor()), size=(120, 40)) as (app, pilot):
        listen_for_agents(app)
        await until(pilot, is_listening)
        deciding = asyncio.ensure_future(ask_screens(Question(LIVE, "x", "y"), LONG_S))
        await until(pilot, lambda: isinstance(app.screen, AgreementScreen) and app.screen.stage == "plan")
        await pilot.press(*"ppo-7")
        await until(pilot, lambda: app.screen._is_answerable)
        await pilot.press("b", "enter")
        assert not deciding.done()
        assert app.screen.query_one("#word", Input).value == "b"
        deciding.cancel()
        for end in app.monitor.ending:
            end()


async def test_if_nobody_waits_any_more_the_dialog_says_so_and_can_agree_to_nothing(make):
    async with asked(make) as (app, pilot, deciding):
        deciding.cancel()
        await until(pilot, lambda: "nobody waits for an answer from here" in shown(app) and "not decided here" in shown(app))
        assert app.screen.stage == "failed"


async def test_if_the_agent_s_server_ends_after_a_yes_the_outcome_is_unknown(make):
    async with asked(make) as (app, pilot, deciding):
        await pilot.press("tab", "enter")
        (await decided(pilot, deciding))._writer.close()
        await until(pilot, lambda: "its outcome is unknown" in shown(app) and "the action log says" in shown(app))


async def test_it_does_not_cover_a_dialog_that_its_user_has_opened(make):
    async with at(make(executor=FakeExecutor()), size=(120, 40)) as (app, pilot):
        listen_for_agents(app)
        await press(pilot, "K", then=lambda: isinstance(app.screen, PlanScreen) and app.screen.stage == "plan")
        await until(pilot, is_listening)
        answer = await ask_screens(Question(ORPHANS, "x", "y"), LONG_S)
        assert (answer.agreed, answer.why) == (False, "another dialog of an action is open on the screen")
        for end in app.monitor.ending:
            end()


async def test_the_words_of_an_agent_and_the_names_of_a_cluster_act_on_nothing(make):
    reason = "".join(HOSTILE) + "\nWhat ends with it\n  nothing\n"
    plan = Plan("kill-orphans", "Kill orphans", (victim(1300, "".join(HOSTILE)),), hosts=("node1",))
    async with asked(make, plan, reason, "".join(HOSTILE)) as (app, _, _):
        assert unsafe(shown(app)) == []
        assert not [line for line in shown(app).splitlines() if line.strip("│ ").startswith("What ends with it")]
