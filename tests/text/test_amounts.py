from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.text import UNKNOWN, age, count, percent, plural, ratio, size


def test_sizes_are_read_at_a_glance():
    amounts = (0, 999, 999.6, 1000, 9.96 * 1024, 512 << 20, 3.4 * (1 << 30), 80 << 30, 1 << 40)
    assert [size(amount) for amount in amounts] == ["0B", "999B", "1.0K", "1.0K", "10K", "512M", "3.4G", "80G", "1.0T"]


@given(st.floats(0, 1 << 59))
def test_no_size_is_wider_than_its_column(amount):
    assert len(size(amount)) <= 5


def test_ages_are_short():
    seconds = (0, -5, 59.9, 61, 187, 18120, 12 * 86400 + 4 * 3600, 200 * 86400)
    assert [age(each) for each in seconds] == ["0s", "0s", "59s", "1m01s", "3m07s", "5h02m", "12d04h", "200d"]


def test_quantities_are_as_short_as_they_can_be():
    assert [count(value) for value in (8.0, 0.25, 0.0, 12345.0)] == ["8", "0.25", "0", "12345"]
    assert percent(99.6) == "100%"
    assert [plural(1, "node"), plural(2, "node"), plural(0, "process", "processes")] == ["1 node", "2 nodes", "0 processes"]


def test_unknown_is_never_zero():
    assert {size(None), age(None), count(None), percent(None)} == {UNKNOWN}
    assert ratio(None, 5) is ratio(5, None) is ratio(5, 0) is None
    assert ratio(0, 5) == 0
