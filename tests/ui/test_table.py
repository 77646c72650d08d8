from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from cockpit.ui.block import CUTS, GUTTER_CELLS, fit_text, lay_out, lay_out_cell
from cockpit.ui.section import MIN_GROWING_CELLS, Column, Section, fit_columns
from cockpit.ui.styles import TonedApp, find_style
from cockpit.ui.table import Table
from cockpit.ui.theme import variable_defaults
from cockpit.ui.view import View


class Thing(msgspec.Struct, frozen=True):
    name: str
    size: int | None = 0
    note: str = ""

    @property
    def key(self):
        return self.name


NAME = Column[Thing]("THINGS", 10, lambda thing, _: thing.name, sort=lambda thing, _: thing.name)
SIZE = Column[Thing]("SIZE", 6, lambda thing, _: str(thing.size), sort=lambda thing, _: thing.size, right=True)
NOTE = Column[Thing]("NOTE", 8, lambda thing, _: ((thing.note, "warn"),), grow=True)


def section(*things, key="things", columns=(NAME, SIZE, NOTE), **more):
    facts = {"nothing": "none at all", "search": lambda thing: f"{thing.name} {thing.note}", **more}
    return Section(key, key.upper(), columns, facts.pop("rows", list(things)), **facts)


def things(*names):
    return [Thing(name, number, f"note {name}") for number, name in enumerate(names)]


class Shown(TonedApp):
    def __init__(self):
        super().__init__()
        self.table = Table()
        self.opened = []

    def get_theme_variable_defaults(self):
        return variable_defaults(self.current_theme)

    def compose(self):
        yield self.table

    def on_mount(self):
        self.table.focus()

    def on_table_opened(self, message):
        self.opened.append(message.row.name)


@asynccontextmanager
async def table(*sections, size=(40, 10), plain=False):
    app = Shown()
    async with app.run_test(size=size) as pilot:
        app.table.show(sections, View(ascii=plain))
        await pilot.pause()
        yield app.table, pilot


def lines(table):
    return [table.render_line(y).text for y in range(table.size.height)]


def names(table, number=0):
    return [thing.name for thing in table.blocks[number].rows]


async def orders(table, pilot, title):
    """Sorted by that column, and sorted the other way."""
    found = []
    for _ in range(2):
        while True:
            await pilot.press("greater_than_sign")
            if table.sorts["things"][0] == title:
                break
        found.append(names(table))
    return found


# Columns


def columns(*facts):
    return tuple(Column(title, width, str, rank=rank, grow=grow) for title, width, rank, grow in facts)


FOUR = columns(("A", 10, 0, False), ("B", 5, 2, False), ("C", 5, 1, False), ("D", 5, 0, True))


def test_where_there_is_room_every_column_is_shown_and_one_grows():
    assert [(column.title, width) for column, width in fit_columns(FOUR, 40)] == [("A", 10), ("B", 5), ("C", 5), ("D", 16)]
    assert [column.title for column, _ in fit_columns(columns(("A", 5, 1, False), ("B", 5, 1, False)), 6)] == ["A"], "the last goes first"


@pytest.mark.parametrize(("width", "left"), [(29, "ABCD"), (28, "ACD"), (23, "ACD"), (22, "AD"), (17, "AD"), (1, "AD")])
def test_the_highest_rank_goes_first_and_rank_0_stays(width, left):
    assert "".join(column.title for column, _ in fit_columns(FOUR, width)) == left


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9), st.booleans()), min_size=1), st.integers(0, 200))
def test_columns_fit_unless_nothing_more_can_go(facts, width):
    shown = fit_columns(columns(*(("x", *fact) for fact in facts)), width)
    assert sum(given + 1 for _, given in shown) <= width or not any(column.rank for column, _ in shown)
    *_, last = (None, *(column for column, _ in shown if column.grow))
    assert all(given >= (min(MIN_GROWING_CELLS, column.width) if column is last else column.width) for column, given in shown)


def test_where_nothing_more_can_go_the_last_that_grows_is_narrower_so_that_its_texts_end_with_dots():
    assert [width for _, width in fit_columns(columns(("A", 20, 0, False), ("B", 26, 0, True)), 45)] == [20, 23]
    assert [width for _, width in fit_columns(columns(("x", 9, 0, True), ("x", 9, 0, True)), 0)] == [9, min(9, MIN_GROWING_CELLS)]


def test_what_is_cut_says_so_and_what_fits_is_whole():
    assert [fit_text(text, 4) for text in ("abcd", "abcde", "漢字", "漢字漢")] == ["abcd", "abc…", "漢字", "漢 …"]
    assert fit_text("ab", 4, right=True) == "  ab"


@given(st.text(st.sampled_from("ab漢字e\u0301👩…- ")), st.integers(0, 30), st.booleans())
def test_a_cell_is_as_wide_as_its_column_wherever_it_is_cut(text, width, right):
    assert {cell_len(fit_text(text, width, cut=cut)) for cut in CUTS} | {cell_len(fit_text(text, width, right=right))} == {width}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("rayjob-sample-qtfkz-gpu-worker-mh5wd", "rayjob-sa…-mh5wd"),
        ("gpu-node-17.cluster.example", "gpu-node…example"),
        ("no hyphen in this subject", "no hyphe…subject"),
        ("eval-gsm8k-20261127-213045", "eval-gsm…-213045"),
        ("ppo-7b", "ppo-7b          "),
    ],
)
def test_of_a_name_that_is_cut_in_its_middle_the_end_stays_by_which_pods_differ(name, shown):
    assert fit_text(name, 16, cut="middle") == shown


def names_drawn(*names):
    """A column of names that may be 24 cells wide, beside a long note."""
    name = Column[Thing]("NAME", 12, lambda thing, _: thing.name, name=True)
    rows = [Thing(name, note="n" * 200) for name in names]
    (block,) = lay_out([(Section("things", "THINGS", (name, NOTE), rows), rows, 0)], 35, 20, View())
    (column, width), _ = block.columns
    return [lay_out_cell(name, width, False, column.cut)[0][0].rstrip() for name in names]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["eval-gsm8k-20261127-2130", "eval-gsm8k-20261127-2145"], ["eval-gsm8k-20261127-2130", "eval-gsm8k-20261127-2145"]),
        (
            ["eval-on-all-of-gsm8k-20261127-2130", "eval-on-all-of-gsm8k-20261127-2145"],
            ["eval-on-all-of-gsm…-2130", "eval-on-all-of-gsm…-2145"],
        ),
        (["n17.racks.cluster.example.com", "n18.racks.cluster.example.com"], ["n17.racks.cl…example.com", "n18.racks.cl…example.com"]),
        (
            ["/a/way/that/all/have/one/checkpoint", "/a/way/that/all/have/two/checkpoint"],
            ["/a/way/that/all/have/on…", "/a/way/that/all/have/tw…"],
        ),
    ],
)
def test_names_take_free_room_and_where_they_are_cut_they_still_look_different(names, shown):
    assert names_drawn(*names) == shown


# Lines


async def test_every_line_is_as_wide_as_the_table():
    odd = [Thing("漢字漢字漢字漢字", 1, "字" * 40), Thing("a\x1b[31m\nb", None, "\u202e"), Thing("x" * 99, 10**9, "[/]")]
    for width in (20, 31, 40, 77):
        async with table(section(*odd), section(key="empty"), size=(width, 10)) as (shown, _):
            assert {shown.render_line(y).cell_length for y in range(10)} == {width}
            assert {cell_len(line) for line in lines(shown)} == {width}


async def test_hostile_text_stays_in_its_cell():
    async with table(section(Thing("a\x1b]0;x\x07b", 1, "\nc"))) as (shown, _):
        (row,) = [line for line in lines(shown) if "]0;x" in line]
        assert "\x1b" not in row
        assert row.rstrip().endswith(" c")


async def test_a_heading_holds_title_count_and_columns():
    async with table(section(*things("a", "b"))) as (shown, _):
        heading = lines(shown)[0]
        assert heading.split() == ["THINGS", "2", "SIZE", "NOTE"]
        row = lines(shown)[2]
        assert heading.index("SIZE") + len("SIZE") == row.index(" 1 ") + 2, "numbers stand right, under their title"


async def test_a_long_title_lies_over_the_columns_and_cuts_no_word():
    long = replace(section(*things("a")), title="PENDING (cut)")
    async with table(long) as (shown, _):
        assert lines(shown)[0].split() == ["PENDING", "(cut)", "1", "NOTE"]


@pytest.mark.parametrize("title", ["T" * 60, "漢字" * 4, "OF \x1b[31m\u202e"])
async def test_a_title_may_be_longer_than_the_columns_or_hostile(title):
    for columns in ((NAME,), (NAME, SIZE, NOTE)):
        async with table(replace(section(*things("a"), columns=columns), title=title)) as (shown, _):
            assert {shown.render_line(y).cell_length for y in range(10)} == {40}
            assert "\x1b" not in lines(shown)[0]


async def test_none_unknown_and_hidden_look_different_and_a_long_sentence_ends_with_an_ellipsis():
    unknown = "unknown (1 host probed; 5 processes could not be classified)"
    async with table(section(), section(rows=None, unknown=unknown, key="others")) as (shown, _):
        assert lines(shown)[0].rstrip() == "  THINGS 0  none at all"
        assert lines(shown)[1].rstrip() == "  OTHERS –  unknown (1 host probed; 5 p…"
        shown.show([section(*things("a", "b"))], View())
        shown.filter_rows("nowhere")
        assert lines(shown)[0].rstrip() == "  THINGS 0/2  2 hidden by the filter"


async def test_a_section_that_is_only_the_first_of_many_says_so():
    async with table(section(*things("a", "b"), total=900)) as (shown, _):
        assert "THINGS 2/900" in lines(shown)[0]


async def test_the_heading_of_the_section_in_sight_stays_on_top():
    async with table(section(*things(*map(str, range(50)))), section(*things("z"), key="others")) as (shown, pilot):
        await pilot.press("pagedown", "pagedown")
        assert lines(shown)[0].split()[:2] == ["THINGS", "50"]
        await pilot.press("G")
        assert lines(shown)[-1].split()[0] == "▸z"


# Folding


LONG = replace(NOTE, fold=4)
SENTENCE = "what stands here is longer than the room that the column has on one line"


def long_section(*names, **more):
    return section(*(Thing(name, number, SENTENCE) for number, name in enumerate(names)), columns=(NAME, SIZE, LONG), **more)


async def test_a_text_that_is_cut_is_folded_where_lines_would_stay_blank():
    async with table(long_section("a"), size=(40, 10)) as (shown, _):
        said = [line[20:].strip() for line in lines(shown)[1:5]]
        assert " ".join(said) == SENTENCE
        assert [line[:20].split() for line in lines(shown)[1:5]] == [["▸a", "0"], [], [], []]


async def test_where_lines_are_few_the_first_rows_are_folded_and_what_is_left_is_cut():
    async with table(long_section("a", "b", "c"), size=(40, 6)) as (shown, _):
        assert [shown.blocks[0].height_of(row) for row in range(3)] == [3, 1, 1]
        assert [line.rstrip()[-1] == "…" for line in lines(shown)[1:]] == [False, False, True, True, True]


async def test_a_table_that_must_be_scrolled_folds_nothing():
    async with table(long_section(*map(str, range(20))), size=(40, 10)) as (shown, _):
        assert shown.virtual_size.height == 21
        assert {shown.blocks[0].height_of(row) for row in range(20)} == {1}


async def test_a_text_goes_over_no_more_lines_than_its_column_allows():
    long = Thing("a", 1, "word " * 200)
    async with table(section(long, columns=(NAME, SIZE, LONG)), size=(40, 30)) as (shown, _):
        assert shown.blocks[0].height_of(0) == 4
        assert lines(shown)[4].rstrip().endswith("…")


async def test_cursor_and_mouse_take_a_folded_row_for_one():
    async with table(long_section("a", "b"), section(*things("z"), key="others"), size=(40, 20)) as (shown, pilot):
        cursor = find_style(shown, "cursor").bgcolor
        for name, place in (("a", 0), ("b", 1), ("z", 2)):
            assert (shown.selected.name, shown.at) == (name, place)
            block = shown.block
            first = block.line_of(place - block.first)
            drawn = range(first, first + block.height_of(place - block.first))
            lit = [y for y in range(20) if any(part.style and part.style.bgcolor == cursor for part in shown.render_line(y))]
            assert lit == list(drawn)
            await pilot.press("down")
        await pilot.click(Table, offset=(5, shown.blocks[0].line_of(1) + 2))
        assert shown.selected.name == "b"
        await pilot.click(Table, offset=(5, shown.blocks[0].line_of(0) + 3))
        assert shown.selected.name == "a"
        await pilot.click(Table, offset=(5, shown.blocks[0].line_of(1) + 3), times=2)
        assert pilot.app.opened == ["b"]


async def test_the_filter_makes_room_in_which_rows_are_folded():
    async with table(long_section(*map(str, range(20))), size=(40, 10)) as (shown, _):
        shown.filter_rows("17")
        assert [shown.blocks[0].height_of(0), len(shown.blocks[0].rows)] == [4, 1]
        assert " ".join(line[20:].strip() for line in lines(shown)[1:5]) == SENTENCE


async def test_every_line_of_a_folded_row_is_as_wide_as_the_table():
    odd = [Thing("漢字", 1, "漢字" * 60), Thing("b", 2, "x" * 300), Thing("c", 3, "a\x1b[31m\nb " * 30), Thing("d", 4, " " * 200)]
    for width in (20, 31, 40, 77):
        async with table(section(*odd, columns=(NAME, SIZE, LONG)), size=(width, 30)) as (shown, _):
            assert {cell_len(line) for line in lines(shown)} == {width}
            assert not any("\x1b" in line for line in lines(shown))


async def test_of_a_section_that_may_be_short_rows_are_left_out_only_where_there_is_no_room():
    short = section(*things(*"abcdefgh"), min_rows=2, more_hint="press 9")
    async with table(short, section(*things(*map(str, range(9))), key="others"), size=(60, 30)) as (shown, _):
        assert len(names(shown)) == 8
        assert "press 9" not in lines(shown)[0]
    async with table(short, section(*things(*map(str, range(9))), key="others"), size=(60, 14)) as (shown, _):
        assert len(names(shown)) == 3
        assert shown.virtual_size.height == 14
        assert "THINGS 3/8" in lines(shown)[0]
        assert "(5 more: press 9)" in lines(shown)[0]
    async with table(short, section(*things(*map(str, range(9))), key="others"), size=(60, 8)) as (shown, _):
        assert len(names(shown)) == 2


# Sorting


MIXED = [Thing("b", 2), Thing("c", None), Thing("a", 3), Thing("d", 1)]


async def test_text_sorts_from_a_numbers_from_the_greatest_and_unknown_last_whichever_way():
    async with table(section(*MIXED)) as (shown, pilot):
        assert await orders(shown, pilot, "THINGS") == [["a", "b", "c", "d"], ["d", "c", "b", "a"]]
        assert await orders(shown, pilot, "SIZE") == [["a", "b", "d", "c"], ["d", "b", "a", "c"]]
        await pilot.press("greater_than_sign")
        assert names(shown) == ["b", "c", "a", "d"], "after the last order rows lie as they came"


async def test_the_heading_tells_the_order():
    async with table(section(*MIXED)) as (shown, pilot):
        await pilot.press("greater_than_sign")
        assert "THINGS 4▴" in lines(shown)[0]
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert "SIZE▾" in lines(shown)[0]
        await pilot.press("greater_than_sign")
        assert "SIZE▴" in lines(shown)[0]
    async with table(section(*MIXED), plain=True) as (shown, pilot):
        await pilot.press("less_than_sign")
        assert "SIZE^" in lines(shown)[0]


async def test_the_arrow_stays_where_the_title_or_the_column_is_too_narrow_for_it():
    narrow = replace(SIZE, title="GPU MEM", width=7)
    async with table(section(*MIXED, columns=(NAME, narrow, NOTE))) as (shown, pilot):
        await orders(shown, pilot, "GPU MEM")
        assert " GPU M…▴ " in lines(shown)[0]
    under = Column[Thing]("NOTE", 8, lambda thing, _: thing.note, sort=lambda thing, _: thing.note)
    async with table(replace(section(*MIXED, columns=(NAME, under)), title="THINGS of a")) as (shown, pilot):
        await pilot.press("less_than_sign", "less_than_sign")
        assert lines(shown)[0].split() == ["THINGS", "of", "a", "4", "▴"]


async def test_a_sort_by_a_column_for_which_there_is_no_room_now_still_holds():
    small = replace(SIZE, rank=1)
    async with table(section(*MIXED, columns=(NAME, small, NOTE))) as (shown, pilot):
        await orders(shown, pilot, "SIZE")
        await pilot.resize_terminal(22, 10)
        assert names(shown) == ["d", "b", "a", "c"]


async def test_facts_about_one_thing_are_neither_sorted_nor_filtered():
    async with table(section(*MIXED, fixed=True)) as (shown, pilot):
        await pilot.press("greater_than_sign")
        shown.filter_rows("nowhere")
        assert names(shown) == ["b", "c", "a", "d"]
        assert not shown.sorts


# Filter


async def test_a_filter_looks_at_more_than_is_shown_in_any_case_and_holds_for_what_comes_later():
    async with table(section(Thing("a", note="Straße"), Thing("b", note="way"))) as (shown, _):
        shown.filter_rows("STRASSE")
        assert names(shown) == ["a"]
        shown.filter_rows("strasse", inverted=True)
        assert names(shown) == ["b"]
        shown.filter_rows("b")
        shown.show([section(*things("a", "b", "bb"))], View())
        assert names(shown) == ["b", "bb"]
        shown.filter_rows("")
        assert names(shown) == ["a", "b", "bb"]


# Cursor and tags


async def test_until_somebody_moves_the_cursor_stays_on_top():
    async with table(section(*things("b", "c"))) as (shown, _):
        shown.show([section(*things("a", "b", "c"))], View())
        assert shown.selected.name == "a"


async def test_once_moved_the_cursor_stays_on_its_thing():
    async with table(section(*things("a", "b", "c")), section(*things("x"), key="others")) as (shown, pilot):
        await pilot.press("j", "j")
        assert shown.selected.name == "c"
        shown.show([section(*things("q", "c", "b")), section(*things("x"), key="others")], View())
        assert shown.selected.name == "c"
        shown.show([section(*things("q")), section(*things("x", "c"), key="others")], View())
        assert (shown.selected.name, shown.block.section.key) == ("c", "others")


async def test_where_its_thing_is_gone_the_cursor_stays_on_the_line():
    async with table(section(*things("a", "b", "c"))) as (shown, pilot):
        await pilot.press("j")
        shown.show([section(*things("a", "c", "d"))], View())
        assert shown.selected.name == "c"
        shown.show([section()], View())
        assert shown.selected is None
        assert shown.chosen == []


async def test_a_page_that_is_shown_again_has_its_cursor_on_the_same_thing_and_is_scrolled_as_before():
    rows = things(*map(str, range(50)))
    async with table(section(*rows)) as (shown, pilot):
        shown.show([section(*rows)], View(), "many")
        await pilot.press(*"jjjjjjjjjjjjjjjjjjjjkkkk")
        before = lines(shown)
        shown.show([section(*things("a", "b"))], View(), "few")
        assert shown.selected.name == "a"
        shown.show([section(*rows)], View(), "many")
        assert lines(shown) == before
        shown.show([section(*things("a", "b"))], View(), "few")
        shown.show([section(Thing("new"), *rows)], View(), "many")
        assert shown.selected.name == "16"
        shown.show([section(*things("a", "b"))], View(), "few")
        await pilot.press("enter")
        shown.show([section(*things("x"))], View(), "detail")
        shown.show([section(*things("new", "a", "b"))], View(), "few")
        assert shown.selected.name == "a", "a row that was opened is found again"


async def test_the_cursor_goes_over_empty_sections_and_no_further_than_the_ends():
    sections = (section(*things("a")), section(key="empty"), section(*things("b"), key="others"))
    async with table(*sections) as (shown, pilot):
        await pilot.press("k")
        assert shown.selected.name == "a"
        await pilot.press("j", "j", "j")
        assert shown.selected.name == "b"
        await pilot.press("tab")
        assert shown.selected.name == "a"
        await pilot.press("shift+tab")
        assert shown.selected.name == "b"


async def test_keys_in_an_empty_table_do_nothing():
    async with table(section()) as (shown, pilot):
        for key in ("j", "k", "g", "G", "pagedown", "tab", "space", "U", "enter", "greater_than_sign"):
            await pilot.press(key)
        assert shown.selected is None
        assert not pilot.app.opened
    async with table() as (shown, pilot):
        await pilot.press("j", "space", "enter", "greater_than_sign")
        assert shown.block is None


async def test_a_row_carries_a_mark_that_needs_no_colour():
    async with table(section(*things("a", "b", "c"))) as (shown, pilot):
        await pilot.press("j", "space")
        assert [line[:3] for line in lines(shown)[1:4]] == ["  a", " *b", " ▸c"]
    async with table(section(*things("a")), plain=True) as (shown, _):
        assert lines(shown)[1][:3] == " >a"


async def test_a_tag_stays_with_its_thing_and_what_is_tagged_is_chosen():
    async with table(section(*things("a", "b", "c"))) as (shown, pilot):
        await pilot.press("space", "space")
        assert [thing.name for thing in shown.chosen] == ["a", "b"]
        shown.show([section(*things("c", "b"))], View())
        assert [thing.name for thing in shown.chosen] == ["b"]
        await pilot.press("U")
        assert [thing.name for thing in shown.chosen] == [shown.selected.name]
        await pilot.press("g", "space", "k", "space")
        assert shown.tagged == set(), "tagging again takes the tag off"


async def test_a_tagged_row_that_is_hidden_by_the_filter_is_not_chosen():
    async with table(section(*things("a", "b"))) as (shown, pilot):
        await pilot.press("space")
        shown.filter_rows("b")
        assert [thing.name for thing in shown.chosen] == ["b"]


async def test_enter_and_two_clicks_open_and_a_click_beside_the_rows_does_nothing():
    async with table(section(*things("a", "b"))) as (shown, pilot):
        await pilot.press("enter")
        await pilot.double_click(shown, offset=(3, 2))
        await pilot.pause()
        await pilot.click(shown, offset=(3, 8))
        assert pilot.app.opened == ["a", "b"]
        assert shown.selected.name == "b"


async def test_a_click_on_a_title_sorts_by_it_and_again_reverses():
    async with table(section(*MIXED)) as (shown, pilot):
        at = lines(shown)[0].index("SIZE")
        await pilot.click(shown, offset=(at, 0))
        assert names(shown) == ["a", "b", "d", "c"]
        await pilot.click(shown, offset=(at, 0))
        assert names(shown) == ["d", "b", "a", "c"]
        await pilot.click(shown, offset=(GUTTER_CELLS, 0))
        assert names(shown) == ["a", "b", "c", "d"]


async def test_only_lines_on_the_screen_are_drawn():
    drawn = []
    counted = replace(NAME, cell=lambda thing, _: drawn.append(thing.name) or thing.name)
    async with table(section(*things(*map(str, range(10_000))), columns=(counted,))) as (_, pilot):
        drawn.clear()
        await pilot.press("G")
        await pilot.pause()
        assert "9999" in drawn
        assert len(set(drawn)) < 50


async def test_tones_are_those_of_the_theme():
    async with table(section(*things("a"))) as (shown, pilot):
        seen = set()
        for name in ("textual-dark", "nord", "gruvbox"):
            pilot.app.theme = name
            await pilot.pause()
            seen.add(find_style(shown, "warn").color)
        assert len(seen) == 3
