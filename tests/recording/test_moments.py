from __future__ import annotations

from datetime import datetime

import pytest

from cockpit.moment import parse_moment
from cockpit.recording.moments import parse_span

NOW = datetime(2026, 11, 23, 9, 30).timestamp()


def at(*parts):
    return datetime(2026, 11, *parts).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("03:10", at(23, 3, 10)),
        ("03:10:30", at(23, 3, 10, 30)),
        ("23:50", at(22, 23, 50)),
        ("-20m", NOW - 1200),
        ("-1.5h", NOW - 5400),
        ("2026-11-20T03:10", at(20, 3, 10)),
        ("2026-11-20 03:10", at(20, 3, 10)),
        ("2026-11-20T03:10:00+00:00", 1795144200.0),
        ("2026-11-20T03:10:00Z", 1795144200.0),
    ],
)
def test_moments_are_read_as_people_type_them(text, moment):
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "3", "25:00", "-20", "-20y", "yesterday", "9999999", "03:10..", "-99999999999d"])
def test_what_is_no_moment_is_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match="expected a time such as 03:10"):
        parse_moment(text, NOW)


def test_a_span_is_two_moments():
    assert parse_span("02:10..02:40", NOW) == (at(23, 2, 10), at(23, 2, 40))
    assert parse_span("23:50..00:10", NOW) == (at(22, 23, 50), at(23, 0, 10))
    assert parse_span("-1h..-30m", NOW) == (NOW - 3600, NOW - 1800)
    assert parse_span("-1h..", NOW) == (NOW - 3600, NOW)


@pytest.mark.parametrize("text", ["02:10", "02:10..02:10", "-30m..-1h", "..02:10"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_span(text, NOW)
