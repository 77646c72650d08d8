"""A moment as it is typed and read."""

from __future__ import annotations

from datetime import datetime

import pytest

from cockpit.clock import CLOCK
from cockpit.moment import moment_text, parse_moment, parse_span


def at(*parts):
    return datetime(*parts).timestamp() + CLOCK.shift()


NOW = at(2026, 11, 22, 9, 0)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("03:10", (2026, 11, 22, 3, 10)),
        ("3:10:20", (2026, 11, 22, 3, 10, 20)),
        ("9:00", (2026, 11, 22, 9, 0)),
        ("23:30", (2026, 11, 21, 23, 30)),
        ("11-20 03:10", (2026, 11, 20, 3, 10)),
        ("12-31 03:10", (2025, 12, 31, 3, 10)),
        ("2026-11-20 03:10", (2026, 11, 20, 3, 10)),
        ("2026-11-20T03:10:05", (2026, 11, 20, 3, 10, 5)),
        ("-20m", (2026, 11, 22, 8, 40)),
        ("-1h30m", (2026, 11, 22, 7, 30)),
        (" - 1d 2h ", (2026, 11, 21, 7, 0)),
    ],
)
def test_a_time_is_the_last_such_and_a_duration_counts_back(typed, meant):
    assert parse_moment(typed, NOW) == pytest.approx(at(*meant))


def test_a_second_may_be_meant_at_its_end_and_a_duration_never_is():
    assert parse_moment("03:10:20", NOW, at_its_end=True) == pytest.approx(at(2026, 11, 22, 3, 10, 20) + 0.999, abs=1e-4)
    assert parse_moment("-20m", NOW, at_its_end=True) == parse_moment("-20m", NOW)


@pytest.mark.parametrize("typed", ["", "soon", "25:00", "03:99", "20m", "-", "13-40 03:10", "0000-01-01 03:10", "-20 m x", "02-30 03:10"])
def test_what_is_no_time_is_refused_with_examples(typed):
    with pytest.raises(ValueError, match=r"expected a time such as 03:10, .*-20m"):
        parse_moment(typed, NOW)


def test_the_29th_of_february_is_that_of_the_last_leap_year_or_refused():
    assert parse_moment("02-29 03:10", at(2028, 3, 1, 0, 0)) == pytest.approx(at(2028, 2, 29, 3, 10))
    with pytest.raises(ValueError, match="expected a time"):
        parse_moment("02-29 03:10", at(2028, 2, 1, 0, 0))


def test_a_moment_has_its_date_only_where_it_is_of_another_day():
    assert moment_text(at(2026, 11, 22, 3, 10, 20), NOW) == "03:10:20"
    assert moment_text(at(2026, 11, 21, 3, 10, 20), NOW, seconds=False) == "11-21 03:10"
    assert moment_text(at(2025, 11, 22, 3, 10, 20), NOW) == "2025-11-22 03:10:20"
    assert moment_text(float("inf"), NOW) == "–"


MORNING = datetime(2026, 11, 23, 9, 30).timestamp()


def on(*parts):
    return datetime(2026, 11, *parts).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("03:10", on(23, 3, 10)),
        ("03:10:30", on(23, 3, 10, 30)),
        ("23:50", on(22, 23, 50)),
        ("-20m", MORNING - 1200),
        ("-1.5h", MORNING - 5400),
        ("2026-11-20T03:10", on(20, 3, 10)),
        ("2026-11-20 03:10", on(20, 3, 10)),
        ("2026-11-20T03:10:00+00:00", 1795144200.0),
        ("2026-11-20T03:10:00Z", 1795144200.0),
    ],
)
def test_moments_are_read_as_people_type_them(text, moment):
    assert parse_moment(text, MORNING) == moment


@pytest.mark.parametrize("text", ["", "3", "25:00", "-20", "-20y", "yesterday", "9999999", "03:10..", "-99999999999d"])
def test_what_is_no_moment_is_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match="expected a time such as 03:10"):
        parse_moment(text, MORNING)


def test_a_span_is_two_moments():
    assert parse_span("02:10..02:40", MORNING) == (on(23, 2, 10), on(23, 2, 40))
    assert parse_span("23:50..00:10", MORNING) == (on(22, 23, 50), on(23, 0, 10))
    assert parse_span("-1h..-30m", MORNING) == (MORNING - 3600, MORNING - 1800)
    assert parse_span("-1h..", MORNING) == (MORNING - 3600, MORNING)


@pytest.mark.parametrize("text", ["02:10", "02:10..02:10", "-30m..-1h", "..02:10"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_span(text, MORNING)
