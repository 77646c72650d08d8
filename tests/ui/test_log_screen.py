"""The keys of a log on the real screen: search, filter, both, and the way back."""

from __future__ import annotations

from contextlib import asynccontextmanager

from textual import events
from textual.widgets import Input

from cockpit.ui.log_view import LogView
from cockpit.ui.screens.log import LogScreen
from tests.ui.logs import numbered
from tests.ui.screen import footer, press, running, said, shown, table_of, until

LINES = ["starting", "step 1 loss 0.9", "ERROR: NCCL timeout", "step 2 loss 0.8", "error again", "step 3 loss 0.7"]


@asynccontextmanager
async def log(make, lines=tuple(LINES), size=(120, 40)):
    app = make()
    app.monitor.logs.batches = [lines]
    async with running(app, size=size) as pilot:
        await press(pilot, "5", "l", then=lambda: lines[-1] in shown(app))
        yield app, pilot


def highlighted(app):
    """The texts that are drawn as found."""
    view = app.screen.query_one(LogView)
    return [text for y in range(view.size.height) for text, style, _ in view.render_line(y) if style and style.reverse]


def title(app):
    return " ".join(shown(app).splitlines()[0].split())


async def test_slash_highlights_as_one_types_and_hides_nothing(make):
    async with log(make) as (app, pilot):
        await press(pilot, "slash", *"er", then=lambda: highlighted(app) == ["ER", "er"])
        assert "step 3 loss 0.7" in shown(app)
        assert "/ er" in shown(app)
        await press(pilot, "r", then=lambda: highlighted(app) == ["ERR", "err"])
        assert "2 matches" in title(app)


async def test_enter_goes_to_the_next_match_and_n_on_from_there(make):
    async with log(make, numbered(200)) as (app, pilot):
        await press(pilot, "g", "slash", *"50", "enter", then=lambda: "match 1 of 2" in title(app))
        assert not app.screen.query_one(Input).has_focus
        await press(pilot, "n", then=lambda: "match 2 of 2 ·" in title(app))
        assert "line 150" in shown(app)
        await press(pilot, "n", then=lambda: "match 1 of 2, from the top" in title(app))
        await press(pilot, "N", then=lambda: "match 2 of 2, from the end" in title(app))
        await press(pilot, "slash", "enter", then=lambda: "match 1 of 2, from the top" in title(app))
        await press(pilot, "g", then=lambda: "paused at line 1" in title(app) and "line 0" in shown(app))
        await press(pilot, "f", then=lambda: "following" in title(app) and "line 199" in shown(app))


async def test_ampersand_shows_only_lines_with_the_text_and_with_an_exclamation_mark_those_without(make):
    async with log(make) as (app, pilot):
        await press(pilot, "ampersand", *"error", "enter", then=lambda: "step" not in shown(app))
        assert '2 of 6 lines with "error"' in title(app)
        await press(pilot, "ampersand", *"!step", "enter", then=lambda: '3 of 6 lines without "step"' in title(app))
        assert "starting" in shown(app)
        assert table_of(app).needle == ""


async def test_a_search_highlights_inside_the_filtered_lines(make):
    async with log(make) as (app, pilot):
        await press(pilot, "ampersand", *"step", "enter", "slash", *"loss", "enter", then=lambda: highlighted(app) == ["loss"] * 3)
        await until(pilot, lambda: '3 of 6 lines with "step" · match 1 of 3' in title(app))


async def test_escape_clears_what_was_opened_last_then_the_other_then_goes_back(make):
    for first, last in (("slash", "ampersand"), ("ampersand", "slash")):
        async with log(make) as (app, pilot):
            await press(pilot, first, *"step", "enter", last, *"step", "enter", then=lambda: "with" in title(app) and "match" in title(app))
            await pilot.press("escape")
            left = "match" if first == "slash" else "with"
            await until(pilot, lambda left=left: [word for word in ("match", "with") if word in title(app)] == [left])
            await press(pilot, "escape", then=lambda: "6 lines · " in title(app) and "match" not in title(app))
            assert highlighted(app) == []
            assert isinstance(app.screen, LogScreen)
            await press(pilot, "escape", then=lambda: not isinstance(app.screen, LogScreen))


async def test_escape_while_typing_clears_that_text_alone(make):
    async with log(make) as (app, pilot):
        await press(pilot, "ampersand", *"step", "enter", "slash", *"loss", then=lambda: highlighted(app) == ["loss"] * 3)
        await press(pilot, "escape", then=lambda: highlighted(app) == ["step"] * 3)
        await pilot.press("slash", "escape")
        assert '3 of 6 lines with "step"' in title(app)
        assert isinstance(app.screen, LogScreen)
        await pilot.press("escape", "slash", "enter", "escape")
        await until(pilot, lambda: not isinstance(app.screen, LogScreen))  # an empty text is nothing that escape must clear


async def test_what_is_typed_faster_than_it_is_drawn_goes_where_it_belongs(make):
    async with log(make, numbered(200)) as (app, pilot):
        keys = ["g", "ampersand", "5", "enter", "slash", "1", "q", "enter", "slash", "1", "enter", "n", "n", "w"]
        names = {"ampersand": "&", "enter": "\r", "slash": "/"}
        for key in keys:
            app.post_message(events.Key(key, names.get(key, key)))
        await until(pilot, lambda: "match 3 of" in title(app) and app.screen.query_one(LogView).wrap)
        assert 'lines with "5"' in title(app)
        assert [field.value for field in app.screen.query(Input)] == ["1", "5"]


async def test_the_footer_has_the_keys_of_the_log_that_mean_something_now(make):
    async with log(make, size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: all(key in footer(app) for key in ("/ Search", "& Filter", "w Wrap", "f Follow", "Esc Back", "? Help")))
        assert not any(key in footer(app) for key in ("Enter", "n Next", "o Other log"))
        await press(pilot, "o", then=lambda: "no other log" in said(app))
        await press(pilot, "slash", "1", then=lambda: "Enter Keep" in footer(app) and "/ Search" not in footer(app))
        await press(pilot, "enter", then=lambda: "n Next" in footer(app))
        await press(pilot, "escape", then=lambda: "n Next" not in footer(app))


async def test_help_within_the_log_lists_its_keys_and_no_others(make):
    for key in ("h", "question_mark"):
        async with log(make, size=(120, 50)) as (app, pilot):
            await press(pilot, key, then="Help: log")
            for description in ("Highlight a text", "Show only lines that contain a text", "next match", "previous match", "newest line"):
                assert description in app.screen.text
            for binding in (*LogScreen.BINDINGS, *LogView.BINDINGS):
                assert binding.description in app.screen.text
            assert "Kinds of processes" not in app.screen.text
            assert "textual" not in app.screen.text
            await press(pilot, "escape", then=lambda: isinstance(app.screen, LogScreen))


async def test_a_log_of_the_process_before_a_restart_is_never_called_live(make):
    app = make()
    app.monitor.logs.found = (
        app.monitor.logs.log("err-before", ["Traceback"], waits=True),
        app.monitor.logs.log("err", ["step 1"], waits=True),
    )
    async with running(app) as pilot:
        await press(pilot, "5", "l", then="Traceback")
        assert "the process has ended" in title(app)
        assert "live" not in title(app)
        await press(pilot, "o", then="step 1")
        assert "live" in title(app)
