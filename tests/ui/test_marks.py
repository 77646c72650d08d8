"""Small graphics: fixed scales, unknown is never zero, and the same in ASCII."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.ui.marks import bar, chart, fill_short_gaps, heat, merge, spark

FRACTION = st.none() | st.floats()


def text(pieces: tuple[tuple[str, str], ...]) -> str:
    return "".join(piece for piece, _ in pieces)


@pytest.mark.parametrize(
    ("values", "width", "drawn", "plain"),
    [
        ([100.0] * 4, 4, "████", "####"),
        ([0.0, 0.0], 2, "▁▁", ".."),  # the lowest sign, and not blank
        ([100.0, None, float("nan"), 0.0], 4, "█  ▁", "#  ."),
        ([0.0, 0.0, 100.0], 2, "▁█", ".#"),  # the oldest go
        ([100.0], 3, "  █", "  #"),  # the newest is at the right
        ([], 3, "   ", "   "),
        ([50.0], 0, "", ""),
    ],
)
def test_a_spark_has_the_newest_at_the_right_gaps_and_a_sign_for_zero(values, width, drawn, plain):
    assert (spark(values, width), spark(values, width, ascii=True)) == (drawn, plain)


def test_the_scale_of_a_spark_is_fixed() -> None:
    assert spark([40.0, 41.0], 2) == "▄▄"
    assert spark([1.0, 2.0], 2, top=2.0) == "▅█"
    assert spark([6.0, 19.0, 31.0, 44.0, 56.0, 69.0, 81.0, 94.0], 8) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("fraction", "drawn", "plain"),
    [
        (0.0, "····", "...."),
        (0.55, "██▏·", "##.."),
        (1.0, "████", "####"),
        (0.5, "██··", "##.."),
        (0.001, "▏···", "#..."),  # it is not empty
        (0.999, "███▉", "###."),  # it is not full
    ],
)
def test_a_bar_grows_by_eighths_and_looks_neither_empty_nor_full_where_it_is_not(fraction, drawn, plain):
    assert (text(bar(fraction, 4)), text(bar(fraction, 4, ascii=True))) == (drawn, plain)


def test_the_kill_line_is_drawn_into_the_bar_which_is_bad_beyond_it_and_unknown_is_a_dash() -> None:
    assert bar(0.5, 8, 0.75) == (("████", "mid"), ("··", "faint"), ("│", "kill"), ("·", "faint"))
    assert bar(0.5, 8, 0.75, ascii=True) == (("####", "mid"), ("..", "faint"), ("|", "kill"), (".", "faint"))
    assert text(bar(0.5, 8, 1.0)) == "████···│"
    assert bar(0.9, 10, 0.5) == (("█████", "bad"), ("│", "kill"), ("███", "bad"), ("·", "faint"))
    assert bar(None, 4, 0.5) == (("–   ", "dim"),)
    assert bar(float("nan"), 4, ascii=True) == (("?   ", "dim"),)


@given(FRACTION, st.integers(0, 40), FRACTION, st.booleans())
def test_a_bar_is_as_wide_as_asked(fraction: float | None, width: int, mark: float | None, plain: bool) -> None:
    assert len(text(bar(fraction, width, mark, ascii=plain))) == width


@given(st.lists(FRACTION), st.integers(0, 60), st.booleans())
def test_a_spark_is_as_wide_as_asked(values: list[float | None], width: int, plain: bool) -> None:
    drawn = spark(values, width, ascii=plain)
    assert len(drawn) == width
    assert not plain or drawn.isascii()


def test_heat_tells_none_low_mid_high_unknown_and_lost_apart() -> None:
    cells = [heat(0.0), heat(0.3), heat(0.7), heat(0.99), heat(None), heat(0.5, lost=True)]
    assert cells == [("▁", "faint"), ("▃", "low"), ("▆", "mid"), ("█", "high"), ("–", "dim"), ("✖", "bad")]
    plain = [heat(fraction, ascii=True)[0] for fraction in (0.0, 0.3, 0.99, None)]
    assert [*plain, heat(None, lost=True, ascii=True)[0]] == [".", "-", "#", "?", "X"]


def test_a_node_of_eight_gpus_is_eight_cells() -> None:
    cells = merge(heat(fraction) for fraction in (0.9, 0.9, 0.9, 0.0, None, 0.4, 0.4, 1.0))
    assert len(text(cells)) == 8
    assert all(before[1] != after[1] for before, after in pairwise(cells))


def drawn(*args, **more) -> list[str]:
    return [text(row) for row in chart(*args, **more)]


def test_a_chart_rises_with_its_values_and_shades_what_lies_ahead() -> None:
    assert drawn([0, 25, 50], [75, 100], 4, 100) == ["    ░", "   ░░", "  █░░", " ██░░"]
    assert drawn([0, 25, 50], [75, 100], 4, 100, ascii=True) == ["    :", "   ::", "  #::", " ##::"]
    assert drawn([10, 90, None], [60, 90], 4, 100, 80) == ["─▅──░", " █ ░░", " █ ░░", "▄█ ░░"], "the line lies behind the past"
    assert drawn([10], [], 2, 100, 80, ascii=True)[0] == "-"
    assert drawn([None, 100], [], 2, 100) == [" █", " █"], "a gap is blank"


def test_what_is_beyond_the_line_is_bad() -> None:
    (row,) = chart([70, 90], [90], 1, 100, 80)
    assert [tone for _, tone in row] == ["mid", "bad", "kill"]


@given(st.lists(FRACTION, max_size=20), st.lists(st.floats(), max_size=5), st.integers(1, 9), FRACTION)
def test_a_chart_fits_its_columns_whatever_it_is_given(past, ahead, height, mark) -> None:
    for plain in (False, True):
        rows = drawn(past, ahead, height, 1.0, mark, ascii=plain)
        assert [len(row) for row in rows] == [len(past) + len(ahead)] * height


def test_a_value_holds_for_some_steps_without_news_and_what_is_longer_stays_unknown():
    assert fill_short_gaps([None, 1.0, None, 2.0, None, None, None, 3.0, None], 2) == [None, 1.0, 1.0, 2.0, 2.0, 2.0, None, 3.0, 3.0]
