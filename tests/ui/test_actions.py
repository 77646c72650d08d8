"""Actions on the screen: which keys mean something, and what their plans are about."""

from __future__ import annotations

import pytest

from cockpit.actions.plan import Receipt, Target
from cockpit.actions.table import ACTIONS, find_action
from cockpit.ui.app import Cockpit
from cockpit.ui.screens.dialogs import TextScreen
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.page_view import PageView
from cockpit.ui.screens.plan import PlanScreen
from cockpit.ui.screens.replay import ReplayScreen
from cockpit.ui.table import Table
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, footer, press, said, shown, table_of, until
from tests.world import node, process, snapshot

FORBIDDEN = {"ctrl+a", "ctrl+b", "ctrl+d", "delete", "backspace"}
KEYS = {key for action in ACTIONS for key in action.keys.split(",")}


def keys_of(bindings):
    return {key for binding in bindings for key in binding.key.split(",")}


async def to(pilot, fact):
    """Move the cursor until the thing under it is the one that is meant."""
    table = table_of(pilot.app)
    await until(pilot, lambda: table.count > 0)
    for _ in range(table.count):
        thing = getattr(table.selected, "about", table.selected)
        if thing is not None and fact(thing):
            return
        await pilot.press("j")
    raise AssertionError("no row is about that")


async def aimed(pilot, key):
    """What the executor is asked when this key is pressed."""
    executor = pilot.app.executor
    asked = len(executor.planned)
    await press(pilot, key, then=lambda: len(executor.planned) > asked)
    action, chosen = executor.planned[-1]
    await until(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
    await press(pilot, "escape", then=lambda: not isinstance(pilot.app.screen, PlanScreen))
    return action.id, chosen


def test_no_key_that_a_terminal_or_a_slip_sends_is_bound():
    bound = {key for node in (Cockpit, LiveScreen, ReplayScreen, PageView, Table, PlanScreen) for key in keys_of(node.BINDINGS)}
    assert not bound & FORBIDDEN


def test_no_action_has_a_key_that_the_screen_has_for_itself():
    own = [binding for binding in LiveScreen.BINDINGS if not binding.action.startswith("act(")]
    assert KEYS & keys_of((*Cockpit.BINDINGS, *own, *PageView.BINDINGS, *Table.BINDINGS)) == set()


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_read_only_there_is_no_action_anywhere(make, size):
    async with at(make(readonly=True), size=size, notifications=True) as (app, pilot):
        for number in "12345":
            await press(pilot, number, then=lambda: table_of(app).count > 0)
            for key in sorted(KEYS):
                await press(pilot, key, then=lambda: "cockpit is read-only (--readonly)" in said(app))
                app.clear_notifications()
            assert len(app.screen_stack) == 1
            assert not any(action.title in footer(app) for action in ACTIONS)
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert not titles & {action.title for action in ACTIONS}
        await press(pilot, "question_mark", then=lambda: isinstance(app.screen, TextScreen))
        assert not any(action.help in app.screen.text for action in ACTIONS)


async def test_help_and_palette_have_every_action(make):
    async with at(make(executor=FakeExecutor())) as (app, pilot):
        commands = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert all(action.help in commands[action.title] for action in ACTIONS)
        await press(pilot, "question_mark", then=lambda: isinstance(app.screen, TextScreen))
        assert all(action.help in app.screen.text for action in ACTIONS)


async def test_the_footer_has_the_actions_that_mean_something_under_the_cursor(make):
    async with at(make(executor=FakeExecutor()), size=(100, 24)) as (app, pilot):
        await until(pilot, lambda: "K Kill orphans" in footer(app))
        assert "S Stop Ray" in footer(app)
        assert "? Help" in footer(app)
        await press(pilot, "5", then=lambda: "J Stop job" in footer(app))
        assert "Delete job" not in footer(app)
        await to(pilot, lambda job: not job.running)
        await until(pilot, lambda: "X Delete job" in footer(app))
        assert "Stop job" not in footer(app)
        await press(pilot, "4", then=lambda: "K Kill " in footer(app) and "T Terminate" in footer(app))
        assert "Kill orphans" not in footer(app)


async def test_in_pods_of_kuberay_what_kuberay_does_itself_is_not_offered_and_its_key_says_why(make):
    app = make(executor=FakeExecutor())
    app.monitor.kubernetes = object()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "K Kill orphans" in footer(app))
        assert "Stop Ray" not in footer(app)
        await press(pilot, "S", then="KubeRay runs this Ray")
        assert app.executor.planned == []


@pytest.mark.parametrize(("key", "action"), [("K", "kill"), ("f9", "kill"), ("T", "terminate")])
async def test_the_plan_is_about_the_process_under_the_cursor_unless_no_probe_has_seen_it(make, key, action):
    async with at(make(executor=FakeExecutor()), "4", notifications=True) as (app, pilot):
        await to(pilot, lambda thing: thing.pid == 1300)
        found, chosen = await aimed(pilot, key)
        assert (found, [row.pid for row in chosen.rows]) == (action, [1300])
        await to(pilot, lambda thing: thing.ticks is None)
        await press(pilot, key, then="No probe has seen process 999999")
        assert len(app.executor.planned) == 1


async def test_tagged_processes_of_two_hosts_are_one_plan(make):
    app = make(snapshot(processes=(process(1), process(2), process(2, host="node2"), process(3, host="node2"))), executor=FakeExecutor())
    async with at(app, "4") as (_, pilot):
        await to(pilot, lambda thing: thing.pid == 1)
        await pilot.press("space")
        await to(pilot, lambda thing: (thing.host, thing.pid) == ("node2", 3))
        await pilot.press("space")
        _, chosen = await aimed(pilot, "K")
        assert {(row.host, row.pid) for row in chosen.rows} == {("node1", 1), ("node2", 3)}


async def test_a_process_on_two_gpus_is_in_the_plan_once(make):
    async with at(make(executor=FakeExecutor()), "enter", size=(120, 60)) as (_, pilot):
        await to(pilot, lambda thing: getattr(thing, "pid", 0) == 1200)
        await pilot.press("space")
        await pilot.press("j")
        await to(pilot, lambda thing: getattr(thing, "pid", 0) == 1200)
        await pilot.press("space")
        _, chosen = await aimed(pilot, "K")
        assert [row.pid for row in chosen.rows] == [1200]


async def test_on_the_page_of_a_process_the_plan_is_about_that_process(make):
    async with at(make(executor=FakeExecutor()), "4") as (_, pilot):
        await to(pilot, lambda thing: thing.pid == 1400)
        await press(pilot, "enter", then="PROCESS")
        found, chosen = await aimed(pilot, "K")
        assert (found, [row.pid for row in chosen.rows]) == ("kill", [1400])


async def test_on_the_page_of_a_node_the_plan_is_about_its_host(make):
    async with at(make(executor=FakeExecutor())) as (_, pilot):
        await to(pilot, lambda thing: thing.host == "node2")
        await press(pilot, "enter", then="Node node2")
        for key, action in (("K", "kill-orphans"), ("S", "stop"), ("C", "clean")):
            found, chosen = await aimed(pilot, key)
            assert (found, chosen.hosts) == (action, ("10.0.0.2",))


@pytest.mark.parametrize(("key", "action"), [("K", "kill-orphans"), ("S", "stop"), ("C", "clean")])
async def test_the_plan_is_about_the_tagged_nodes_or_else_about_all(make, key, action):
    async with at(make(snapshot(nodes=(node(1), node(2), node(4))), executor=FakeExecutor())) as (_, pilot):
        found, chosen = await aimed(pilot, key)
        assert (found, chosen.hosts) == (action, ())
        await to(pilot, lambda thing: thing.host == "node2")
        await pilot.press("space", "space")
        found, chosen = await aimed(pilot, key)
        assert (found, chosen.hosts) == (action, ("10.0.0.2", "10.0.0.4"))


async def test_a_session_is_cleaned_and_stopped_by_its_name(make):
    async with at(make(executor=FakeExecutor()), "4") as (_, pilot):
        await to(pilot, lambda thing: getattr(thing, "live", None) is False)
        found, chosen = await aimed(pilot, "C")
        assert (found, [row.name for row in chosen.rows], chosen.hosts) == (
            "clean",
            ["session_2026-11-20_01-17-58_164160_10000"],
            ("node1",),
        )
        found, chosen = await aimed(pilot, "S")
        assert (found, chosen.session) == ("stop", "session_2026-11-20_01-17-58_164160_10000")


async def test_the_plan_names_jobs_actors_and_groups_by_their_ids(make):
    async with at(make(executor=FakeExecutor()), "5") as (_, pilot):
        await to(pilot, lambda thing: thing.running)
        found, chosen = await aimed(pilot, "J")
        assert (found, chosen.id) == ("stop-job", "ppo-7b")
        await pilot.press("3")
        await to(pilot, lambda thing: thing.key.startswith("pg:"))
        found, chosen = await aimed(pilot, "X")
        assert (found, chosen.id) == ("remove-placement-group", f"{7:036x}")
        await to(pilot, lambda thing: getattr(thing, "state", "") == "ALIVE")
        found, chosen = await aimed(pilot, "K")
        assert (found, chosen.id) == ("kill-actor", f"{1:032x}")


async def test_several_actors_are_ended_with_one_plan(make):
    async with at(make(executor=FakeExecutor()), "3") as (_, pilot):
        await to(pilot, lambda thing: getattr(thing, "state", "") == "ALIVE" and not getattr(thing, "internal", True))
        await pilot.press("space", "space")
        found, chosen = await aimed(pilot, "K")
        assert found == "kill-actor"
        assert find_action(found).request(chosen, "node1")["ids"] == [f"{1:032x}", f"{2:032x}"]


async def test_jobs_are_acted_on_one_at_a_time(make):
    running = [job for job in snapshot().jobs if job.running]
    app = make(snapshot(jobs=(*running, type(running[0])("other", status="RUNNING"))), executor=FakeExecutor())
    async with at(app, "5", notifications=True) as (_, pilot):
        await until(pilot, lambda: table_of(app).count == 2)
        await press(pilot, "space", "space", "J", then="Stop job: one at a time, but 2 are tagged")
        assert app.executor.planned == []


@pytest.mark.parametrize(
    ("page", "key", "said"),
    [
        ("5", "T", "Terminate: put the cursor on a process"),
        ("5", "X", "Job ppo-7b is still running: stop it first"),
        ("1", "J", "Stop job: put the cursor on a job"),
    ],
)
async def test_a_key_that_means_nothing_here_says_why(make, page, key, said):
    async with at(make(executor=FakeExecutor()), page, notifications=True) as (app, pilot):
        await press(pilot, key, then=lambda: said in shown(app))
        assert app.executor.planned == []


async def test_the_palette_reaches_an_action_that_the_cursor_does_not_and_a_filter_none(make):
    async with at(make(executor=FakeExecutor()), "slash", *"KTSCJX", "enter") as (app, pilot):
        await until(pilot, lambda: table_of(app).needle == "ktscjx")
        assert app.executor.planned == []
        await pilot.press("escape", "4")
        await to(pilot, lambda thing: thing.pid == 1001)
        await press(pilot, "colon", *"kill orphans", "enter", then=lambda: app.executor.planned)
        action, chosen = app.executor.planned[0]
        assert (action.id, chosen.rows, chosen.hosts) == ("kill-orphans", (), ())


async def test_the_tags_of_what_is_gone_vanish_and_others_stay(make):
    gone = Target("process", "node1", pid=1300, ticks=13000)
    async with at(make(executor=FakeExecutor(receipt=Receipt("kill", "Kill", done=(gone,), hosts=("node1",)))), "4") as (app, pilot):
        await to(pilot, lambda thing: thing.pid == 1200)
        await pilot.press("space", "space", "K")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and not app.screen.query_one("#agree").disabled)
        assert len(table_of(app).tagged) == 2
        await press(pilot, "tab", "enter", then=lambda: app.screen.stage == "receipt" and app.screen._is_answerable)
        await press(pilot, "enter", then=lambda: len(app.screen_stack) == 1)
        assert [row.about.pid for row in table_of(app).chosen] == [1200]
        assert len(table_of(app).tagged) == 1


async def test_a_plan_is_made_anew_while_the_picture_is_stopped(make):
    async with at(make(executor=FakeExecutor()), "4") as (app, pilot):
        await to(pilot, lambda thing: thing.pid == 1300)
        await pilot.press("p")
        app.take(snapshot(processes=()))
        _, chosen = await aimed(pilot, "K")
        assert [row.pid for row in chosen.rows] == [1300]
