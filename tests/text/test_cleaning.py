from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.text import clean

CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")
ODD = "\x00\x07\x1b[]m\x9b\r\n\t\u202e\u2066\u200b\u200d\ufeff\u115f\U000e0041\U000e0100\ud800漢é a"


@given(st.text() | st.text(st.sampled_from(ODD)))
def test_cleaned_text_has_nothing_that_controls_hides_or_reorders(text):
    cleaned = clean(text)
    assert not [char for char in cleaned if category(char) in CONTROLS]
    assert len(cleaned) <= len(text), "only marks that are stacked too high become one sign"


def test_no_control_of_unicode_is_forgotten():
    assert not [hex(code) for code in range(0x110000) if category(char := chr(code)) in CONTROLS and clean(char) == char]


@given(st.text() | st.text(st.sampled_from(ODD)))
def test_cleaning_twice_changes_nothing(text):
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize("text", ["python train.py --lr=1e-6", "[/]", "漢字", "naïve café", "👩 ❤"])
def test_ordinary_text_is_unchanged(text):
    assert clean(text) == text


def test_a_break_becomes_a_space_and_a_control_can_be_seen():
    assert clean("a\tb\nc\rd") == "a b c d"
    assert clean("a\x1b[31mb") == "a\N{REPLACEMENT CHARACTER}[31mb"
