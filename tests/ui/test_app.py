from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from unittest import mock

import pytest
from rich.cells import cell_len
from textual import events

from cockpit.actions.table import ACTION_KEYS, ACTIONS
from cockpit.model import Cluster, Fault, Hold, Snapshot
from cockpit.sources.source import SourceError
from cockpit.text import to_ascii
from cockpit.ui.app import Cockpit
from cockpit.ui.footer import Footer
from cockpit.ui.pages import PAGES
from cockpit.ui.palette import OTHER_WORDS, Commands
from cockpit.ui.screens.dialogs import NameDialog, TextScreen
from cockpit.ui.screens.help import key_name, own_bindings
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.page_view import PageView
from cockpit.ui.screens.replay import ReplayScreen
from cockpit.ui.table import Table
from cockpit.ui.textual_internals import Palette
from cockpit.ui.view import Index
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import HOSTILE, at, pages_of, press, running, said, shown, table_of, unsafe, until
from tests.ui.terminal import PROGRAM
from tests.world import GIB, NOW, actor, finding, node, process, snapshot


async def test_the_first_frame_shows_what_is_known_before_the_screen_opens(make):
    app = make()
    app.monitor.is_started = True
    frames = []
    with mock.patch.object(app, "_start_monitor", side_effect=lambda _: frames.append(shown(app))):
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: frames)
    assert "10.0.0.1:8265" in frames[0]
    assert "node1" in frames[0]


@pytest.mark.parametrize("number", range(1, len(PAGES) + 1))
async def test_hostile_text_is_drawn_and_does_nothing(make, number):
    text = " ".join(HOSTILE)
    app = make(snapshot(text, findings=(finding(text),) if number == 6 else ()))
    async with at(app, str(number), size=(160, 50), notifications=True) as (_, pilot):
        seen = shown(app)
        for key in ("enter", "y", "escape", "escape", "t", "c", "l"):
            await pilot.press(key)
            await pilot.pause()
            seen += shown(app)
        assert not unsafe(seen)
        assert app.is_running
        assert "[/]" in seen


async def test_going_back_and_changing_pages_find_the_same_row(make):
    async with at(make(), "4", "j", "j") as (app, pilot):
        pid = table_of(app).selected.about.pid
        await press(pilot, "enter", then=f"Process {pid}")
        assert table_of(app).at == 0
        await press(pilot, "escape", then=lambda: table_of(app).at == 2)
        assert table_of(app).selected.about.pid == pid
        await press(pilot, "1", "4", then=lambda: table_of(app).at == 2)


@pytest.mark.parametrize("key", ["enter", "m"])
async def test_a_page_that_is_opened_again_begins_at_its_top(make, key):
    async with at(make(), "2", "j", size=(80, 24)) as (app, pilot):
        for _ in range(2):
            await press(pilot, key, then=lambda: len(pages_of(app).pages) == 2 and table_of(app).count > 2)
            assert (table_of(app).at, table_of(app).scroll_offset.y) == (0, 0)
            await press(pilot, "G", then=lambda: table_of(app).at == table_of(app).count - 1)
            await press(pilot, "escape", then=lambda: len(pages_of(app).pages) == 1)


async def test_a_filter_keeps_what_matches_and_inverted_what_does_not(make):
    async with at(make(), "4", "slash", *"orphan", then="1/6") as (app, pilot):
        await pilot.press("enter")
        assert [row.about.kind for row in table_of(app).blocks[0].rows] == ["orphan"]
        await press(pilot, "escape", then=lambda: len(table_of(app).blocks[0].rows) == 6)
        await press(pilot, "slash", "exclamation_mark", *"orphan", "enter", then=lambda: len(table_of(app).blocks[0].rows) == 5)


async def test_one_key_says_who_holds_most_gpu_memory(make):
    app = make(
        snapshot(processes=(process(1, rss=9), process(2, gpus=(Hold(0, GIB),)), process(3, kind="child", gpus=(Hold(1, 9 * GIB),))))
    )
    async with running(app) as pilot:
        await press(pilot, "M", then="GPU MEM▾")
        assert [row.about.pid for row in table_of(app).blocks[0].rows] == [3, 2, 1]
        assert table_of(app).selected.about.pid == 3
        await press(pilot, "j", "M", then=lambda: "▾" not in shown(app))
        assert table_of(app).at == 0


async def test_pause_stops_the_picture_and_history_goes_on(make):
    async with at(make(), then="node1") as (app, pilot):
        await pilot.press("p")
        app.take(snapshot(nodes=(node(7, seen=NOW + 9),), taken=NOW + 10))
        await until(pilot, lambda: "PAUSED" in shown(app))
        assert "node7" not in shown(app)
        assert app.services.history.tail(node(7).key, "host", None, 3)[-1] == pytest.approx(70)
        await press(pilot, "p", then="node7")


async def test_tree_hangs_children_below_their_parents(make):
    async with at(make(), "4", "t", then="└─") as (app, _):
        pids = [row.about.pid for row in table_of(app).blocks[0].rows]
        assert pids.index(1100) == pids.index(1001) + 1


async def test_user_shows_only_that_users_processes(make):
    async with at(make(), "4") as (app, pilot):
        while table_of(app).selected.about.user != "other":
            await pilot.press("j")
        await pilot.press("u")
        assert [row.about.user for row in table_of(app).blocks[0].rows] == ["other"]
        assert "PROCESSES of other" in shown(app)
        await pilot.press("u")
        assert len(table_of(app).blocks[0].rows) == 6


async def test_a_node_opens_and_escape_goes_back_but_never_out(make):
    async with at(make(), "enter", then="Ray kills workers above 950G") as (app, pilot):
        assert "orphan 1200" in shown(app)
        await press(pilot, "escape", "escape", "escape", then="WAITS")
        assert app.is_running


async def test_host_memory_of_a_node_without_a_probe_is_asked_of_ray(make):
    app = make(snapshot(nodes=(node(2),)))
    app.monitor.of_node = (process(77, command="ray::Hog", rss=9 * GIB), process(78, command="ray::Idle", rss=GIB))
    async with running(app, size=(120, 60)) as pilot:
        await press(pilot, "enter", then="ray::Hog")
        assert shown(app).index("ray::Hog") < shown(app).index("ray::Idle")


async def test_raw_json_is_what_the_model_holds(make):
    async with at(make(), "5", "y") as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        assert json.loads(app.screen.text)["id"] == "ppo-7b"


async def test_dead_actors_are_read_only_on_demand(make):
    app = make()
    app.monitor.dead = (actor(50, state="DEAD", why="killed by Ray's memory monitor"),)
    async with running(app, size=(160, 40)) as pilot:
        await pilot.press("3")
        assert "memory monitor" not in shown(app)
        await press(pilot, "end", "d", then="memory monitor")
        assert table_of(app).at == 0, "they are listed above all others"
        await press(pilot, "d", then=lambda: "memory monitor" not in shown(app))


async def test_dead_actors_that_cannot_be_read_are_not_none(make):
    app = make()
    app.monitor.dead = SourceError("the state API did not answer")
    async with app.run_test(size=(160, 40)) as pilot:
        await press(pilot, "3", "d", then="the state API did not answer")
        assert "DEAD –" in shown(app)


async def test_how_many_rows_are_tagged_is_said_above_the_page(make):
    async with at(make(), "4", "space", "space", size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: "2 tagged" in shown(app).splitlines()[1])
        await press(pilot, "U", then=lambda: "tagged" not in shown(app).splitlines()[1])


async def crash(app, boom):
    async with running(app) as pilot:
        app.call_later(boom)
        await pilot.pause(0.2)


async def test_a_bug_is_one_sentence_and_shows_no_value(make, monkeypatch):
    app = make()
    secret = "hf_abcdefghijklmnop"

    def boom():
        raise ZeroDivisionError(secret)

    monkeypatch.setattr(app, "_print_error_renderables", lambda: None)
    with pytest.raises(ZeroDivisionError):
        await crash(app, boom)
    said = "".join(str(line) for line in app._exit_renderables)
    assert "cockpit has a bug: ZeroDivisionError" in said
    assert "(test_app.py:" in said
    assert secret not in said


async def test_an_environment_is_opened_from_a_row_and_from_the_page_of_its_process(make):
    async with at(make(), "4", "e", size=(80, 24), then="WANDB_API_KEY=•••") as (app, pilot):
        await press(pilot, "escape", "enter", then=lambda: pages_of(app).page.heading.startswith("Process ") and "e Env" in shown(app))
        await press(pilot, "e", then="WANDB_API_KEY=•••")


async def test_a_toast_takes_the_place_of_the_last_one(make):
    async with at(make(), "2", "s", notifications=True, then="Stack needs a process") as (app, pilot):
        await press(pilot, "z", then=lambda: "Nothing was hidden just now" in shown(app) and "Stack needs a process" not in shown(app))


async def test_a_toast_says_what_is_read_until_it_has_been_read(make):
    app, read = make(), asyncio.Event()
    stack = app.monitor.stack

    async def stack_later(process):
        await read.wait()
        return await stack(process)

    app.monitor.stack = stack_later
    async with running(app, notifications=True) as pilot:
        await press(pilot, "4", "s", then="Reading stacks: 1 process")
        read.set()
        await until(pilot, lambda: "(ppo.py:7)" in shown(app) and "Reading stacks" not in shown(app))


async def test_ctrl_c_says_the_key_that_quits(make):
    async with at(make(), "ctrl+c", notifications=True, then=" q quits cockpit") as (app, _):
        assert app.is_running


async def test_stacks_of_tagged_processes_lie_beside_each_other(make):
    async with at(make(), "4", "space", "space", "s", size=(140, 40), then="load (ppo.py:7)") as (app, pilot):
        assert "py-spy is not allowed to read process 1300" in shown(app)
        await press(pilot, "escape", "U", "5", "s", then="all_reduce (ppo.py:7)")
        assert "1 of 2" in shown(app)


async def test_copy_takes_the_tagged_rows(make):
    async with at(make(), "4", "space", "space", "c") as (app, pilot):
        assert app.clipboard == "1200\n1300"
        await pilot.press("U", "c")
        assert app.clipboard == str(table_of(app).selected.about.pid)


async def test_export_writes_what_is_known_for_its_owner_alone(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with at(make(), "E") as (_, pilot):
        await until(pilot, lambda: list(tmp_path.glob("cockpit-*.json")))
    (file,) = tmp_path.glob("cockpit-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["schema"] == 1


async def test_readonly_writes_no_file_and_no_screenshot(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with at(make(readonly=True), notifications=True, then="read-only") as (app, pilot):
        await press(pilot, "E", then=lambda: "Export: cockpit is read-only" in said(app))
        await press(pilot, "colon", *"screenshot", "enter", then="not possible with --readonly")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("page", "key", "why"),
    [
        ("5", "w", "Save preset: cockpit is read-only (--readonly)"),
        ("1", "K", "Kill orphans: cockpit is read-only (--readonly)"),
        ("1", "t", "Tree: only on the pages Actors (3) and Processes (4)"),
        ("1", "d", "Dead: only on the page Actors (3)"),
        ("2", "x", "Hide: put the cursor on a finding"),
        ("1", "U", "Untag all: no row is tagged"),
        ("1", "right_square_bracket", "Step forward: this is now"),
    ],
)
async def test_a_key_that_can_do_nothing_here_says_why_in_one_line(make, page, key, why):
    async with at(make(readonly=True), page, notifications=True) as (app, pilot):
        await press(pilot, key, then=lambda: said(app).endswith(why) and "\n" not in said(app))


async def test_on_the_memory_page_the_key_for_order_says_why_it_does_nothing(make):
    async with at(make(), "m", size=(80, 24), notifications=True) as (app, pilot):
        await until(pilot, lambda: pages_of(app).page.heading == "Memory node1")
        await press(pilot, "greater_than_sign", then="Sort: the section under the cursor has one order")


NAVIGATION = frozenset(
    ["up", "k", "down", "j", "pageup", "ctrl+u", "pagedown", "ctrl+f", "home", "g", "end", "G", "escape", "ctrl+z", "ctrl+q", "q"]
)
"""Keys that move, and those that leave."""
SAME_ON_ALL_PAGES = frozenset(
    ["colon", "question_mark", "h", "f1", "slash", "v", "M", "E", "F", "z", "a", "p", "r", "f5", "plus", "minus", "at"]
) | {f"{direction}_{kind}_bracket" for direction in ("left", "right") for kind in ("square", "curly")}
"""Keys that need neither a row nor a certain page."""


@pytest.mark.parametrize("number", range(1, len(PAGES) + 1))
@pytest.mark.parametrize("is_empty", [False, True])
async def test_no_key_of_a_page_is_silent(make, monkeypatch, tmp_path, number, is_empty):
    monkeypatch.chdir(tmp_path)
    app = make(Snapshot() if is_empty else snapshot(), executor=FakeExecutor())
    keys = {
        key for node in (Cockpit, LiveScreen, PageView, Table) for binding in node.BINDINGS for key in binding.key.split(",")
    } - NAVIGATION
    if number > 1:  # the first page answers for all; without any row, so do the keys of actions
        keys -= SAME_ON_ALL_PAGES | (set(ACTION_KEYS) if is_empty else set())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "Overview" in shown(app))
        for key in sorted(keys - set("1234567e")):  # a page opens itself again; an editor would be started
            if not isinstance(pages_of(app).page, PAGES[number - 1]):
                await press(pilot, str(number), then=lambda: isinstance(pages_of(app).page, PAGES[number - 1]))
            app.clear_notifications()
            before = shown(app), len(app.screen_stack), app.focused
            await press(pilot, key, then=lambda before=before: said(app) or before != (shown(app), len(app.screen_stack), app.focused))
            while len(app.screen_stack) > 1:
                app.pop_screen()
            table_of(app).focus()
            table_of(app).tagged.clear()
            app.live.frozen_at = None
            table_of(app).sorts.clear()


async def test_keys_typed_ahead_go_into_the_filter(make):
    async with at(make()) as (app, pilot):
        for key, char in (("4", "4"), ("slash", "/"), *zip("orphan", "orphan", strict=True)):
            app.post_message(events.Key(key, char))
        await until(pilot, lambda: table_of(app).needle == "orphan")
        assert isinstance(pages_of(app).page, PAGES[3])
        for key in ("enter", "p"):
            app.post_message(events.Key(key, key if key == "p" else "\r"))
        await until(pilot, lambda: "PAUSED" in shown(app))
        assert table_of(app).needle == "orphan"


async def test_help_is_made_from_the_bindings(make):
    async with at(make(), "question_mark", size=(120, 60), then="Pause the display; cockpit keeps polling.") as (app, _):
        lines = app.screen.text.splitlines()
        named = {key for line in lines for key in (line[:16] + line[40:56]).split()}
        for binding in (binding for node in pages_of(app).key_nodes for binding in own_bindings(node)):
            assert binding.key.isdigit() or {key_name(key) for key in binding.key.split(",")} <= named
        assert "Zoom" not in app.screen.text, "it is a key of the past"
        assert ["+", "Poll faster            -                Poll slower"] in [line.split(maxsplit=1) for line in lines]


async def test_help_begins_with_the_page_and_the_row_and_has_each_key_once(make):
    async with at(make(executor=FakeExecutor()), "4", "question_mark", size=(120, 60)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        parts = app.screen.text.partition("\n–        unknown")[0].strip().split("\n\n")
        groups = {part.splitlines()[0]: part.splitlines()[1:] for part in parts}
        assert list(groups)[:3] == ["Page Processes", "This row", "Any row"]
        assert [line.split()[0] for line in groups["Page Processes"]] == ["t", "u"]
        assert [line.split()[:3] for line in groups["This row"]][:1] == [["l", "Log", "Open"]]
        assert any(line.startswith("K F9             Kill ") for line in groups["This row"])
        assert listed_once(app.screen.text)
        await pilot.press("escape", "1", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextScreen) and "Page Processes" not in app.screen.text)
        assert listed_once(app.screen.text)


def listed_once(text):
    keys = [key for line in text.partition("\n–        unknown")[0].splitlines() if line[16:17] == " " for key in line[:16].split()]
    return sorted(keys) == sorted(set(keys))


async def test_ages_grow_while_no_source_answers(make, clock):
    async with at(make(), size=(160, 40), then="2s ago") as (app, pilot):
        clock.now += 300
        app.live.tick()
        await until(pilot, lambda: "5m02s ago" in shown(app))


async def test_unknown_is_drawn_as_unknown(make):
    app = make(Snapshot(taken=NOW, cluster=Cluster(reachable=False), faults=(Fault("ray.identity", "nothing listens there", NOW - 5),)))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "no dashboard" in shown(app))
        text = shown(app)
        assert "nothing listens there" in text
        assert "NODES –" in text
        assert "0/0" not in text


async def test_a_tiny_terminal_says_so_and_survives(make):
    async with at(make(), size=(20, 5)) as (app, pilot):
        await until(pilot, lambda: all(words in shown(app) for words in ("cockpit needs a", "terminal of at least", "60x15")))
        for key in ("1", "2", "3", "4", "5", "j", "enter", "escape", "question_mark", "escape"):
            await pilot.press(key)
        assert app.is_running
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "10.0.0.1:8265" in shown(app) and "cockpit needs a" not in shown(app))


async def test_scrollbars_and_messages_are_ascii_too(make):
    async with at(make(ascii=True), "2", "enter", "r", size=(80, 16), notifications=True, then="Polling every source now") as (app, pilot):
        assert not _strange(app)
        await press(pilot, "question_mark", then="Esc: back")
        assert not _strange(app)
        app.push_screen(NameDialog("Its name:", "ppo"))
        await until(pilot, lambda: "Its name:" in shown(app))
        assert not _strange(app)


@pytest.mark.parametrize("ascii", [True, False])
async def test_every_sign_on_every_page_has_an_ascii_one_that_is_as_wide(make, ascii):
    async with at(make(snapshot(findings=(finding(),)), ascii=ascii, executor=FakeExecutor()), size=(160, 50), notifications=True) as (
        app,
        pilot,
    ):
        for key in ("1", "2", "3", "t", "4", "t", "5", "6", "7", "1", "m", "question_mark", "escape", "y", "escape", "colon"):
            await pilot.press(key)
            await pilot.pause()
            lines = shown(app).splitlines()
            assert [cell_len(to_ascii(line)) for line in lines] == [cell_len(line) for line in lines]
            assert not _strange(app), key


@pytest.mark.process
@pytest.mark.timeout(60)
def test_with_ascii_only_ascii_reaches_the_terminal():
    terminal, program = os.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen([*PROGRAM, "--ascii"], stdin=program, stdout=program, stderr=program, env=env, start_new_session=True) as running:
        try:
            seen = b""
            while b"Other cluster" not in seen:
                seen += os.read(terminal, 65536)
            os.write(terminal, b"?")
            while b"Esc: back" not in seen:
                seen += os.read(terminal, 65536)
            assert seen.isascii()
        finally:
            running.kill()
            os.close(terminal)
            os.close(program)


def _strange(app):
    return {char for char in to_ascii(shown(app)) if not char.isascii()}


async def test_an_unknown_theme_is_one_sentence_and_the_default(make):
    async with at(make(theme="nope"), notifications=True, then="Unknown theme nope") as (app, _):
        assert app.theme == "midnight"


async def test_quitting_closes_the_monitor(make):
    async with at(make(), "q", size=(80, 24)) as (app, pilot):
        await pilot.pause()
    assert app.monitor.closed


async def test_a_sigterm_closes_the_monitor_and_gives_the_terminal_back(make):
    async with at(make(), size=(80, 24)) as (app, pilot):
        os.kill(os.getpid(), signal.SIGTERM)
        await until(pilot, lambda: app.return_code == 128 + signal.SIGTERM)
    assert app.monitor.closed


async def test_a_palette_that_is_closed_at_once_does_not_end_the_program(make):
    async with at(make(), ":", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        await palette.query("*").remove()
        palette._gather_commands("")
        await until(pilot, lambda: all(each.node is not palette or each.is_finished for each in app.workers))
        await press(pilot, "escape", then=lambda: app.screen is not palette)
        assert app.return_code is None


async def test_the_palette_opens_pages_and_sorts(make):
    async with at(make()) as (app, pilot):
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {page.title for page in PAGES} <= titles
        await press(pilot, "colon", *"jobs", "enter", then="JOBS")
        await press(pilot, "colon", *"sort", "down", "enter", then=lambda: table_of(app).sorts)


async def test_the_palette_calls_keys_as_they_are_printed(make):
    app = make(executor=FakeExecutor())
    async with running(app):
        helps = {command.title: command.help for command in app.get_system_commands(app.screen) if command.help.startswith("Key ")}
        assert {title: helps[title] for title in ("Help", "Refresh", "GPU memory")} == {
            "Help": "Key ?: Show all keys and what the symbols mean.",
            "Refresh": "Key r: Poll every source now.",
            "GPU memory": "Key M: Show who holds most GPU memory: processes, the greatest first; again: in their usual order.",
        }
        assert not any("_" in text.split()[1] for text in helps.values())


@pytest.mark.parametrize("number", range(1, len(PAGES) + 1))
async def test_the_palette_has_every_key_of_the_page_and_of_its_row(make, number):
    async with at(make(executor=FakeExecutor()), str(number), size=(160, 50)) as (app, pilot):
        await until(pilot, lambda: isinstance(pages_of(app).page, PAGES[number - 1]) and app.live.snapshot.nodes)
        await press(pilot, "colon", then=lambda: isinstance(app.screen, Palette))
        offered = {command.title for command in app.get_system_commands(app.screen)}
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, Palette))
        labels = {label for _, _, label in app.query_one(Footer)._keys}
        assert len(labels) > 10
        assert labels - offered == set()
        assert {"Sort", "Sort back", "GPU memory", "Memory", "Filter", "Unhide", "Pane", "Tag"} <= offered


@pytest.mark.parametrize(
    ("typed", "found"),
    [("svg", {"Screenshot"}), ("picture", {"Screenshot"}), ("vram", {"GPU memory"}), ("sigkill", {"Kill"}), ("stuck", {"Stack"})],
)
async def test_the_palette_finds_what_a_command_does_and_what_else_it_may_be_called(make, typed, found):
    async with at(make(executor=FakeExecutor()), "4") as (app, _):
        hits = [str(hit.text) async for hit in Commands(app.screen).search(typed)]
        assert found <= set(hits)


async def test_the_palette_lists_first_the_commands_whose_name_was_typed(make):
    app = make(executor=FakeExecutor())
    async with running(app):
        hits = {str(hit.text): hit.score async for hit in Commands(app.screen).search("memory")}
        assert min(hits["Memory"], hits["GPU memory"]) > hits["Kill orphans"]


async def test_the_other_words_of_the_palette_belong_to_existing_commands(make):
    app = make(executor=FakeExecutor())
    async with running(app):
        labels = {
            binding.description
            for binding in (*Cockpit.BINDINGS, *LiveScreen.BINDINGS, *PageView.BINDINGS, *ReplayScreen.BINDINGS, *Table.BINDINGS)
        }
        titles = {command.title for command in app.get_system_commands(app.screen)} | {action.title for action in ACTIONS}
        assert set(OTHER_WORDS) <= labels | titles


async def test_a_screenshot_is_a_new_file_in_the_current_directory_and_its_whole_path_is_said(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with at(make(), "colon", *"svg", "down", "enter", size=(160, 40), notifications=True) as (app, pilot):
        await until(pilot, lambda: "Screenshot written to" in shown(app))
        (file,) = tmp_path.iterdir()
        assert file.name in shown(app)
        assert file.read_text().startswith("<svg")
        assert file.stat().st_mode & 0o777 == 0o600


def test_gpu_memory_of_a_gpu_seen_twice_counts_once():
    twice = (node(1), node(1, id="f" * 56))
    assert Index(snapshot(nodes=twice)).gpu_memory == Index(snapshot(nodes=(node(1),))).gpu_memory
    assert Index(snapshot(nodes=(node(1),))).gpu_memory[1] == 8 * 80 * GIB


async def test_a_greeting_is_shown_first(make):
    app = make()
    app.greeting = "Demo cluster at http://127.0.0.1:8299"
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "Demo cluster at http://127.0.0.1:8299" in shown(app))
