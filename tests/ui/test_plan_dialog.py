"""The dialog of an action: nothing happens that nobody has agreed to, and everything is said."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
from textual import events

from cockpit.actions.action_context import UnclearSessionError
from cockpit.actions.audit import Audit
from cockpit.actions.plan import Freed, Plan, Receipt, Target, Unreached
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.ui.notices import show_notice
from cockpit.ui.screens.plan import PlanLines, PlanScreen, sum_progress
from tests.ui.conftest import FakeExecutor, victim
from tests.ui.screen import HOSTILE, at, pages_of, press, shown, table_of, unsafe, until
from tests.world import GIB, NOW

SIZES = [(60, 15), (80, 24), (160, 50)]
LIVE = Plan(
    "stop",
    "Stop Ray",
    (victim(11, kind=None, part="raylet"), victim(12, kind="worker")),
    losses=("3 actors of job ppo-7b end with it and free 8 GPUs",),
    hosts=("node1",),
    word="ppo-7b",
)


async def opened(pilot, stage="plan", key="K"):
    """The dialog, once it is there and may be answered."""
    app = pilot.app
    await until(pilot, lambda: table_of(app).count > 0)
    await press(pilot, key, then=lambda: isinstance(app.screen, PlanScreen) and app.screen.stage == stage and app.screen._is_answerable)
    return app.screen


@asynccontextmanager
async def dialog(make, executor=None, *, key="K", stage="plan", size=(80, 24), notifications=False, **config):
    """The app and the dialog that this key opens, once it may be answered."""
    async with at(make(executor=executor or FakeExecutor(), **config), size=size, notifications=notifications) as (app, pilot):
        yield app, pilot, await opened(pilot, stage, key)


async def closed(pilot):
    await until(pilot, lambda: not isinstance(pilot.app.screen, PlanScreen))


def focused(app):
    return app.focused.id if app.focused else None


@pytest.mark.parametrize("size", SIZES)
async def test_the_plan_is_shown_with_the_focus_on_cancel(make, size):
    async with dialog(make, size=size) as (app, _, _):
        text = shown(app)
        for fact in ("Kill orphans: 1 process on 1 host", "40G", "pid 1300", "orphan", "train", "started 1m00s ago", "Cancel"):
            assert fact in text
        assert focused(app) == "leave"
        assert len(text.splitlines()) == size[1]


@pytest.mark.parametrize("key", ["enter", "escape", "n", "q"])
async def test_the_first_key_cancels(make, key):
    async with dialog(make) as (app, pilot, _):
        await pilot.press(key)
        await closed(pilot)
        assert app.executor.performed == []
        assert app.is_running


async def test_no_single_key_agrees(make):
    async with dialog(make) as (app, pilot, screen):
        for key in ("y", "Y", "1", "9", "K", "space", "ctrl+c", "right"):
            await pilot.press(key)
            assert app.screen is screen, key
            assert app.executor.performed == [], key


async def test_the_button_of_the_action_does_exactly_the_plan_and_the_receipt_says_what_happened(make):
    receipt = Receipt(
        "kill-orphans",
        "Kill orphans",
        done=(victim(1300, outcome="ended by SIGKILL"),),
        failed=(victim(1400, error="waits in the kernel; a reset or a reboot helps"),),
        unreached=(Unreached("w7", "w7: timed out"),),
        hosts=("node1", "w7"),
        freed=Freed(gpu=79 * GIB),
        took=2.1,
    )
    async with dialog(make, FakeExecutor(receipt=receipt)) as (app, pilot, screen):
        await press(pilot, "tab", "enter", then=lambda: screen.stage == "receipt" and screen._is_answerable)
        assert app.executor.performed == [screen.plan]
        text = " ".join(shown(app).replace("│", " ").split())
        for fact in (
            "1 process of 2 on 1 of 2 hosts",
            "w7: timed out",
            "79G of GPU memory freed (measured)",
            "SIGKILL",
            "waits in the kernel",
        ):
            assert fact in text
        assert focused(app) == "leave"
        assert "Close" in text
        await pilot.press("escape")
        await closed(pilot)
        assert app.focused is table_of(app)


async def test_the_mouse_agrees_and_cancels(make):
    async with dialog(make) as (_, pilot, _):
        await pilot.click("#leave")
        await closed(pilot)
        screen = await opened(pilot)
        await pilot.click("#agree")
        await until(pilot, lambda: screen.stage == "receipt")


async def test_keys_typed_ahead_agree_to_nothing(make):
    async with at(make(executor=FakeExecutor()), size=(80, 24)) as (app, pilot):
        for key, char in (("K", "K"), ("tab", "\t"), ("enter", "\r"), ("tab", "\t"), ("enter", "\r")):
            app.post_message(events.Key(key, char))
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and app.screen._is_answerable and app.screen.stage == "plan")
        assert app.executor.performed == []


async def test_a_word_typed_while_the_plan_is_made_works_neither_the_dialog_nor_the_page(make):
    async with at(make(executor=FakeExecutor(LIVE)), size=(80, 24)) as (app, pilot):
        page = pages_of(app).page
        for char in ("S", *"nq"):
            app.post_message(events.Key(char, char))
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and app.screen._is_answerable and app.screen.stage == "plan")
        assert (pages_of(app).page, app.executor.performed) == (page, [])


async def test_a_word_that_comes_all_at_once_keeps_its_letters_and_their_order(make):
    async with dialog(make, FakeExecutor(LIVE), key="S") as (app, pilot, screen):
        for char in "ppo-7b":
            app.post_message(events.Key(char, char))
        for _ in range(2):
            app.post_message(events.Key("tab", "\t"))
        await until(pilot, lambda: focused(app) == "agree")
        assert screen.query_one("#word").value == "ppo-7b"


@pytest.mark.parametrize("count", [2, 6, 9, 12])
async def test_the_dialog_says_that_more_lines_follow_only_if_they_do(make, count):
    plan = Plan("stop", "Stop Ray", tuple(victim(pid) for pid in range(11, 11 + count)), hosts=("node1",), word="ppo-7b")
    async with dialog(make, FakeExecutor(plan), key="S") as (app, pilot, screen):
        hidden = screen.query_one(PlanLines).count - screen.query_one(PlanLines).size.height
        await until(pilot, lambda: (f" {hidden} more line" if hidden > 0 else "Type ppo-7b") in shown(app))
        assert ("more line" in shown(app)) is (hidden > 0)


async def test_a_plan_that_has_just_appeared_can_not_be_agreed_to(make):
    async with at(make(executor=FakeExecutor()), "K", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and app.screen.stage == "plan")
        screen = app.screen
        while not screen._is_answerable:
            screen._confirm()
            await pilot.pause(0.01)
        assert app.executor.performed == []
        screen._confirm()
        await until(pilot, lambda: app.executor.performed)


async def test_live_work_ends_only_when_its_name_is_typed(make):
    app = make(executor=FakeExecutor(LIVE))

    def says(text):
        return text in shown(app)

    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, key="S")
        assert "3 actors of job ppo-7b end with it and free 8 GPUs" in shown(app)
        assert "Type ppo-7b" in shown(app)
        assert focused(app) == "leave"
        await pilot.press("tab", "tab")
        assert focused(app) == "leave", "the action's own button can't be reached yet"
        await pilot.press("shift+tab")
        assert focused(app) == "word"
        for wrong in ("ppo-7", "PPO-7B", "ppo-7bb"):
            screen.query_one("#word").value = wrong
            await pilot.press("enter")
            assert screen.query_one("#agree").disabled
            await until(pilot, partial(says, f"{wrong} does not match ppo-7b: nothing was done"))
        assert app.executor.performed == []
        screen.query_one("#word").value = ""
        await until(pilot, lambda: "> type ppo-7b here" in shown(app) and "does not match" not in shown(app))
        await press(pilot, *"ppo-7b", then=lambda: not screen.query_one("#agree").disabled)
        assert table_of(app).needle == "", "it is no filter"
        await press(pilot, "enter", then=lambda: screen.stage == "receipt")
        assert app.executor.performed == [LIVE]


async def test_letters_of_the_word_are_the_word_wherever_the_focus_is(make):
    plan = msgspec.structs.replace(LIVE, word="session_q1")
    async with dialog(make, FakeExecutor(plan), key="S") as (app, pilot, screen):
        assert focused(app) == "leave"
        await pilot.press(*"session", "underscore", *"q1")
        assert screen.query_one("#word").value == "session_q1"
        await until(pilot, lambda: not screen.query_one("#agree").disabled)
        await press(pilot, "escape", then=lambda: len(app.screen_stack) == 1)
        assert app.executor.performed == []


async def test_the_word_may_be_pasted_with_blanks_around_it(make):
    async with dialog(make, FakeExecutor(LIVE), key="S") as (app, pilot, screen):
        await pilot.press("shift+tab")
        app.post_message(events.Paste(" ppo-7b "))
        await until(pilot, lambda: not screen.query_one("#agree").disabled)
        await pilot.press("tab", "tab")
        assert focused(app) == "agree"
        await press(pilot, "enter", then=lambda: app.executor.performed)


async def test_an_empty_plan_can_only_be_closed_and_says_what_was_refused(make):
    plan = Plan(
        "kill-orphans",
        "Kill orphans",
        refused=(victim(7, reason="it belongs to root"),),
        unreached=(Unreached("w7", "w7: timed out"),),
        hosts=("node1", "w7"),
    )
    async with dialog(make, FakeExecutor(plan), stage="nothing") as (app, pilot, screen):
        for fact in ("Everything was refused", "it belongs to root", "w7: timed out", "Close"):
            assert fact in shown(app)
        assert not screen.query_one("#agree").display
        await pilot.press("tab", "enter")
        await closed(pilot)
        assert app.executor.performed == []


async def test_a_plan_that_can_not_be_made_is_one_sentence(make):
    async with dialog(make, FakeExecutor(SourceError("which session? choose one of a, b")), stage="failed") as (app, pilot, _):
        assert "which session? choose one of a, b" in shown(app)
        await pilot.press("enter")
        await closed(pilot)


@pytest.mark.parametrize(("key", "said"), [("S", "put the cursor on the session, press S"), ("K", "start cockpit with --address")])
async def test_with_several_rays_the_dialog_says_what_to_press(make, key, said):
    executor = FakeExecutor(UnclearSessionError("several Ray sessions run: session_a, session_b"))
    async with dialog(make, executor, key=key, stage="failed") as (app, _, _):
        assert "several Ray sessions run: session_a, session_b" in shown(app)
        assert said in shown(app)
        assert "--session" not in shown(app)


async def test_if_a_process_is_unclassified_the_dialog_does_not_say_nothing_to_do(make):
    async with dialog(
        make, FakeExecutor(Plan("kill-orphans", "Kill orphans", unknown=("node1: NVML failed",), hosts=("node1",))), stage="nothing"
    ) as (app, _, _):
        for fact in ("nothing found on 1 host", "Unknown", "node1: NVML failed", "Not everything could be classified"):
            assert fact in shown(app)
        assert "Nothing to do" not in shown(app)


async def test_an_action_that_did_not_begin_says_that_nothing_was_done(make):
    async with dialog(make, FakeExecutor(receipt=SourceError("another action is running"))) as (app, pilot, screen):
        await press(pilot, "tab", "enter", then=lambda: screen.stage == "failed")
        assert "nothing was done" in shown(app)
        assert "another action is running" in shown(app)


async def test_making_a_long_plan_shows_progress_and_can_be_cancelled(make):
    async with dialog(make, FakeExecutor(waits=True), stage="looking") as (app, pilot, _):
        await until(pilot, lambda: "node2  2 of 5 processes have ended" in shown(app))
        assert "checking, 2 of 5, 1 host connecting, 1 host running" in shown(app)
        await pilot.press("escape")
        await closed(pilot)
        await until(pilot, lambda: app.executor.broken_off == ["plan"])
        assert app.is_running


async def test_escape_neither_aborts_a_running_action_nor_asks_about_it(make):
    async with dialog(make, FakeExecutor(endless=True)) as (app, pilot, screen):
        await press(pilot, "tab", "enter", then="running, 2 of 5")
        await press(pilot, "escape", "n", "enter", "space", "K", then="acts.jsonl")
        assert app.screen is screen
        assert screen.stage == "doing"
        assert len(app.executor.performed) == 1
        assert app.executor.broken_off == []


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_q_ends_the_program_at_once_though_something_is_under_way(make, key, tmp_path):
    async with dialog(make, FakeExecutor(endless=True)) as (app, pilot, screen):
        await press(pilot, "tab", "enter", then=lambda: screen.stage == "doing")
        await pilot.press(key)  # the deed itself never ends
    assert app.executor.broken_off == ["deed"]
    assert app.monitor.closed


async def test_the_log_says_that_the_action_was_aborted(make, tmp_path):
    """The deed as the executor does it: a line before, and one in any case."""
    audit = Audit(tmp_path / "acts.jsonl", lambda: NOW)

    class Logging(FakeExecutor):
        async def perform(self, plan, on_progress):
            action, receipt = audit.begin(plan), None
            try:
                receipt = await super().perform(plan, on_progress)
            finally:
                audit.end(action, plan, receipt)
            return receipt

    async with dialog(make, Logging(endless=True)) as (_, pilot, screen):
        await press(pilot, "tab", "enter", then=lambda: screen.stage == "doing")
        await pilot.press("q")
    lines = [json.loads(line) for line in (tmp_path / "acts.jsonl").read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["begun", {"broken_off": "cancelled"}]


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_plan_is_read_to_its_end_while_the_focus_stays(make, size):
    plan = Plan("kill", "Kill", tuple(victim(1000 + number) for number in range(100)), hosts=("node1",))
    async with dialog(make, FakeExecutor(plan), size=size) as (app, pilot, _):
        await until(pilot, lambda: "more lines: scroll down" in shown(app))
        assert "pid 1000" in shown(app)
        for key, seen in (("end", "pid 1099"), ("home", "pid 1000"), ("G", "pid 1099"), ("g", "pid 1000")):
            await press(pilot, key, then=lambda seen=seen: seen in shown(app))
            assert focused(app) == "leave"
        await pilot.press("pagedown", "pagedown", "j", "down", "k", "up", "pageup", "space")
        assert "pid 1000" not in shown(app)
        assert focused(app) == "leave"


@pytest.mark.parametrize("size", SIZES)
async def test_no_character_of_a_command_is_lost_where_it_is_folded_or_beside_the_scroll_bar(make, size):
    command = "".join(f"<{number}>" for number in range(100))
    plan = Plan("kill", "Kill", tuple(victim(number, host=command) for number in range(60)), hosts=("node1",))
    async with dialog(make, FakeExecutor(plan), size=size) as (app, _, _):
        text = "".join(line.strip("│╭╮╰╯─▁▂▃▄▅▆▇█ ") for line in shown(app).splitlines())
        whole = "".join(f"<{number}>" for number in range(40))
        assert whole in text


async def test_no_notice_covers_a_dialog(make):
    async with at(make(executor=FakeExecutor()), size=(80, 24), notifications=True) as (app, pilot):
        show_notice(app, "This host is polled every 3 s")
        await until(pilot, lambda: "polled every 3 s" in shown(app))
        await press(pilot, "K", then=lambda: "Kill orphans" in shown(app) and "polled every 3 s" not in shown(app))
        show_notice(app, "said meanwhile")
        await press(pilot, "escape", then="said meanwhile")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_hostile_text_is_drawn_exactly_and_does_nothing(make, size):
    text = " ".join(HOSTILE)
    plan = Plan(
        "kill",
        f"Kill {text}",
        (victim(1, text), Target("session", f"node1{text}", path=f"/tmp/ray/{text}", keeps=(f"model{text}.pt",))),
        refused=(victim(2, reason=text),),
        notes=(text,),
        losses=(text,),
        unreached=(Unreached(text, text),),
        hosts=(text,),
        word="ppo[/]7b\u202e",
    )
    receipt = Receipt("kill", f"Kill {text}", (victim(1, outcome=text),), (victim(2, reason=text),), (victim(3, error=text),), (text,))
    async with dialog(make, FakeExecutor(plan, receipt), size=size, notifications=True) as (app, pilot, screen):
        seen = shown(app)
        for _ in range(30):
            await pilot.press("pagedown")
            seen += shown(app)
        screen.query_one("#word").value = plan.word
        await until(pilot, lambda: not screen.query_one("#agree").disabled)
        screen._confirm()
        await until(pilot, lambda: screen.stage == "receipt")
        seen += shown(app)
        assert "[/]" in seen
        assert "漢字漢字" in seen
        assert not unsafe(seen)
        assert app.is_running


async def test_a_long_headline_is_whole_where_there_is_little_room(make):
    async with dialog(
        make,
        FakeExecutor(Plan("stop", "Stop Ray " * 4, (victim(1), victim(2, host="node2")), hosts=("node1", "node2"), word="ppo-7b")),
        key="S",
        size=(60, 15),
    ) as (app, pilot, _):
        await until(pilot, lambda: "2 processes on 2 hosts, 80G of GPU memory" in " ".join(shown(app).replace("│", " ").split()))


@pytest.mark.parametrize("size", [(20, 5), (60, 15)])
async def test_a_small_terminal_survives(make, size):
    async with dialog(make, FakeExecutor(LIVE), key="S") as (app, pilot, _):
        await pilot.resize_terminal(*size)
        await pilot.press("pagedown", "escape")
        await closed(pilot)
        assert app.is_running


def test_the_progress_of_hosts_is_summed_up():
    heard = {"a": Progress("waiting"), "b": Progress("x", 1, 3), "c": Progress("y", 2, 4), "d": Progress("connecting")}
    assert sum_progress(heard) == "3 of 7, 1 host waiting, 2 hosts running, 1 host connecting"


async def test_ascii_draws_nothing_else(make):
    async with dialog(make, FakeExecutor(LIVE), key="S", ascii=True) as (app, _, _):
        assert "".join(char for char in shown(app) if not char.isascii()) == ""


async def test_a_plan_that_is_agreed_to_twice_at_once_is_carried_out_once(make):
    async with dialog(make) as (app, pilot, screen):
        screen._confirm()
        screen._confirm()
        await until(pilot, lambda: screen.stage == "receipt")
        assert len(app.executor.performed) == 1
