"""A time is read and written as people do."""

from __future__ import annotations

from datetime import datetime

import pytest

from cockpit.times.clock import Clock
from cockpit.times.moments import format_time, parse_moment, parse_span


@pytest.fixture(autouse=True)
def shift(monkeypatch):
    """The wall clock was not set since cockpit's start, whatever happens on this machine."""
    monkeypatch.setattr(Clock, "shift", lambda _: 0.0)


def at(*parts):
    return datetime(*parts).timestamp()


def on(*parts):
    return at(2026, 11, *parts)


NOW = on(22, 9, 0)
WITH_ZONE = 1795144200.0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("03:10", on(22, 3, 10)),
        ("3:10:20", on(22, 3, 10, 20)),
        ("9:00", NOW),
        ("23:30", on(21, 23, 30)),
        ("11-20 03:10", on(20, 3, 10)),
        ("12-31 03:10", at(2025, 12, 31, 3, 10)),
        ("2026-11-20 03:10", on(20, 3, 10)),
        ("2026-11-20T03:10:05", on(20, 3, 10, 5)),
        ("2026-11-20T03:10:00+00:00", WITH_ZONE),
        ("2026-11-20T03:10:00Z", WITH_ZONE),
        ("-20m", NOW - 1200),
        ("-1.5h", NOW - 5400),
        ("-1h30m", NOW - 5400),
        (" - 1d 2h ", NOW - 26 * 3600),
    ],
)
def test_a_time_means_its_last_occurrence_and_a_duration_counts_back(typed, meant):
    assert parse_moment(typed, NOW) == pytest.approx(meant, abs=1e-3)


def test_a_second_can_be_read_as_its_end_and_a_duration_can_not():
    assert parse_moment("03:10:20", NOW, at_its_end=True) == pytest.approx(on(22, 3, 10, 20) + 0.999, abs=1e-4)
    assert parse_moment("-20m", NOW, at_its_end=True) == parse_moment("-20m", NOW)


def test_after_the_wall_clock_was_set_a_typed_time_is_that_of_the_wall_clock(monkeypatch):
    monkeypatch.setattr(Clock, "shift", lambda _: 100.0)
    assert parse_moment("03:10", NOW) == on(22, 3, 10) + 100.0
    assert format_time(on(22, 3, 10, 20) + 100.0, NOW) == "03:10:20"


INVALID = """
soon|yesterday|3|25:00|03:99|03:10..|20m|-|-20|-20y|-20 m x|9999999|-99999999999d|13-40 03:10|0000-01-01 03:10|02-30 03:10
""".strip()


@pytest.mark.parametrize("typed", ["", *INVALID.split("|")])
def test_an_invalid_time_is_refused_with_examples(typed):
    with pytest.raises(ValueError, match=r"expected a time such as 03:10, .*-20m"):
        parse_moment(typed, NOW)


def test_the_29th_of_february_is_that_of_the_last_leap_year_or_refused():
    assert parse_moment("02-29 03:10", at(2028, 3, 1, 0, 0)) == pytest.approx(at(2028, 2, 29, 3, 10))
    with pytest.raises(ValueError, match="expected a time"):
        parse_moment("02-29 03:10", at(2028, 2, 1, 0, 0))


def test_a_time_has_its_date_only_if_it_is_on_another_day():
    assert format_time(on(22, 3, 10, 20), NOW) == "03:10:20"
    assert format_time(on(21, 3, 10, 20), NOW, seconds=False) == "11-21 03:10"
    assert format_time(at(2025, 11, 22, 3, 10, 20), NOW) == "2025-11-22 03:10:20"
    assert format_time(float("inf"), NOW) == "–"


@pytest.mark.parametrize(
    ("typed", "span"),
    [
        ("02:10..02:40", (on(22, 2, 10), on(22, 2, 40))),
        ("23:50..00:10", (on(21, 23, 50), on(22, 0, 10))),
        ("-1h..-30m", (NOW - 3600, NOW - 1800)),
        ("-1h..", (NOW - 3600, NOW)),
    ],
)
def test_a_span_is_two_times(typed, span):
    assert parse_span(typed, NOW) == pytest.approx(span, abs=1e-3)


@pytest.mark.parametrize("text", ["02:10", "02:10..02:10", "-30m..-1h", "..02:10"])
def test_an_invalid_span_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_span(text, NOW)
