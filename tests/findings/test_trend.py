"""A number over time: its past with its gaps, its growth, and when it reaches a line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.findings.trend import Series, find_trend, seconds_until

FINITE = st.floats(-1e9, 1e9, width=32)


def test_the_line_is_reached_when_the_growth_reaches_it():
    assert seconds_until(700, 1000, 5) == 60
    assert seconds_until(1000, 1000, -5) == 0
    assert seconds_until(700, 1000, 0) is None
    assert seconds_until(700, 1000, -5) is None


@given(st.lists(st.tuples(st.integers(1, 5), FINITE), max_size=40), st.integers(0, 30), st.integers(1, 60))
def test_a_series_gives_back_what_was_put_into_it_and_gaps_for_the_rest(puts, later, width):
    series, step, known = Series(0, 180), 0, {}
    for pause, value in puts:
        step += pause
        series.put(step, value)
        known[step] = value
    now = step + later
    assert series.tail(now, width) == [known.get(at) for at in range(now - width + 1, now + 1)]


def test_no_more_is_kept_than_asked_for():
    series = Series(0, 3)
    for step in range(9):
        series.put(step, step)
    assert (len(series.values), series.tail(8, 5)) == (3, [None, None, 6, 7, 8])


@given(st.floats(0.001, 1e6), st.floats(0, 1e9))
def test_a_straight_line_is_steady_and_has_its_own_slope(slope, start):
    trend = find_trend([start + 5 * slope * at for at in range(9)], 5)
    assert trend is not None
    assert abs(trend.slope - slope) <= 1e-6 * slope + 1e-6 * start
    assert trend.steady or start > 1e4 * slope


def test_of_too_few_steps_no_trend_is_told():
    assert find_trend([1, 2, 3, 4, 5, None, None, None], 5) is None
