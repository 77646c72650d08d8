"""The line of time: what happened where, what was not recorded, and what a click means."""

from __future__ import annotations

import pytest

from cockpit.ui.time_line import SPANS_S, Stretch, draw_line, event_mark, moment_of, stretch_around
from tests.ui.recordings import Happened
from tests.world import NOW

HOUR = Stretch(NOW - 3600, NOW, (NOW - 3600, NOW))


def track(stretch, moment=NOW - 1, width=80, plain=False):
    """The line without its labels."""
    pieces, first, count = draw_line(stretch, moment, NOW, width, ascii=plain)
    line = "".join(text for text, _ in pieces)
    assert len(line) == width
    return line[first : first + count]


def with_events(*events, **more):
    return Stretch(HOUR.begin, HOUR.end, more.get("recorded", HOUR.recorded), more.get("gaps", ()), events)


def test_an_event_stands_where_it_happened_and_its_sign_says_what_it_was():
    line = track(with_events(Happened(NOW - 1800, "finding", "lost", "critical"), Happened(NOW - 900, "job", "ended", phase="end")))
    assert line.index("◆") == len(line) // 2
    assert line.index("○") == len(line) * 3 // 4


def test_each_kind_looks_different_also_without_colours():
    kinds = [("finding", "critical"), ("finding", "warning"), ("finding", "info"), ("fault", None), ("act", None), ("job", None)]
    events = [Happened(NOW, kind, "x", level) for kind, level in kinds]
    events += [Happened(NOW, kind, "x", phase="end") for kind in ("finding", "job")]
    events += [Happened(NOW, "checkpoint", "a later cockpit records it")]
    for plain in (False, True):
        assert len({event_mark(event, ascii=plain)[0] for event in events}) == len(events)


def test_of_several_in_one_cell_the_worst_is_drawn():
    both = (Happened(NOW - 1800, "finding", "a", "critical"), Happened(NOW - 1799, "finding", "b", "info"))
    assert "◆" in track(with_events(*both))
    assert "◆" in track(with_events(*reversed(both)))


def test_what_was_not_recorded_looks_neither_recorded_nor_like_an_event():
    line = track(with_events(recorded=(NOW - 2700, NOW), gaps=((NOW - 1800, NOW - 900),)))
    assert line[: len(line) // 4 - 1].strip() == ""
    assert set(line[len(line) // 2 + 1 : len(line) * 3 // 4 - 1]) == {"·"}
    assert line[-3] == "─"


def test_the_moment_that_is_shown_is_marked_and_leaves_the_event_there_readable():
    pieces, _, _ = draw_line(with_events(Happened(NOW - 1800, "act", "stop")), NOW - 1800, NOW, 80, ascii=False)
    assert [text for text, tone in pieces if tone == "cursor"] == ["»"]
    assert "┃" in track(HOUR, NOW - 900)
    assert "┃" not in track(HOUR, NOW - 7200)
    assert all(draw_line(HOUR, NOW - 1, NOW, width, ascii=False)[2] >= 1 for width in (1, 10, 30)), "no width breaks it"


def test_the_chart_is_ascii_in_an_ascii_terminal():
    events = [Happened(NOW - 60 * place, kind, "x") for place, kind in enumerate(("finding", "fault", "act", "job", "else"), 3)]
    assert track(with_events(*events, gaps=((NOW - 1800, NOW - 900),)), plain=True).isascii()


@pytest.mark.parametrize("span", SPANS_S)
def test_the_stretch_stays_while_its_middle_half_holds_the_moment(span):
    begin, end = stretch_around(NOW, span)
    assert end - begin == span
    assert begin + span / 4 <= NOW <= end - span / 4
    assert stretch_around(begin + span / 4, span) == stretch_around(begin + span * 0.74, span) == (begin, end)


def test_a_click_on_a_sign_means_its_event_and_elsewhere_the_time():
    stretch = with_events(Happened(NOW - 1790, "act", "stop"), Happened(NOW - 1795, "act", "kill"))
    assert moment_of(stretch, 30, 60) == NOW - 1790
    assert moment_of(stretch, 0, 60) == NOW - 3600 + 30
