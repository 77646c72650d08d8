"""Findings on the screen: told, opened, mended, hidden, and marked where they are about a row."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import cockpit.findings
from cockpit.model import Finding, Node, Remedy, Snapshot
from cockpit.model.about import find_things
from cockpit.text import clean
from cockpit.ui.findings import LOOK_KEYS, FindingIndex, next_steps
from cockpit.ui.screens.plan import PlanScreen
from tests.ui.conftest import FakeExecutor
from tests.ui.screen import at, pages_of, press, said, shown, table_of, table_text, until
from tests.world import NOW, actor, node, process, snapshot

ORPHANS = Finding(
    "gpu-memory-orphaned",
    "critical",
    "node1",
    "2 orphan processes hold 80G of GPU memory on 2 GPUs of node1 (2, 3): their job or Ray has ended",
    ("pid 1200 (orphan) holds GPU 2: 40G: its raylet is dead", "nvidia-smi on node1 lists pid 1200"),
    NOW - 400,
    Remedy("end them: no live process needs them", "kill-orphans"),
    (process(1200).key, process(1300).key),
)
DEAD = Finding("node-dead", "critical", "node3", "node3 is dead", since=NOW - 60, about=(node(3).key,))
LOST = Finding("gpu-lost", "critical", "node2 GPU 3", "GPU 3 of node2 is lost", since=NOW - 50, about=(f"{node(2).key}:3",))
GROUP = Finding(
    "never-placed",
    "warning",
    "vllm",
    "group vllm can never be placed",
    (),
    NOW,
    Remedy("remove it", "remove-placement-group"),
    (f"pg:{7:036x}",),
)
RESTARTS = Finding(
    "actor-restarting",
    "warning",
    "vllm",
    "actor vllm was restarted 8 times",
    (),
    NOW,
    Remedy("read its log", "kill-actor"),
    (actor(1).key,),
)
NEAR = Finding("host-memory-near-kill", "critical", "node2", "node2 uses 96% of its memory", since=NOW, about=(node(2).key,))
DISK = Finding("disk-sessions", "info", "node1", "a dead session holds 90G", (), NOW, Remedy("remove it", "clean"))


def stands(finding, **more):
    facts = {name: getattr(finding, name) for name in finding.__struct_fields__}
    return Finding(**{**facts, **more})


def dead_session():
    return next(session for session in snapshot().sessions if session.live is False)


def world(*findings, text="", **more):
    return snapshot(text, findings=findings, **more)


def row(app, word):
    return next(line for line in reversed(table_text(app).splitlines()) if word in line)


def marked(app, *words):
    """Whether the row with this word has a mark at its left edge."""
    return [row(app, word)[0] for word in words]


async def aimed(pilot, key):
    executor = pilot.app.executor
    await press(pilot, key, then=lambda: executor.planned and isinstance(pilot.app.screen, PlanScreen))
    await press(pilot, "escape", then=lambda: not isinstance(pilot.app.screen, PlanScreen))
    action, chosen = executor.planned.pop()
    return action.id, chosen


# What is told


async def test_the_page_lists_the_worst_first_each_with_its_next_key(make):
    async with at(make(world(ORPHANS, GROUP, RESTARTS, DISK), executor=FakeExecutor()), "6", size=(160, 50), then="FINDINGS 4") as (app, _):
        lines = [
            line.split()
            for line in table_text(app).splitlines()
            if line.split()[1:2] and {"critical", "warning", "info"} & set(line.split())
        ]
        assert [[word for word in line if word in ("critical", "warning", "info", "K", "Enter", "l", "C")] for line in lines] == [
            ["critical", "K"],
            ["warning", "Enter"],
            ["warning", "l"],
            ["info", "C"],
        ]
        assert "6m40s" in row(app, "◆ critical")


@pytest.mark.parametrize("size", [(80, 24), (80, 20), (160, 30)])
async def test_the_overview_begins_with_the_worst_and_still_shows_the_nodes(make, size):
    many = [stands(LOST, subject=f"node2 GPU {number}", text=f"GPU {number} of node2 is lost") for number in range(20)]
    async with at(make(world(ORPHANS, *many)), size=size, then="80G of GPU memory") as (app, _):
        listed = shown(app).count("of node2 is lost")
        assert listed >= size[1] // 8 - 1
        assert f"({20 - listed} more: press 6)" in shown(app)
        assert table_of(app).virtual_size.height >= table_of(app).size.height, "no row is left out above a blank line"
        assert all(f" node{number}" in shown(app) for number in (1, 2, 3))


async def test_with_enough_room_the_overview_shows_every_finding_in_full(make):
    long = stands(LOST, text="GPU 3 of node2 is lost " + "because of this and that " * 20 + "at the end")
    app = make(world(ORPHANS, *(stands(long, subject=f"node2 GPU {number}") for number in range(9))))
    async with at(app, size=(160, 90), then="80G of GPU memory") as (_, _):
        assert (shown(app).count("is lost"), shown(app).count("at the end")) == (9, 9)
        assert "press 6" not in shown(app)


@pytest.mark.parametrize(
    ("seen", "said"), [(snapshot(), "none: cockpit sees nothing wrong"), (Snapshot(taken=NOW), "FINDINGS –  unknown yet")]
)
async def test_nothing_is_said_to_be_right_before_anything_is_known(make, seen, said):
    app = make(seen)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "NODES" in shown(app))
        assert "FINDINGS" not in shown(app), "the overview is silent"
        await press(pilot, "6", then=lambda: said in shown(app))


@pytest.mark.parametrize(("size", "line"), [((80, 24), 1), ((160, 50), 0)])
async def test_the_header_counts_them_by_level(make, size, line):
    async with at(make(world(ORPHANS, DEAD, GROUP, DISK)), size=size) as (app, pilot):
        await until(pilot, lambda: "◆2 ▲1 i1" in shown(app).splitlines()[line])
        app.take(world(GROUP))
        await until(pilot, lambda: "▲1" in shown(app).splitlines()[line] and "◆" not in shown(app).splitlines()[line])
        app.take(world())
        await until(pilot, lambda: "▲" not in "".join(shown(app).splitlines()[:2]))


async def test_enter_tells_the_whole_sentence_the_evidence_and_the_remedy(make):
    async with at(make(world(ORPHANS), executor=FakeExecutor()), "6", "enter", size=(80, 24), then="EVIDENCE") as (app, pilot):
        text = " ".join(shown(app).split())
        for fact in (
            ORPHANS.text,
            *ORPHANS.evidence,
            "end them: no live process needs them",
            "K Kill orphans",
            "(6m40s ago)",
            "1200 on node1",
        ):
            assert fact in text
        app.take(world())
        await until(pilot, lambda: "no longer listed" in shown(app))


async def test_the_page_of_a_finding_opens_the_rows_that_it_is_about(make):
    async with at(make(world(ORPHANS)), "6", "enter", "tab", "tab") as (app, pilot):
        await until(pilot, lambda: getattr(getattr(table_of(app).selected, "about", None), "pid", 0) == 1200)
        await press(pilot, "enter", then=lambda: "PARENTS" in shown(app) and "FINDINGS 1" in shown(app))


# Marks


@pytest.mark.parametrize(("plain", "marks"), [(False, "◆▲"), (True, "!^")])
async def test_rows_that_findings_are_about_are_marked_by_shape(make, plain, marks):
    about = stands(GROUP, code="restarts", about=(actor(1).key, "job:ppo-7b"))
    app = make(world(ORPHANS, DEAD, LOST, GROUP, about), ascii=plain)
    critical, warning = marks
    async with app.run_test(size=(160, 60)) as pilot:
        await until(pilot, lambda: "NODES" in shown(app))
        assert marked(app, "node1* ", "node2   ", "node3   ", "python -m openrlhf") == [" ", critical, critical, warning]
        await press(pilot, "4", then="PROCESSES")
        assert marked(app, "1200", "1300", "1400") == [critical, critical, " "]
        await press(pilot, "3", then="GROUPS")
        assert marked(app, "STRICT_PACK", "actor1 ") == [warning, warning]
        await press(pilot, "2", then="HELD BY")
        gpus = [line for line in shown(app).splitlines() if line[2:].startswith("node2")]
        assert [line[0] for line in gpus] == [" ", " ", " ", critical, " ", " ", " ", " "]


async def test_a_detail_lists_what_was_found_about_it(make):
    async with at(make(world(LOST)), "2", "j", "enter") as (app, pilot):
        await until(pilot, lambda: "NODE " in shown(app) and "GPU 3 of node2 is lost" in shown(app))
        await press(pilot, "escape", "k", "enter", then=lambda: "node1" in shown(app) and "FINDINGS 1" not in shown(app))


def test_the_worst_of_several_is_the_mark_and_a_gpu_is_part_of_its_node():
    found = FindingIndex((LOST, stands(GROUP, about=(node(2).key,))))
    assert found.level(node(2)) == "critical"
    assert [finding.code for finding in found.about(node(2).key)] == ["gpu-lost", "never-placed"]
    assert [thing.key for thing in find_things(LOST, snapshot())] == [node(2).key]


# Remedies


async def test_the_key_of_the_remedy_runs_its_action_on_what_it_is_about(make):
    clean_up = stands(DISK, about=(dead_session().key,))
    async with at(make(world(ORPHANS, GROUP, clean_up), executor=FakeExecutor()), "6") as (app, pilot):
        await until(pilot, lambda: table_of(app).count == 3)
        action, chosen = await aimed(pilot, "K")
        assert (action, chosen.hosts, [each.pid for each in chosen.rows]) == ("kill-orphans", (), [1200, 1300])
        await pilot.press("j")
        action, chosen = await aimed(pilot, "X")
        assert (action, chosen.id) == ("remove-placement-group", f"{7:036x}")
        await press(pilot, "j", "enter", then="EVIDENCE")
        action, chosen = await aimed(pilot, "C")
        assert (action, [session.path for session in chosen.rows]) == ("clean", [dead_session().path])


async def test_a_host_that_ray_does_not_know_is_not_in_the_plan_for_others(make):
    held = stands(ORPHANS, about=(node(1).key,))
    seen = world(held)
    app = make(msgspec.structs.replace(seen, nodes=(*(seen.nodes or ()), Node(None, "w9", ip="10.0.0.9"))), executor=FakeExecutor())
    async with at(app, "6") as (_, pilot):
        await until(pilot, lambda: table_of(app).count == 1)
        action, chosen = await aimed(pilot, "K")
        assert (action, chosen.hosts) == ("kill-orphans", (node(1).ip,))


async def test_the_plan_is_about_only_those_rows_that_the_action_takes(make):
    mixed = stands(ORPHANS, remedy=Remedy("end it", "kill"), about=(node(1).key, process(1200).key, process(999999, ticks=None).key))
    async with at(make(world(mixed), executor=FakeExecutor()), "6") as (app, pilot):
        await until(pilot, lambda: table_of(app).count == 1)
        action, chosen = await aimed(pilot, "K")
        assert (action, [each.pid for each in chosen.rows]) == ("kill", [1200])


@pytest.mark.parametrize("action", ["kill-orphans", "kill", "clean", "stop"])
async def test_a_remedy_whose_rows_are_gone_acts_on_nothing_and_not_on_everything(make, action):
    gone = stands(ORPHANS, remedy=Remedy("end them", action), about=(process(4711).key,))
    async with at(make(world(gone), executor=FakeExecutor()), "6", size=(160, 40), notifications=True) as (app, pilot):
        await until(pilot, lambda: table_of(app).count == 1)
        await pilot.press({"clean": "C", "stop": "S"}.get(action, "K"))
        await until(pilot, lambda: any("no longer exists" in said.message for said in app._notifications))
        assert not app.executor.planned


def test_the_step_that_shows_the_cause_comes_before_an_action_that_ends_live_work():
    keys = {
        finding.code: [step.key for step in next_steps(finding, has_actions=True)]
        for finding in (ORPHANS, GROUP, RESTARTS, DISK, DEAD, NEAR)
    }
    assert keys == {
        "gpu-memory-orphaned": ["K", "Enter"],
        "never-placed": ["Enter", "X"],
        "actor-restarting": ["l", "K"],
        "disk-sessions": ["C", "Enter"],
        "node-dead": ["Enter"],
        "host-memory-near-kill": ["m"],
    }


def test_every_code_with_a_key_of_its_own_is_that_of_a_finding():
    source = "\n".join(path.read_text() for path in Path(cockpit.findings.__file__).parent.glob("*.py"))
    assert all(f'"{code}"' in source for code in LOOK_KEYS)


async def test_the_page_of_a_finding_lists_its_steps_in_order(make):
    app = make(world(RESTARTS), executor=FakeExecutor())

    def words():
        return " ".join(shown(app).split())

    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "6", "enter", then=lambda: "press l Log then K Kill actor: shows its plan first" in words())


@pytest.mark.parametrize("keys", [("6",), ("6", "enter")])
async def test_m_on_a_finding_opens_the_memory_of_its_node(make, keys):
    async with at(make(world(NEAR)), *keys, "m", then="Memory node2") as (app, _):
        assert len(pages_of(app).pages) > len(keys)


async def test_read_only_no_action_is_offered(make):
    async with at(make(world(ORPHANS), readonly=True), "6", then="80G of GPU") as (app, pilot):
        assert "Enter" in row(app, "80G of GPU")
        await press(pilot, "K", "enter", then="EVIDENCE")
        assert "end them: no live process needs them" in shown(app)
        assert "Kill orphans" not in shown(app)


# Hiding


async def test_x_hides_a_finding_and_x_on_it_shows_it_again(make):
    async with at(make(world(ORPHANS, DEAD)), "6", "x") as (app, pilot):
        await until(pilot, lambda: "HIDDEN 1" in shown(app) and "FINDINGS 1" in shown(app) and "◆1 hidden" in shown(app).splitlines()[0])
        assert table_of(app).selected == DEAD
        await press(pilot, "4", then="PROCESSES")
        assert marked(app, "1200") == [" "]
        await press(pilot, "1", then="NODES")
        assert "80G of GPU" not in shown(app)
        await press(pilot, "6", "G", "x", then=lambda: "HIDDEN" not in shown(app) and "FINDINGS 2" in shown(app))


async def test_hiding_says_what_was_hidden_and_z_brings_the_last_back(make):
    async with at(make(world(ORPHANS, DEAD, GROUP)), "6", "x", notifications=True) as (app, pilot):
        await until(pilot, lambda: f"Hidden until it clears: critical, {ORPHANS.subject}. z shows it again" in said(app))
        await press(pilot, "1", "space", "space", "x", then=lambda: "Hidden until they clear: 2 findings. z shows them again" in said(app))
        assert not table_of(app).tagged
        await pilot.press("2", "x")
        assert len(app.services.hidden.keys) == 3, "other rows are left alone"
        await press(pilot, "4", "z", "1", then=lambda: app.services.hidden.keys == {ORPHANS.key} and "FINDINGS 2" in shown(app))
        await press(pilot, "z", then=lambda: "Nothing was hidden just now" in said(app))
        assert app.services.hidden.keys == {ORPHANS.key}


async def test_a_hidden_finding_is_counted_in_the_header_also_where_there_is_little_room(make):
    async with at(make(world(ORPHANS, DEAD)), "6", "x", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: "◆1 hidden" in shown(app).splitlines()[0])
        assert shown(app).splitlines()[0].startswith(" Ray 10.0.0.1:8265 ")
        assert shown(app).splitlines()[0].rstrip().endswith(" 2s")
        assert shown(app).splitlines()[1].rstrip().endswith("7 Presets ◆1")


async def test_a_finding_stays_hidden_until_it_ends(make):
    async with at(make(world(ORPHANS)), "6", "enter", then="EVIDENCE") as (app, pilot):
        await press(pilot, "x", then="HIDDEN 1")
        app.take(world(stands(ORPHANS, text="81G are held")))
        await until(pilot, lambda: "81G" in shown(app) and "HIDDEN 1" in shown(app))
        app.take(world())
        await until(pilot, lambda: "sees nothing wrong" in shown(app))
        app.take(world(ORPHANS))
        await until(pilot, lambda: "FINDINGS 1" in shown(app) and "HIDDEN" not in shown(app))


async def test_hostile_sentences_are_drawn_and_do_nothing(make):
    text = "\x1b]0;PWNED\x07 [/] \x1b[31m \u202e \x00 x" * 5
    hostile = stands(ORPHANS, subject=text, text=text, evidence=(text, "", "\n" + text), remedy=Remedy(text, "kill-orphans"))
    async with at(make(world(hostile, text=text), executor=FakeExecutor()), size=(80, 24)) as (app, pilot):
        for key in ("1", "6", "enter", "x", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert all(line == clean(line) for line in shown(app).splitlines())
        assert app.is_running
