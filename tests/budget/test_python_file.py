"""Counts are read from plain assignments and keyword arguments of a Python file."""

from __future__ import annotations

import pytest

from cockpit.budget.python_file import read_assignments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n = 4", 4),
        ("m = 2\nn: int = m * 3 + 1 - m // 2", 6),
        ("call(n=8)", 8),
        ("n = 4\nn = f()", 4),
        ("n = f()", "\0"),
        ("import os\nn = int(os.environ.get('N', '3'))", 3),
        ("import os\nn = 1 if os.getenv('DEBUG') == '1' else 2", 2),
        ("n = 1 if not True else 5", 5),
        ("n = 1 // 0", "\0"),
        ("m = 999999999\n" + "m = m * m\n" * 60 + "n = m * m", "\0"),
        (f"n = 0x{'f' * 5000}", "\0"),
        (f"n = int(0x{'f' * 5000})", "\0"),
        (f"n = int('{'9' * 5000}')", "\0"),
    ],
)
def test_what_is_plain_is_read_and_the_rest_is_unknown(text: str, value: object):
    assert read_assignments(text, {})["n"] == value


def test_the_environment_answers():
    assert read_assignments("import os\nn = int(os.environ.get('N', '3'))", {"N": "7"}) == {"n": 7}


@pytest.mark.parametrize("text", ["n = ", "\0", "(" * 5000, f"x = {'-' * 50_000}1", f"x = {'not ' * 20_000}1", "n = 1\n" * 30_000])
def test_what_is_no_python_says_nothing(text: str):
    assert read_assignments(text, {}) == {}


def test_numbers_that_no_count_has_are_not_followed():
    text = "a = 99999999\n" + "a = a * a\n" * 12 + 'b = int("' + "9" * 5000 + '")\nc = 3'
    found = read_assignments(text, {})
    assert found["c"] == 3
    assert not isinstance(found["b"], int)
    assert not isinstance(found["a"], int) or found["a"] < 10**25
