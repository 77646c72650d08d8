"""Searching a log, going from match to match, and marked lines, wherever the text stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.ui.log_colours import strip_sequences
from cockpit.ui.log_lines import LogLines
from cockpit.ui.log_search import LineSearch, LogSearches, QuoteSearch
from tests.ui.logs import numbered, shown, texts, until

PIECES = st.sampled_from(["er", "ror", "ERROR", " ", "\x1b[31m", "\x1b[0m", "\x1b]0;error\x07", "\x1b[", "\x1b", "\r", "é", "ß"])
LINES = st.lists(st.lists(PIECES, max_size=5).map("".join), max_size=40)


def found(lines: LogLines, search: LineSearch) -> list[int]:
    search.update(lines, range(lines.cut, lines.end))
    return search.found


def log_of(lines: list[str]) -> LogLines:
    log = LogLines()
    log.extend(lines)
    return log


# What is found


@given(LINES, st.sampled_from(["error", "r", "SS", "\x1b"]), st.booleans())
def test_a_search_finds_the_lines_that_show_the_text(lines: list[str], text: str, invert: bool) -> None:
    wanted = [number for number, line in enumerate(lines) if (text.casefold() in strip_sequences(line).casefold()) is not invert]
    assert found(log_of(lines), LineSearch([text], invert=invert)) == wanted


@pytest.mark.parametrize("text", [".*", "a|b", "[x]", "\\d", "(", "^line", "$"])
def test_signs_of_regular_expressions_mean_themselves(text: str) -> None:
    assert found(log_of(["line abx 1", f"has {text} in it"]), LineSearch([text])) == [1]
    pattern = LineSearch([text]).pattern
    assert pattern is not None
    assert pattern.findall(f"has {text} in it") == [text]


@pytest.mark.parametrize(("invert", "matches"), [(False, [2]), (True, [3])])
def test_within_a_filter_only_lines_of_the_filter_are_found(invert: bool, matches: list[int]) -> None:
    searches = LogSearches(log_of(["red one", "blue one", "red two", "blue two"]))
    searches.set_filter("red", invert=invert)
    searches.set_search("two")
    searches.update()
    assert searches.search.found == matches


def test_cut_lines_are_no_longer_found() -> None:
    log, search = LogLines(max_lines=300), LineSearch(["7"])
    for begin in range(0, 2000, 100):
        log.extend(numbered(100, begin))
        assert found(log, search) == [number for number in range(log.cut, log.end) if "7" in str(number)]


# Going from match to match


async def test_the_searched_text_is_highlighted_in_all_lines() -> None:
    async with shown(["an error", "fine", "漢字 \x1b[31mEr\x1b[0mror, error"]) as (view, _):
        assert texts(view)[2]
        view.search("error")
        highlighted = ["".join(text for text, style, _ in view.render_line(y) if style and style.reverse) for y in range(3)]
        assert highlighted == ["error", "", "Errorerror"]
        assert texts(view)[1] == "fine"
        assert view.status == "3 lines · 2 matches · following"


async def test_next_goes_to_the_first_match_from_the_topmost_line_in_sight_on_and_wraps() -> None:
    async with shown(numbered(1000), size=(40, 100)) as (view, pilot):
        await pilot.press("g", *["pagedown"] * 4)
        assert texts(view)[0] == "line 396"
        view.search("50")
        statuses = []
        for key in "nnnNNNNNNNN":
            await pilot.press(key)
            statuses.append(view.status.split(" · ")[1])
        assert statuses[:3] == ["match 5 of 20", "match 6 of 20", "match 7 of 20"]
        assert statuses[3:] == [*(f"match {place} of 20" for place in (6, 5, 4, 3, 2, 1)), "match 20 of 20, from the end", "match 19 of 20"]


async def test_the_current_match_looks_different_and_has_lines_above_it() -> None:
    async with shown(numbered(100), size=(40, 9)) as (view, pilot):
        await pilot.press("g")
        view.search("50")
        await pilot.press("n")
        assert texts(view)[:3] == ["line 48", "line 49", "line 50"]
        underlined = [text for text, style, _ in view.render_line(2) if style and style.underline]
        assert underlined == ["50"]
        assert not view.follow
        assert view.status == "100 lines · match 1 of 1 · paused at line 49"


async def test_a_match_in_sight_is_gone_to_without_scrolling_and_stops_following() -> None:
    async with shown(numbered(100)) as (view, pilot):
        view.search("95")
        await pilot.press("n")
        assert texts(view)[0] == "line 90"
        view.extend(numbered(100, 100))
        await until(lambda: len(view._rows) == 200)
        assert texts(view)[0] == "line 90"
        await pilot.press("f")
        await until(lambda: texts(view)[-1] == "line 199")
        assert view.status == "200 lines · 2 matches · following"


async def test_after_scrolling_next_goes_on_from_the_lines_in_sight() -> None:
    async with shown(numbered(100)) as (view, pilot):
        view.search("0")
        await pilot.press("g", "n")
        assert "match 1 of 10" in view.status
        await pilot.press(*["pagedown"] * 5)
        assert "10 matches" in view.status
        await pilot.press("n")
        assert "match 6 of 10" in view.status


async def test_a_match_beyond_the_side_is_seen_with_what_stands_around_it_and_all_other_lines_stay() -> None:
    async with shown(
        ["12:00:01 " + "a" * 100 + " before needle after " + "z" * 100, "12:00:02 other", "12:00:03 needle"], size=(41, 5)
    ) as (view, pilot):
        assert texts(view)[2] == "12:00:03 needle"
        view.search("needle")
        await pilot.press("n")
        assert " before needle after " in texts(view)[0]
        assert (texts(view)[0][0], texts(view)[0][-1]) == ("‹", "›")
        assert texts(view)[1:3] == ["12:00:02 other", "12:00:03 needle"]
        await pilot.press("n")
        assert texts(view)[0].startswith("12:00:01")
        assert texts(view)[2] == "12:00:03 needle"


async def test_a_match_that_is_seen_from_the_begin_of_its_line_moves_nothing() -> None:
    async with shown(["12:00:01 " + "x" * 20 + "needle" + "x" * 100], size=(41, 5)) as (view, pilot):
        assert texts(view)[0].startswith("12:00:01")
        view.search("needle")
        await pilot.press("n")
        assert texts(view)[0].startswith("12:00:01")
        await pilot.press("right", "n")
        assert texts(view)[0].startswith("12:00:01")


async def test_left_moves_back_from_the_match_and_that_is_said() -> None:
    async with shown(["0123456789" * 4 + "needle" + "x" * 100], size=(41, 5)) as (view, pilot):
        assert texts(view)[0].startswith("0123456789")
        view.search("needle")
        await pilot.press("n")
        assert "shifted" not in view.status
        await pilot.press("left")
        assert view.status.endswith(f"shifted by {view.left}: Left moves back")
        assert "needle" in texts(view)[0]
        await pilot.press("left")
        assert "shifted" not in view.status


async def test_a_match_is_gone_to_in_wrapped_lines_too() -> None:
    async with shown([f"{number}" + "abcdefghijklmnopq" for number in range(10, 40)], size=(11, 6)) as (view, pilot):
        assert texts(view)[-1] == "39abcdefg›"
        view.search("25")
        await pilot.press("w", "n")
        assert "25abcdefgh" in texts(view)
        await until(lambda: "match 1 of 1" in view.status)


async def test_a_text_without_a_match_is_named_and_nothing_moves() -> None:
    async with shown(numbered(100)) as (view, pilot):
        await pilot.press("n")
        assert view.status == "100 lines · no match to go to: press / to search · following"
        view.search("nowhere")
        await pilot.press("n")
        assert view.status == '100 lines · no match of "nowhere" · following'
        view.search("line")
        await pilot.press("N")
        assert view.status.startswith("100 lines · match 100 of 100 ·"), "it begins at the lowest line in sight"


async def test_a_search_goes_through_the_lines_of_the_filter_alone() -> None:
    async with shown([f"{colour} {number}" for number in range(50) for colour in ("red", "blue")]) as (view, pilot):
        assert texts(view)[-1] == "blue 49"
        view.search("1")
        view.filter("red")
        await until(lambda: texts(view)[-1] == "red 49")
        await pilot.press("g", "n", "n")
        assert view.status == '50 of 100 lines with "red" · match 2 of 14 · paused at line 17'
        assert [text for text, style, _ in view.render_line(2) if style and style.reverse] == ["1"]
        view.filter("")
        await until(lambda: "match 3 of 28" in view.status)


# Marks


@pytest.mark.parametrize(
    ("quote", "line", "is_found"),
    [
        ("ValueError: bad batch", "(Worker pid=7) \x1b[36mValueError:  bad\tbatch\x1b[0m", True),
        ("login with token=••• failed", "login with token=hf_abc failed", True),
        ("login with token=••• failed", "failed: login with token=hf_abc", False),
        ("a long line that is c…", "a long line that is cut somewhere", True),
        ("bell \N{REPLACEMENT CHARACTER} rings", "bell \x07 rings", True),
        ("•••", "anything", False),
        ("ValueError: bad batch", "ValueError: good batch", False),
    ],
)
def test_a_quote_finds_its_line_however_it_was_cleaned(quote: str, line: str, is_found: bool) -> None:
    assert found(log_of(["other", line]), QuoteSearch([quote])) == [1] * is_found


async def test_a_log_with_marks_opens_at_the_last_marked_line() -> None:
    async with shown() as (view, pilot):
        view.mark(["line 30", "line 60\n", ""])
        view.extend(numbered(100))
        await until(lambda: "marked line 2 of 2" in view.status)
        assert "▌line 60" in texts(view)
        assert not view.follow
        await pilot.press("n")
        assert "marked line 1 of 2, from the top" in view.status
        assert "▌line 30" in texts(view)
        await pilot.press("N")
        assert "marked line 2 of 2, from the end" in view.status


async def test_marked_lines_have_a_sign_and_a_colour_and_the_others_stand_below_each_other() -> None:
    async with shown(size=(12, 5)) as (view, pilot):
        view.mark(["boom"])
        view.extend(["fine", "a \x1b[32mboom\x1b[0m and more"])
        await until(lambda: texts(view)[:2] == [" fine", "▌a boom and›"[:10] + "›"])
        plain, marked = view.render_line(0), view.render_line(1)
        assert plain.cell_length == marked.cell_length == 11
        grounds = [{style.bgcolor for _, style, _ in strip if style} for strip in (plain, marked)]
        assert grounds[0] != grounds[1]
        await pilot.press("w")
        assert texts(view)[:3] == [" fine", "▌a boom and", "▌ more"]


async def test_a_marked_line_that_is_longer_than_the_screen_is_shown_from_its_begin() -> None:
    line = "ValueError: " + "x" * 100
    async with shown(size=(40, 5)) as (view, _):
        view.mark([line])
        view.extend([*numbered(10), line, *numbered(10)])
        await until(lambda: "marked line 1 of 1" in view.status)
        assert any(text.startswith("▌ValueError: xxx") for text in texts(view))


async def test_a_log_whose_marks_are_not_there_follows_and_says_so() -> None:
    async with shown() as (view, _):
        view.mark(["nowhere"])
        assert (view.status, view.note) == ("0 lines · following", "")
        view.extend(numbered(100))
        await until(lambda: view.note == "The line of the error is not among the 100 lines here")
        assert view.status == "100 lines · following"
        assert texts(view)[-1] == " line 99"


async def test_a_marked_line_that_comes_after_the_opening_moves_no_reader() -> None:
    now = [0.0]
    async with shown(clock=lambda: now[0]) as (view, _):
        view.mark(["0"])
        view.extend(numbered(11))
        await until(lambda: "marked line 2 of 2" in view.status)
        view.extend(numbered(10, 11))
        await until(lambda: "marked line 3 of 3" in view.status)
        now[0] = 10.0
        view.extend(numbered(80, 21))
        await until(lambda: "marked line 3 of 11" in view.status)


async def test_a_reader_who_moves_is_not_taken_to_a_marked_line() -> None:
    async with shown(clock=lambda: 0.0) as (view, pilot):
        view.mark(["line 199"])
        view.extend(numbered(100))
        await until(lambda: texts(view)[-1] == " line 99")
        await pilot.press("g")
        view.extend(numbered(100, 100))
        await until(lambda: "1 marked line" in view.status)
        assert texts(view)[0] == " line 0"


async def test_a_search_goes_before_marks_and_leaves_them_visible() -> None:
    async with shown() as (view, pilot):
        view.mark(["line 3"])
        view.extend(numbered(9))
        await until(lambda: "marked line 1 of 1" in view.status)
        view.search("5")
        await pilot.press("n")
        assert "match 1 of 1" in view.status
        assert texts(view)[3] == "▌line 3"
        view.search("")
        await until(lambda: "1 marked line" in view.status)


async def test_a_search_while_the_log_opens_is_not_taken_back_to_the_marked_line() -> None:
    async with shown(clock=lambda: 0.0) as (view, pilot):
        view.mark(["line 66"])
        view.extend(numbered(100))
        await until(lambda: "marked line 1 of 1" in view.status)
        assert "▌line 66" in texts(view)
        top = texts(view)[0].strip()
        view.search("line 6")
        await pilot.press("n")
        assert texts(view)[0].strip() == top
        assert "match 6 of 11" in view.status
