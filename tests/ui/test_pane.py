from __future__ import annotations

import pytest

from cockpit.model import Finding, Remedy
from cockpit.ui.block import MAX_LENT_LINES, MIN_PANE_LINES, lent_lines
from cockpit.ui.pane import SHARE_OF_LONG_TABLE, Pane, pane_height
from tests.ui.screen import at, footer, pages_of, press, shown, table_of, table_text, unsafe, until
from tests.world import NOW, actor, node, process, snapshot

LOST = Finding(
    "gpu-lost",
    "critical",
    "node2 GPU 3",
    "GPU 3 of node2 is lost " + "and its job waits for it " * 12 + "for ever",
    ("NVML: GPU is lost", "nvidia-smi on node2 says so"),
    NOW - 50,
    Remedy("reset the GPU, or drain the node"),
    (node(2).key,),
)


def pane(app):
    """What the pane says."""
    return shown(app).partition("Enter: opens the row")[2].rpartition("\n")[0]


@pytest.mark.parametrize(
    ("table", "may_cover", "height"),
    [
        (20, False, 20),
        (40 - MIN_PANE_LINES, False, MIN_PANE_LINES),
        (41 - MIN_PANE_LINES, True, 0),  # what fits on the screen stays on it
        (40, True, 0),
        (41, True, 40 // SHARE_OF_LONG_TABLE),
        (41, False, 0),
    ],
)
def test_the_pane_takes_lines_that_would_stay_blank_or_a_share_of_a_table_that_must_be_scrolled(table, may_cover, height):
    assert pane_height(table, 40, may_cover=may_cover) == height


def test_the_pane_and_texts_that_are_cut_share_the_blank_lines():
    assert [lent_lines(blank) for blank in (0, MIN_PANE_LINES - 1, MIN_PANE_LINES, 20, 99)] == [0, 0, 6, 10, MAX_LENT_LINES]


async def test_the_pane_says_all_of_the_finding_under_the_cursor_and_follows_the_cursor(make):
    async with at(make(snapshot(findings=(LOST,))), size=(160, 60)) as (app, pilot):
        for words in ("FINDING", "nvidia-smi on node2 says so", "reset the GPU, or drain the node"):
            await until(pilot, lambda words=words: words in " ".join(pane(app).split()))
        assert "v Pane" in footer(app)
        await press(pilot, "tab", then=lambda: "node id" in pane(app) and "HELD BY" in pane(app))
        await press(pilot, "down", then=lambda: table_of(app).selected.title in pane(app))


@pytest.mark.parametrize(
    ("key", "heading"), [("3", {"ACTOR"}), ("4", {"PROCESS"}), ("5", {"JOB", "GROUPS", "ACTORS", "PROCESSES"}), ("2", {"NODE"})]
)
async def test_the_pane_says_what_enter_opens(make, key, heading):
    async with at(make(), key, size=(200, 70)) as (app, pilot):
        await until(pilot, lambda: pane(app).split()[3:] and heading <= set(pane(app).split()))
        first = [row.name for row in pilot.app.query_one(Pane).query("Part").first().blocks[0].rows]
        await press(pilot, "enter", then=lambda: len(pages_of(app).pages) == 2)
        assert [row.name for row in table_of(app).blocks[0].rows if row.name] == [name for name in first if name]


async def test_v_hides_the_pane_until_v_shows_it_again(make):
    async with at(make(snapshot(findings=(LOST,))), size=(160, 60)) as (app, pilot):
        await until(pilot, lambda: "FINDING" in pane(app))
        await press(pilot, "v", then=lambda: "Enter: opens" not in shown(app))
        await pilot.press("2", "1")
        await pilot.pause()
        assert "Enter: opens" not in shown(app), "it stays so on other pages"
        await press(pilot, "v", then=lambda: "FINDING" in pane(app))


async def test_where_the_table_needs_every_line_v_says_so(make):
    async with at(make(snapshot(nodes=tuple(node(number) for number in range(1, 40)))), size=(160, 40), notifications=True) as (app, pilot):
        await until(pilot, lambda: "NODES 39" in shown(app))
        assert "Enter: opens" not in shown(app), "no section of the overview is pushed off the screen"
        await press(pilot, "v", "v", then="No room for the pane")


async def test_after_a_click_in_the_pane_keys_still_belong_to_the_table(make):
    async with at(make(snapshot(actors=tuple(actor(number) for number in range(1, 200)))), "3", size=(160, 45)) as (app, pilot):
        await until(pilot, lambda: "GROUP" in pane(app).split())
        await pilot.click(app.query_one(Pane), offset=(10, 4))
        await press(pilot, "G", then=lambda: table_of(app).at == table_of(app).count - 1)
        assert app.focused is table_of(app)
        assert "▸" in table_text(app), "the row under the cursor is in sight"
        await until(pilot, lambda: table_of(app).selected.name in pane(app))
        assert "▸" not in pane(app)


@pytest.mark.parametrize("size", [(80, 24), (139, 36), (140, 35)])
async def test_where_there_is_no_room_v_says_how_much_it_needs(make, size):
    async with at(make(), "v", size=size, notifications=True, then="The pane needs a terminal of at least 140x36") as (app, pilot):
        assert "Pane" not in footer(app)
        assert "Enter: opens" not in shown(app)
        await pilot.resize_terminal(160, 50)
        await until(pilot, lambda: "node id" in pane(app) and "v Pane" in footer(app))


async def test_a_click_in_the_pane_chooses_nothing(make):
    async with at(make(snapshot(findings=(LOST,))), size=(160, 60)) as (app, pilot):
        await until(pilot, lambda: "FINDING" in pane(app))
        place = None
        while place != app.query_one(Pane).region:  # until the screen has been laid out
            place = app.query_one(Pane).region
            await pilot.pause(0.1)
        for line in range(1, 8):
            await pilot.click(app.query_one(Pane), offset=(20, line))
        assert table_of(app).at == 0
        assert len(pages_of(app).pages) == 1


async def test_hostile_names_do_nothing_in_the_pane(make):
    async with at(make(snapshot("\x1b]0;x\x07[/]\u202e", findings=(LOST,))), size=(160, 60)) as (app, pilot):
        for key in "123456":
            await press(pilot, key, then="Enter: opens")
            assert unsafe(shown(app)) == []


async def test_when_the_filter_leaves_nothing_the_pane_says_nothing(make):
    async with at(make(snapshot(processes=(process(1200),))), "4", size=(160, 45)) as (app, pilot):
        await until(pilot, lambda: "PROCESS" in pane(app).split())
        table_of(app).filter_rows("nowhere")
        await until(pilot, lambda: "Enter: opens" not in shown(app))


async def test_the_page_of_a_thing_has_no_pane(make):
    async with at(make(snapshot(findings=(LOST,))), size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: "FINDING" in pane(app))
        await press(pilot, "tab", "down", "enter", then=lambda: len(pages_of(app).pages) == 2)
        await until(pilot, lambda: "Enter: opens" not in shown(app))
        await until(pilot, lambda: "for ever" in shown(app))  # what is found about it is not cut for a pane that has nothing to say
