"""An answer is small and safe whatever it is made of."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.agents.answers import MAX_BYTES, Page, safe_text, write_answer
from cockpit.text import UNSAFE
from tests.agents.stage import texts_in

TEXTS = st.text(max_size=400) | st.sampled_from(["\x1b[31m" * 500, "\u202e" * 3_000, '"\\' * 5_000, "漢" * 9_000])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(TEXTS, inner, max_size=50),
    max_leaves=80,
)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abcdefgh"), VALUES), st.lists(VALUES, max_size=40))
def test_any_facts_make_a_small_safe_answer(head, rows):
    for written in (write_answer(head), write_answer(head, Page("rows", rows, lambda row: row))):
        assert len(written.encode()) < MAX_BYTES
        assert not {chr(code) for code in UNSAFE} & set("".join(texts_in(json.loads(written))))


def test_every_row_that_fits_is_there_and_the_rest_is_named():
    rows = [f"row {number} " + "x" * 100 for number in range(200)]
    answer = json.loads(write_answer({}, Page("rows", rows, lambda row: row)))
    assert answer["rows"] == rows[: answer["next"]]
    assert len(answer["rows"]) > 60
    assert answer["left_out"] == f"{200 - answer['next']} of 200 rows: call it again with start={answer['next']}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[36mhf_abcdefghijklmnopqrstuvwxyz12345678\x1b[0m", "•••"),
        ("Actor\x1b[36mhf_abcdefghijklmnopqrstuvwxyz12345678", "Actor •••"),
        ("two\nlines\x07", "two lines\N{REPLACEMENT CHARACTER}"),
        ("x" * 30, "xxxxxxxxxxxxxxxxxxxx… (10 more characters)"),
    ],
    ids=["a coloured secret", "a secret glued to a name by its colour", "controls", "too long"],
)
def test_a_foreign_text_is_one_safe_line(text, shown):
    assert safe_text(text, 20) == shown
