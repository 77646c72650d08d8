"""A log view: hostile lines stay text, a flood does not hold up keys, and what is being read stays in sight."""

from __future__ import annotations

import asyncio
from time import perf_counter
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseScrollUp

from cockpit.ui.log_colours import MAX_DRAWN_CHARS, drop_overwritten, split_line, strip_sequences
from tests.growth import is_linear
from tests.ui.logs import Shown, numbered, shown, texts, until

HOSTILE = (
    "\x1b]0;PWNED\x07title",
    "\x1b]52;c;aGk=\x07clipboard",
    "\x1b]52;c;aGk=",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31mC1 \x9d52;c;aGk=\x9c\x90x",
    "\x1b[2J\x1b[H\x1b[999A\x1b[?1049l cursor",
    "\x1b\x1b[K[31m made of two",
    "\x1bP1$r0m\x1b\\ device control",
    "\x1bc reset \x1b(0 charset \x1b=\x1b7",
    "\u202egnp.exe\u202c \u2066bidi\u2069 \u200bzero\u200d",
    "nul\x00bell\x07backspace\x08del\x7f vt\x0bff\x0c",
    "[@click=app.quit]x[/] [/] [red]y [bold",
    "two\nlines\u2028and\u2029three\x85four",
    "lone \ud800 surrogate",
    "\x1b[31",
    "\x1b[38;5m\x1b[38;2;1m\x1b[38m\x1b[999;;;9999999999999999999999m odd colours",
)


# A line


@pytest.mark.parametrize("line", HOSTILE)
async def test_no_hostile_line_reaches_the_terminal(line: str) -> None:
    async with shown([line, "the next"]) as (view, _):
        assert "the next" in texts(view)[1]
        for y in range(2):
            strip = view.render_line(y)
            assert strip.cell_length == view.scrollable_content_region.width
            for text, style, control in strip:
                assert not control
                assert not {character for character in text if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
                assert style
                assert style.link is None
                assert not style.meta


@given(st.text(st.sampled_from("\x1b[]0;31m\x07\\P\x9b\r\t ab\u202e漢8:?"), max_size=60))
def test_whatever_is_written_only_text_is_left(line: str) -> None:
    drawn = "".join(text for text, _ in split_line(line))
    assert all(category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in drawn)


def test_a_dropped_sequence_leaves_no_debris_and_markup_is_text() -> None:
    assert strip_sequences("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \x1b[Kdone\x1b[1A") == "link done"
    assert split_line("[@click=app.quit]x[/]")[0][0] == "[@click=app.quit]x[/]"


def styled(line: str) -> list[tuple[str, str]]:
    return [(text, str(style)) for text, style in split_line(line)]


def test_colours_of_a_log_are_kept() -> None:
    assert styled("a\x1b[31mb\x1b[1mc\x1b[22;38;5;200md\x1b[38;2;1;2;3;48;5;7me\x1b[mf") == [
        ("a", "none"),
        ("b", "color(1)"),
        ("c", "bold color(1)"),
        ("d", "color(200)"),
        ("e", "#010203 on color(7)"),
        ("f", "none"),
    ]
    assert styled("\x1b[92mgreen\x1b[39;103mground\x1b[49;3;4;7;9mall\x1b[23;24;27;29mnone") == [
        ("green", "color(10)"),
        ("ground", "on color(11)"),
        ("all", "italic underline reverse strike"),
        ("none", "none"),
    ]


def test_text_cannot_hide_in_its_ground() -> None:
    assert styled("\x1b[30;40mhidden") == [("hidden", "color(0)")]
    assert styled("\x1b[8;5mhidden") == [("hidden", "none")]


def test_a_progress_bar_shows_its_last_state_and_tabs_lead_to_columns() -> None:
    assert drop_overwritten("10%\r20%\r30%") == "30%"
    assert drop_overwritten("windows\r") == "windows"
    assert strip_sequences("\x1b[32m10%\r\x1b[K99%") == "99%"
    assert "".join(text for text, _ in split_line("a\x1b[31m\tb\tc")) == "a       b       c"


def test_secrets_are_not_drawn_however_they_are_coloured() -> None:
    line = "export HF_TOKEN=\x1b[31mhf_abcdefgh\x1b[0mijklmnop done"
    assert "".join(text for text, _ in split_line(line)) == "export HF_TOKEN=••• done"


def test_a_long_line_is_cut_and_so_is_a_secret_across_the_cut() -> None:
    line = "x" * (MAX_DRAWN_CHARS - 15) + " hf_" + "s" * 100
    drawn = "".join(text for text, _ in split_line(line))
    assert drawn.endswith("•••…")
    assert "sss" not in drawn
    assert len("".join(text for text, _ in split_line("y" * 100_000))) == MAX_DRAWN_CHARS + 1


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["token", "\x1b[1m", "\x1b]", "\x1b[1;", "1;", "漢", "eyJ-", "\x1b["])
def test_no_line_takes_longer_than_its_length(piece: str) -> None:
    assert is_linear(lambda times: split_line(f"a\x1b[{piece * times}"), 500)


# Following


async def test_the_end_is_in_sight_while_it_follows() -> None:
    async with shown(numbered(100)) as (view, _):
        view.extend(numbered(50, 100))
        await until(lambda: texts(view)[-1] == "line 149")
        assert view.status == "150 lines · following"


async def test_lines_from_before_the_screen_opened_are_shown() -> None:
    app = Shown()
    app.view.extend(["early"])
    async with app.run_test(size=(40, 10)):
        await until(lambda: texts(app.view)[0] == "early")


async def test_scrolling_up_stops_following_and_the_end_starts_it_again() -> None:
    async with shown(numbered(100)) as (view, pilot):
        await pilot.press("k", "up")
        assert texts(view)[0] == "line 88"
        view.extend(numbered(100, 100))
        await until(lambda: "200 lines" in view.status and len(view._rows) == 200)
        assert texts(view)[0] == "line 88"
        assert view.status == "200 lines · paused at line 89"
        await pilot.press("G")
        assert view.follow
        await until(lambda: texts(view)[-1] == "line 199")


async def test_every_key_moves_as_it_says_and_the_wheel_stops_following() -> None:
    async with shown(numbered(100)) as (view, pilot):
        tops = []
        for key in ("g", "j", "down", "pagedown", "pageup", "k", "home", "end"):
            await pilot.press(key)
            tops.append(texts(view)[0])
        assert tops == [f"line {n}" for n in (0, 1, 2, 11, 2, 1, 0, 90)]
        await pilot.press("pageup")
        assert not view.follow
        await pilot.press("pagedown")
        assert view.follow, "the end was reached by hand"
        view.post_message(MouseScrollUp(view, 1, 1, 0, -1, 0, shift=False, meta=False, ctrl=False))
        await until(lambda: not view.follow)


async def test_the_same_lines_stay_while_older_ones_are_cut() -> None:
    async with shown(numbered(100), max_lines=100) as (view, pilot):
        await pilot.press("pageup")
        before = texts(view)
        view.extend(numbered(40, 100))
        await until(lambda: view.lines.cut == 40 and view._rows[0] == 40)
        assert texts(view) == before
        assert view.status == "100 lines · paused at line 82 · older lines are cut: 40 (limit 100 lines, 128M)"
        view.extend(numbered(100, 140))
        await until(lambda: texts(view)[0] == "line 140")


async def test_one_endless_line_is_not_kept_whole() -> None:
    async with shown() as (view, _):
        view.extend(["x" * 10_000_000, "0%\r" * 10_000 + "100%"])
        assert view.lines.bytes < 20_000
        await until(lambda: texts(view)[1] == "100%")


async def test_a_secret_that_an_earlier_line_leads_up_to_is_not_drawn_wherever_the_reader_is() -> None:
    key = ["-----BEGIN PRIVATE KEY-----", *["c0ffee4dead9beef" * 4] * 60, "-----END PRIVATE KEY-----"]
    lines = [*numbered(50), *(f"\x1b[36m(pid=7)\x1b[0m {line}" for line in key), "password:", "  c0ffee4dead9", "saved"]
    async with shown(lines) as (view, pilot):
        assert texts(view)[-1] == "saved"
        drawn = texts(view)
        while "line 49" not in drawn:
            await pilot.press("k")
            drawn += texts(view)
        assert "(pid=7) •••" in drawn
        assert "  •••" in drawn
        assert not [line for line in drawn if "c0ffee" in line]


async def test_clear_begins_anew() -> None:
    async with shown(numbered(100), max_lines=50) as (view, pilot):
        await pilot.press("k")
        view.clear()
        assert view.status == "0 lines · following"
        assert not any(texts(view))
        view.extend(["again"])
        await until(lambda: texts(view)[0] == "again")


async def test_a_resize_keeps_the_end_in_sight() -> None:
    async with shown(numbered(100)) as (view, pilot):
        await pilot.resize_terminal(40, 5)
        await until(lambda: texts(view)[-1] == "line 99" and len(texts(view)) == 5)
        await pilot.resize_terminal(40, 20)
        await until(lambda: texts(view)[-1] == "line 99" and len(texts(view)) == 20)
        assert view.follow


# Filtering


async def test_the_filter_shows_the_lines_that_match_in_any_case() -> None:
    async with shown() as (view, _):
        view.extend(["an ERROR", "fine", "\x1b[31mer\x1b[0mror two", "fine"])
        view.filter("Error")
        await until(lambda: texts(view)[:3] == ["an ERROR", "error two", ""])
        assert view.status == '2 of 4 lines with "Error" · following'
        view.extend(["fine", "third error"])
        await until(lambda: texts(view)[2] == "third error")
        view.filter("third")
        await until(lambda: texts(view)[:2] == ["third error", ""])
        view.filter("an")
        await until(lambda: texts(view)[:2] == ["an ERROR", ""])
        view.filter("error", invert=True)
        await until(lambda: texts(view)[:4] == ["fine", "fine", "fine", ""])
        view.filter("")
        await until(lambda: texts(view)[5] == "third error")


async def test_the_text_of_the_filter_is_highlighted() -> None:
    async with shown() as (view, _):
        view.extend(["漢字 \x1b[31mthe er\x1b[0mror here"])
        view.filter("ERROR")
        await until(lambda: "error" in texts(view)[0])
        marked = "".join(text for text, style, _ in view.render_line(0) if style and style.reverse)
        assert marked == "error"


async def test_a_reader_stays_at_the_same_line_through_a_filter() -> None:
    async with shown(numbered(1000)) as (view, pilot):
        await pilot.press("g", *["pagedown"] * 30)
        top = texts(view)[0]
        assert top == "line 270"
        view.filter("0")
        await until(lambda: texts(view)[0] == "line 270" and texts(view)[1] == "line 280")
        view.filter("")
        await until(lambda: texts(view)[:2] == ["line 270", "line 271"])


async def test_the_filter_forgets_what_was_cut() -> None:
    async with shown(max_lines=100) as (view, _):
        view.filter("0")
        view.extend(numbered(100))
        await until(lambda: texts(view)[0] == "line 0")
        view.extend(["none"] * 95)
        await until(lambda: view.status == '0 of 100 lines with "0" · following · older lines are cut: 95 (limit 100 lines, 128M)')
        assert not any(texts(view))


async def test_of_a_million_lines_the_last_200_000_scroll_and_are_searched() -> None:
    async with shown(size=(120, 10)) as (view, pilot):
        for begin in range(0, 1_000_000, 10_000):
            view.extend(numbered(10_000, begin))
        await until(lambda: texts(view)[-1] == "line 999999")
        assert view.status == "200,000 lines · following · older lines are cut: 800,000 (limit 200,000 lines, 128M)"
        await pilot.press("g")
        assert texts(view)[0] == "line 800000"
        view.search("line 912345")
        await pilot.press("n")
        assert "line 912345" in texts(view)
        assert "match 1 of 1" in view.status
        view.filter("99999")
        assert view.status.startswith('11 of 200,000 lines with "99999"')


# Width


async def test_wide_characters_fill_two_cells() -> None:
    async with shown(["漢字" * 3, "漢" * 40, "é" * 5], size=(20, 5)) as (view, _):
        assert texts(view)[2] == "é" * 5
        for y in range(5):
            strip = view.render_line(y)
            assert strip.cell_length == view.scrollable_content_region.width == cell_len(strip.text)
        assert texts(view)[1].endswith("›")


async def test_long_lines_move_sideways_and_not_beyond_their_end() -> None:
    async with shown(["0123456789" * 5], size=(21, 5)) as (view, pilot):
        assert texts(view)[0] == "0123456789012345678›"
        await pilot.press("right")
        assert texts(view)[0] == "6789012345678901234›"
        await pilot.press("right", "right", "right")
        assert texts(view)[0] == "234567890123456789"
        await pilot.press("left", "left", "left")
        assert view.left == 0


# Wrapping


async def test_wrapped_lines_are_whole_and_the_end_stays_in_sight() -> None:
    async with shown([f"{number}" + "abcdefghijklmnopq" for number in range(10, 30)], size=(11, 6)) as (view, pilot):
        assert texts(view)[-1] == "29abcdefg›"
        await pilot.press("w")
        assert texts(view) == ["27abcdefgh", "ijklmnopq", "28abcdefgh", "ijklmnopq", "29abcdefgh", "ijklmnopq"]
        view.extend(["x" * 35])
        await until(lambda: texts(view) == ["29abcdefgh", "ijklmnopq", "x" * 10, "x" * 10, "x" * 10, "x" * 5])
        await pilot.press("w")
        assert texts(view)[-2:] == ["29abcdefg›", "x" * 9 + "›"]


async def test_wrapped_lines_scroll_by_lines_of_the_log_and_nothing_is_skipped() -> None:
    async with shown([f"{number}" + "abcdefghijklmnopq" for number in range(10, 30)], size=(11, 6)) as (view, pilot):
        assert texts(view)[-1] == "29abcdefg›"
        await pilot.press("w", "k")
        assert not view.follow
        assert texts(view)[0] == "26abcdefgh"
        await pilot.press("pageup")
        assert [line[:2] for line in texts(view)[::2]] == ["24", "25", "26"]
        await pilot.press("pagedown")
        assert texts(view)[0] == "26abcdefgh"
        await pilot.press("j")
        assert view.follow
        assert texts(view)[-2:] == ["29abcdefgh", "ijklmnopq"]
        await pilot.press("g")
        assert texts(view)[0] == "10abcdefgh"
        seen = {line[:2] for line in texts(view)[::2]}
        while not view.follow:
            await pilot.press("pagedown")
            seen |= {line[:2] for line in texts(view)[::2]}
        assert seen == {str(number) for number in range(10, 30)}


async def test_a_line_longer_than_the_screen_can_be_passed() -> None:
    async with shown(["first", "y" * 200, "last"], size=(11, 4)) as (view, pilot):
        assert texts(view)[2] == "last"
        await pilot.press("w")
        assert texts(view) == ["y" * 10, "y" * 10, "y" * 10, "last"]
        await pilot.press("g")
        assert texts(view)[:2] == ["first", "y" * 10]
        await pilot.press("pagedown")
        assert texts(view) == ["y" * 10] * 4
        await pilot.press("pagedown")
        assert texts(view)[-1] == "last"
        assert view.follow


async def test_wide_characters_and_empty_lines_wrap_whole() -> None:
    async with shown(["漢字" * 4, "", "end"], size=(10, 6)) as (view, pilot):
        assert texts(view)[2] == "end"
        await pilot.press("w")
        assert texts(view) == ["漢字漢字", "漢字漢字", "", "end", "", ""]
        assert {view.render_line(y).cell_length for y in range(6)} == {9}


async def test_ascii_draws_nothing_else() -> None:
    async with shown(["x" * 5000], size=(21, 5), ascii=True) as (view, _):
        assert texts(view)[0].endswith(">")
        view.filter("x")
        assert view.status.isascii()


async def test_another_theme_draws_anew() -> None:
    async with shown(["text"]) as (view, pilot):
        assert texts(view)[0] == "text"
        before = [style for _, style, _ in view.render_line(0)]
        pilot.app.theme = "textual-light"
        await pilot.pause()
        assert [style for _, style, _ in view.render_line(0)] != before


# Speed


@pytest.mark.slow
async def test_ten_thousand_lines_a_second_do_not_hold_up_the_keys() -> None:
    line = "\x1b[36m(WorkerDict pid=%d, ip=10.0.0.1)\x1b[0m step:%d - actor/loss:0.123 - reward/mean:1.25 - timing/gen:12.1s"
    lines = [line % (number, number) for number in range(500)]
    async with shown(size=(160, 50), max_lines=20_000) as (view, pilot):
        fed = answered = 0

        async def feed() -> None:
            nonlocal fed
            due = perf_counter()
            while True:
                view.extend(lines)
                fed, due = fed + 500, due + 0.05
                await asyncio.sleep(max(0, due - perf_counter()))

        feeding = asyncio.create_task(feed())
        await until(lambda: view.scroll_offset.y > 1000)
        while fed < 30_000:
            following = view.follow
            pilot.app.simulate_key("k" if following else "G")
            await until(lambda following=following: view.follow is not following)
            answered += 1
            await asyncio.sleep(0.02)
        feeding.cancel()
        assert answered > 5, "keys waited for the log"
